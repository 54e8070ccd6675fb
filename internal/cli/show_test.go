package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

const attemptDoc = `{"schemaVersion":"counterfoil.attempt.v1","attemptId":"` + attemptID + `","state":"unknown","outcome":"unknown","revision":2,
"subject":{"kind":"tool_action","id":"write_file"},"action":{"name":"write\u202e_file","effectKind":"mcp.tools/call","effectMode":"destructive"},
"source":{"runtimeId":"run-1","agentId":"agent:a","invocationId":"3:17","protocol":"mcp/2025-11-25","implementation":"files@1"},"stage":"logged","treeSize":12,
"receipts":[
{"eventId":"evt_1","revision":1,"leafIndex":8,"lifecycle":"attempt","occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"w","effectKind":"k","effectMode":"m","phase":"intent","status":"requested"},"stage":"published","claimBoundary":"attempt_self_asserted_v1"},
{"eventId":"evt_2","revision":2,"leafIndex":13,"lifecycle":"outcome","occurredAt":"2026-07-28T00:00:01.000Z","action":{"name":"w","effectKind":"k","effectMode":"m","phase":"outcome","status":"unknown"},"reasonCodes":["timeout"],"stage":"logged","claimBoundary":"outcome_self_asserted_v1"}]}`

func TestEVI09_CLM01_GetShowsAnAttempt(t *testing.T) {
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/attempts/"+attemptID {
			t.Errorf("%s", r.URL)
		}
		answer(w, 200, attemptDoc)
	})
	e.run("get", attemptID, "--json").want(t, 0, attemptDoc+"\n", "")
	r := e.run("get", attemptID)
	want := `attempt   ` + attemptID + `
state     unknown
action    write\u{202e}_file (mcp.tools/call, destructive)
agent     agent:a
source    run-1 invocation 3:17
protocol  mcp/2025-11-25
server    files@1
stage     logged, newest checkpoint at 12 leaves

REV  LEAF  LIFECYCLE  STATUS     REASONS  OCCURRED                  STAGE      EVENT
1    8     attempt    requested  -        2026-07-28T00:00:00.000Z  published  evt_1
2    13    outcome    unknown    timeout  2026-07-28T00:00:01.000Z  logged     evt_2

attempt_self_asserted_v1
  A source that nobody verified says that it is about to act. This does not show that the action
  was authorised, sent, or happened; an attempt without an outcome is open and proves nothing.

outcome_self_asserted_v1
  A source that nobody verified says how its action ended. This does not show that the effect
  exists in the world, that it happened exactly once, or that the report is complete; unknown is
  not failed.
`
	r.want(t, 0, want, "")
}

func TestEVI14_CLM01_GetShowsAReceipt(t *testing.T) {
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/receipts/evt_1" {
			t.Errorf("%s", r.URL)
		}
		answer(w, 200, `{"eventId":"evt_1","eventType":"tool_action.attempt","attemptId":"`+attemptID+`","revision":1,"leafIndex":0,"stage":"published","treeSize":3,
"clockSkew":true,"occurredAt":"2026-07-28T00:00:00.000Z","capturedAt":"2026-07-29T00:00:00.000Z","ledger":"o","claimBoundary":"some_later_v9",
"sourceAttestation":{"level":"self_asserted","status":"unverified"},"source":{"runtimeId":"r","agentId":"a","invocationId":"i"},
"action":{"name":"w","effectKind":"k","effectMode":"m","phase":"intent","status":"requested"},"commitment":{"digest":"sha256:aa"}}`)
	})
	want := `event      evt_1
type       tool_action.attempt
attempt    ` + attemptID + `
revision   1
status     requested
action     w (k, m)
agent      a
source     r invocation i
assurance  self_asserted, unverified
occurred   2026-07-28T00:00:00.000Z
captured   2026-07-29T00:00:00.000Z
clocks     the two times are more than 60 s apart; the order is the leaf index
ledger     o
leaf       0
stage      published, in the tree of 3 leaves
digest     sha256:aa

some_later_v9
  this program does not know the text of this boundary
`
	e.run("get", "evt_1").want(t, 0, want, "")
}

func TestEVI09_ListQueries(t *testing.T) {
	var got string
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path + "?" + r.URL.Query().Encode()
		answer(w, 200, `{"treeSize":9,"attempts":[]}`)
	})
	for args, want := range map[string]string{
		"":               "/v1/attempts?limit=50",
		"--open":         "/v1/attempts?limit=50&state=open",
		"--unknown":      "/v1/attempts?limit=50&state=unknown",
		"--state failed": "/v1/attempts?limit=50&state=failed",
		"--tool t --agent a --from 2026-07-28 --to 2026-07-28T01:00:00+01:00": "/v1/attempts?agent=a&from=2026-07-28T00%3A00%3A00.000Z&limit=50&to=2026-07-28T00%3A00%3A00.000Z&tool=t",
		"--unknown --older-than 36h":                                          "/v1/attempts?limit=50&state=unknown&to=2026-07-26T12%3A00%3A00.000Z",
		"--status failed":                                                     "/v1/receipts?limit=50&status=failed",
		"--lifecycle outcome --kind x --limit 1":                              "/v1/receipts?kind=x&lifecycle=outcome&limit=1",
		"--status unknown --page-token a+b --json":                            "/v1/receipts?limit=50&pageToken=a%2Bb&status=unknown",
	} {
		if r := e.run(append([]string{"list"}, strings.Fields(args)...)...); r.code != 0 || got != want {
			t.Errorf("%s: %s, want %s (%+v)", args, got, want, r)
		}
	}
}

