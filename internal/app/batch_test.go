package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"counterfoil/ledger/receipt"
)

// batch sends lines and returns the answers, of which there is one a line.
func (l *ledger) batch(wait string, lines ...string) []obj {
	l.t.Helper()
	code, b := l.raw("POST", "/v1/events:batch"+wait, []byte(strings.Join(lines, "\n")), l.Token)
	if code != http.StatusOK {
		l.t.Fatalf("batch: %d %s", code, b)
	}
	var out []obj
	for line := range bytes.Lines(b) {
		var o obj
		if err := json.Unmarshal(line, &o); err != nil {
			l.t.Fatalf("%q: %v", line, err)
		}
		if o["line"] != float64(len(out)+1) {
			l.t.Errorf("answer %d is for line %v", len(out)+1, o["line"])
		}
		out = append(out, o)
	}
	return out
}

func beginLine(inv string) string { return fmt.Sprintf(`{"begin":%s}`, beginBody(inv, `1`)) }

func appendLine(id, event, rest string) string {
	return fmt.Sprintf(`{"append":%s}`, appendBody(id, event, rest))
}

func TestEVI17_BatchMixedLines(t *testing.T) {
	l := newLedger(t)
	id := text(l.begin("inv"), "attemptId")
	before := l.streamLast()
	answers := l.batch("?wait=published",
		beginLine("b1"),
		`{"begin":{}}`,
		beginLine("b1"),
		fmt.Sprintf(`{"begin":%s}`, beginBody("b1", `2`)),
		`not json`,
		appendLine(id, "o1", `"lifecycle":"outcome","status":"failed"`),
		appendLine(id, "o2", `"lifecycle":"outcome","status":"succeeded"`),
		appendLine(id, "o1", `"lifecycle":"outcome","status":"failed"`),
		appendLine("att_"+strings.Repeat("0", 32), "o", `"lifecycle":"outcome","status":"failed"`),
		`{"append":{"lifecycle":"outcome","sourceEventId":"x","occurredAt":"2026-07-28T00:00:00.000Z","status":"failed"}}`,
		`{}`, `{"begin":null}`, `{"append":null}`, `[]`, `{"reverse":{}}`,
		fmt.Sprintf(`{"begin":%s,"append":%s}`, beginBody("b2", `1`), appendBody(id, "o3", `"lifecycle":"outcome","status":"failed"`)),
		fmt.Sprintf(`{"begin":%s,"begin":%s}`, beginBody("b2", `1`), beginBody("b2", `1`)),
		beginLine("b3"),
	)
	want := []struct {
		status float64
		code   string
	}{{201, ""}, {400, "invalid_request"}, {200, ""}, {409, "conflict"}, {400, "invalid_request"}, {201, ""}, {409, "unlawful"}, {200, ""}, {404, "not_found"}, {400, "invalid_request"},
		{400, "invalid_request"}, {400, "invalid_request"}, {400, "invalid_request"}, {400, "invalid_request"}, {400, "invalid_request"}, {400, "invalid_request"}, {400, "invalid_request"}, {201, ""}}
	if len(answers) != len(want) {
		t.Fatalf("%d answers to %d lines", len(answers), len(want))
	}
	for i, w := range want {
		a := answers[i]
		if a["status"] != w.status || text(a, "error.code") != w.code || (a["receipt"] != nil) != (w.code == "") {
			t.Errorf("line %d: %v, want %v %s", i+1, a, w.status, w.code)
		}
		if w.status == 400 && text(a, "error.hint") == "" {
			t.Errorf("line %d has no hint: %v", i+1, a)
		}
		if a["receipt"] != nil && (text(a, "receipt.stage") != "published" || text(a, "receipt.checkpoint") == "") {
			t.Errorf("line %d: %v", i+1, a)
		}
	}
	if text(answers[0], "receipt.eventId") != text(answers[2], "receipt.eventId") {
		t.Error("the same begin twice gave two events")
	}
	if grown := l.streamLast() - before; grown != 3 {
		t.Errorf("the stream grew by %v, want 3", grown)
	}
}