func TestEVI09_ListShowsPlainText(t *testing.T) {
	doc := `{"treeSize":9,"nextPageToken":"tok","attempts":[
{"attemptId":"att_1","state":"open","tool":"a","agentId":"agent:a","occurredAt":"2026-07-28T00:00:00.000Z","capturedAt":"2026-07-27T22:58:59.500Z","firstIndex":3,"lastIndex":3},
{"attemptId":"att_2","state":"reversed","inDoubt":true,"tool":"long_name","agentId":"b","occurredAt":"2026-07-28T00:00:01.000Z","firstIndex":4,"lastIndex":8}]}`
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/receipts" {
			answer(w, 200, `{"treeSize":9,"receipts":[{"eventId":"evt_1","attemptId":"att_1","leafIndex":3,"lifecycle":"outcome","action":{"name":"a","status":"failed"},"source":{"agentId":"b"},"occurredAt":"t"}]}`)
			return
		}
		answer(w, 200, doc)
	})
	e.run("list").want(t, 0, `ATTEMPT  STATE               AGE   TOOL       AGENT    OCCURRED                  LEAVES
att_1    open                1h1m  a          agent:a  2026-07-28T00:00:00.000Z  3
att_2    reversed, in doubt  -     long_name  b        2026-07-28T00:00:01.000Z  4…8
`, "2 attempts at tree size 9\nhint: there are more: --page-token tok\n")
	e.run("list", "--json").want(t, 0, doc+"\n", "")
	e.run("list", "--status", "failed").want(t, 0, `LEAF  LIFECYCLE  STATUS  TOOL  AGENT  OCCURRED  ATTEMPT  EVENT
3     outcome    failed  a     b      t         att_1    evt_1
`, "1 event at tree size 9\n")
}

func TestDUR06_Doctor(t *testing.T) {
	ready := `{"origin":"o","tenant":"default","durability":"hardened","streamLast":3,"logSize":3,"publishedSize":2,"viewSize":1,"parked":0,"ready":true,"checks":[{"name":"disk","ok":true,"detail":"plenty"}]}`
	full := strings.Replace(strings.Replace(ready, `"ready":true`, `"ready":false`, 1), `"ok":true,"detail":"plenty"`, `"ok":false,"detail":"12 bytes free","hint":"make space"`, 1)
	doc := ready
	e := newExecution(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, doc) })
	r := e.run("doctor")
	want := "ledger      " + e.env["COUNTERFOIL_SERVER"] + `
origin      o
tenant      default
durability  hardened
stream      3 messages
log         3 durable leaves, 2 published, 1 in the views
parked      0 leaves that do not count
state       ready

CHECK  RESULT  DETAIL
disk   ok      plenty
`
	r.want(t, 0, want, "")
	doc = full
	r = e.run("doctor")
	if r.code != 1 || !strings.Contains(r.out, "disk   FAILS   12 bytes free") || r.errOut != "hint: disk: make space\n" ||
		!strings.Contains(r.out, "\ndisk\n  means  New events are refused") || !strings.Contains(r.out, "\n  see    docs/runbooks/disk-full.md#") {
		t.Errorf("got %+v", r)
	}
	r = e.run("doctor", "--json")
	var rep doctorReport
	if err := json.Unmarshal([]byte(r.out), &rep); err != nil || r.code != 1 || rep.SchemaVersion != "counterfoil.doctor.v1" || rep.OK || !rep.Running ||
		string(rep.Status) != full || len(rep.Checks) != 1 || rep.Checks[0].Result != "fails" || rep.Checks[0].Runbook == "" {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, args := range [][]string{{"doctor", "--nats", "nats://h"}, {"doctor", "--listen", "127.0.0.1:0"}} {
		if r := e.run(args...); r.code != 2 || !strings.Contains(r.errOut, "hint: --data DIR") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := e.run("doctor", "--data", filepath.Join(t.TempDir(), "none")); r.code != 1 || !strings.Contains(r.out, "directory  FAILS") || !strings.Contains(r.out, "state  stopped") {
		t.Errorf("got %+v", r)
	}
	doc = strings.Replace(full, `"name":"disk"`, `"name":"tiles"`, 1)
	if r = e.run("doctor"); r.code != 1 || !strings.Contains(r.out, "it takes events, but a file of the log is damaged") {
		t.Errorf("got %+v", r)
	}
}

func TestLOG12_TailGoesOnWhereItWas(t *testing.T) {
	line := func(i, status string) string {
		return `{"leafIndex":` + i + `,"record":{"event":{"occurredAt":"2026-07-28T00:00:00.000Z","lifecycle":"outcome","status":"` + status + `","action":{"name":"tool"},"attemptId":"att_1"},"signatures":[]},"treeSize":3}`
	}
	requests := 0
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		switch requests++; r.URL.RawQuery {
		case "follow=false&from=1":
			_, _ = io.WriteString(w, line("1", "failed")+"\n"+`{"leafIndex":2,"parked":"no record\u001b[2J","treeSize":3}`+"\n")
		case "follow=false&from=2":
			answer(w, http.StatusInternalServerError, `{"error":{"code":"internal","message":"the log is damaged: tile/entries/000","reason":"log_damaged"}}`)
		default:
			answer(w, http.StatusBadRequest, `{"error":{"code":"invalid_request","message":"from"}}`)
		}
	})
	want := "     1  2026-07-28T00:00:00.000Z  outcome         failed        tool                          att_1\n" +
		`     2  parked: no record\u{1b}[2J` + "\n"
	e.run("tail", "--from", "1", "--follow=false").want(t, 0, want, "")
	e.run("tail", "--from", "1", "--follow=false", "--json").want(t, 0, line("1", "failed")+"\n"+`{"leafIndex":2,"parked":"no record\u001b[2J","treeSize":3}`+"\n", "")
	if r := e.run("tail", "--from", "2", "--follow=false"); r.code != 1 || r.out != "" || !strings.Contains(r.errOut, "tile/entries/000") {
		t.Errorf("a damaged log: %+v", r)
	}
	e.run("tail").want(t, 1, "", "counterfoil: invalid_request: from\n")
}