func TestEVI18_BatchKeepsTheOrderOfAnAttempt(t *testing.T) {
	l := newLedger(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, text(l.begin(fmt.Sprintf("inv-%d", i)), "attemptId"))
	}
	var lines []string
	const rounds = 20
	for r := range rounds {
		for _, id := range ids {
			lines = append(lines, appendLine(id, fmt.Sprintf("r-%d", r), `"lifecycle":"reconciliation","readback":{"source":"s","observed":"unreachable"}`))
		}
	}
	for i, a := range l.batch("", lines...) {
		if a["status"] != 201.0 || at(a, "receipt.revision") != float64(i/len(ids)+2) {
			t.Fatalf("line %d: %v", i+1, a)
		}
	}
}

func TestBatchLimits(t *testing.T) {
	l := newLedger(t)
	before := l.streamLast()
	for what, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"empty":      {"", http.StatusBadRequest, "invalid_request"},
		"blank":      {"\n \n\r\n", http.StatusBadRequest, "invalid_request"},
		"many lines": {strings.Repeat("{}\n", 10_001), http.StatusRequestEntityTooLarge, "too_large"},
	} {
		code, out := l.do("POST", "/v1/events:batch", []byte(c.body))
		if code != c.status || text(out, "error.code") != c.code || text(out, "error.hint") == "" {
			t.Errorf("%s: %d %v", what, code, out)
		}
	}
	if code, out := l.do("POST", "/v1/events:batch?wait=soon", []byte(beginLine("x"))); code != http.StatusBadRequest {
		t.Errorf("unknown stage: %d %v", code, out)
	}
	if after := l.streamLast(); after != before {
		t.Errorf("the stream grew from %v to %v", before, after)
	}
	if n := len(l.batch("", beginLine("a"), "", "  "+beginLine("b")+"\r", beginLine("c")+"\n")); n != 3 {
		t.Errorf("%d answers with blank lines, want 3", n)
	}
}

func TestBND10_BundlesAreDeterministic(t *testing.T) {
	l := newLedger(t)
	var ids []string
	for i := range 4 {
		id := text(l.begin(fmt.Sprintf("inv-%d", i)), "attemptId")
		l.append(id, "o", `"lifecycle":"outcome","status":"unknown","privateResult":1`)
		ids = append(ids, id)
	}
	l.settled("/v1/receipts")
	query := func(ids ...string) string { return "/v1/bundle?attempt=" + strings.Join(ids, "&attempt=") }
	first := l.get(query(ids...))
	for _, other := range [][]string{{ids[3], ids[1], ids[0], ids[2]}, {ids[0], ids[0], ids[1], ids[2], ids[3], ids[3]}} {
		if got := l.get(query(other...)); !bytes.Equal(got, first) {
			t.Errorf("asked for in another order, the bundle differs")
		}
	}
	if rep := l.verified(first); rep.Counts.Entries != 8 {
		t.Errorf("%d entries, want 8", rep.Counts.Entries)
	}
	if a, b := l.get("/v1/attempts/"+ids[1]+"/bundle"), l.get(query(ids[1])); !bytes.Equal(a, b) {
		t.Error("the two ways to one attempt's bundle differ")
	}
	trust := l.trust()
	l.fill("more", 3)
	later := l.get(query(ids...))
	if bytes.Equal(later, first) {
		t.Error("the bundle is under an old checkpoint")
	}
	for _, b := range [][]byte{first, later} {
		if rep := receipt.Verify(b, trust, receipt.Options{}); rep.ExitCode() != 0 {
			t.Errorf("a bundle does not verify: %+v", rep)
		}
	}
	for _, bad := range []string{"/v1/bundle", "/v1/bundle?attempt=", "/v1/bundle?attempts=" + ids[0], query(ids[0], "att_x")} {
		if code, out := l.do("GET", bad, nil); code != http.StatusBadRequest && code != http.StatusNotFound {
			t.Errorf("GET %s: %d %v", bad, code, out)
		}
	}
}