func TestEVI22_RecordSummaries(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.jsonl"), filepath.Join(dir, "bad.jsonl")
	call := `{"at":"2026-01-01T00:00:00Z","dir":"client","message":{"id":1,"method":"tools/call","params":{"name":"t","arguments":"PRIVATE-CANARY"}}}` + "\n"
	for file, content := range map[string]string{
		good: call + `{"at":"2026-01-01T00:00:01Z","dir":"server","message":{"id":1,"result":{"isError":true,"content":"PRIVATE-CANARY"}}}` + "\n",
		bad:  call + "{\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	e := newExecution(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		status := http.StatusCreated
		if seen[string(b)] {
			status = http.StatusOK
		}
		seen[string(b)] = true
		answer(w, status, receiptDoc)
	})
	e.run("record", good).want(t, 0, good+": 1 call of unknown: 1 failed; 2 new events, 0 recorded before\n", "")
	e.run("record", good).want(t, 0, good+": 1 call of unknown: 1 failed; 0 new events, 2 recorded before\n", "")
	r := e.run("record", "--json", "--wait", "published", good)
	want := `{"schemaVersion":"counterfoil.record.v1","sessions":[{"file":"` + good + `","runtimeId":"mcp-session:` + "RUNTIME" +
		`","implementation":"unknown","attempts":1,"outcomes":{"failed":1},"newEvents":0,"knownEvents":2,"calls":[{"attemptId":"` + attemptID + `","tool":"t","status":"failed"}]}]}` + "\n"
	if i := strings.Index(r.out, "mcp-session:"); i >= 0 {
		r.out = r.out[:i+12] + "RUNTIME" + r.out[i+12+32:]
	}
	if diff := cmp.Diff(want, r.out); diff != "" || r.code != 0 {
		t.Error(diff, r.errOut)
	}
	before := len(seen)
	r = e.run("record", bad)
	if r.code != 1 || len(seen) != before || strings.Contains(r.errOut, "again") ||
		!strings.Contains(r.errOut, "counterfoil: "+bad+": line 2: not a line of a recording: ") {
		t.Errorf("got %+v", r)
	}
	r = e.run("record", "--json", good, bad)
	if docs := strings.SplitAfter(r.out, "\n"); r.code != 1 || len(docs) != 3 || !strings.Contains(docs[0], `"file":"`+good) || !strings.HasPrefix(docs[1], `{"error":`) {
		t.Errorf("got %+v", r)
	}
	if err := os.WriteFile(bad, []byte(call+"{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = e.run("record", "--json", bad)
	if r.code != 0 || !strings.Contains(r.out, `"outcomes":{"unknown":1}`) || !strings.Contains(r.out, `"tornLine":2`) || !strings.Contains(r.errOut, "line 2 breaks off and is left out") {
		t.Errorf("got %+v", r)
	}
	if r := e.run("record", filepath.Join(dir, "none")); r.code != 1 || !strings.Contains(r.errOut, "no such file") {
		t.Errorf("got %+v", r)
	}
	if r := e.run("record", good, "--json"); strings.Contains(r.out+r.errOut, "CANARY") {
		t.Error("a private value is shown")
	}
}
