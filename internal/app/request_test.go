package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var tooLong = strings.Repeat("x", 256)

// A change to a good request, and the path that the refusal names.
type badRequest struct {
	member string
	value  any
	path   string
}

func pathOf(member string) string { return "/" + strings.ReplaceAll(member, ".", "/") }

func TestEVI06_BadBegins(t *testing.T) {
	l := newLedger(t)
	var cases []badRequest
	for _, m := range []string{"source.runtimeId", "source.agentId", "source.invocationId", "source.protocol", "source.implementation",
		"action.name", "action.effectKind", "action.effectMode", "subject.id", "traceId"} {
		optional := m == "traceId"
		for _, v := range []any{nil, "", tooLong, "a\u0000b", "a\nb", "a\ufffeb", 7, true, []string{"x"}, obj{"x": 1}} {
			if optional && (v == nil || v == "") {
				continue
			}
			if m == "subject.id" {
				cases = append(cases, badRequest{"subject", obj{"kind": "tool_action", "id": v}, "/subject/id"})
				continue
			}
			cases = append(cases, badRequest{m, v, pathOf(m)})
		}
	}
	for _, v := range []any{nil, "", "2026-07-28T00:00:00Z", "2026-07-28T00:00:00.0Z", "2026-07-28T00:00:00.000000Z", "2026-07-28T00:00:00.000+00:00",
		"2026-07-28t00:00:00.000z", "2026-02-30T00:00:00.000Z", "2026-07-28 00:00:00.000Z", "2026-07-28T24:00:00.000Z", "2026-07-28T00:00:60.000Z", 0} {
		cases = append(cases, badRequest{"occurredAt", v, "/occurredAt"})
	}
	cases = append(cases,
		badRequest{"source", "x", "/source"}, badRequest{"source", []int{1}, "/source"}, badRequest{"source", nil, "/source/runtimeId"},
		badRequest{"action", "x", "/action"}, badRequest{"action", nil, "/action/name"},
		badRequest{"subject", obj{"kind": "ledger", "id": "x"}, "/subject/kind"}, badRequest{"subject", obj{"kind": "other", "id": "x"}, "/subject/kind"},
		badRequest{"subject", obj{"id": "x"}, "/subject/kind"}, badRequest{"subject", 1, "/subject"},
		badRequest{"keepBody", "yes", "/keepBody"}, badRequest{"keepBody", 1, "/keepBody"},
		badRequest{"privateInputRaw", "!!", "/privateInput"}, badRequest{"privateInputRaw", 7, "/privateInputRaw"},
		// What only the ledger says, and what nobody says.
		badRequest{"unknownMember", 1, "/unknownMember"}, badRequest{"source.assurance", obj{"level": "verified"}, "/source/assurance"},
		badRequest{"source.eventId", "x", "/source/eventId"}, badRequest{"statement", obj{"a": 1}, "/statement"},
		badRequest{"capturedAt", "2026-07-28T00:00:00.000Z", "/capturedAt"}, badRequest{"claimBoundary", "proves_everything", "/claimBoundary"},
		badRequest{"status", "requested", "/status"}, badRequest{"attemptId", "att_00", "/attemptId"}, badRequest{"tenant", "other", "/tenant"},
		badRequest{"privateinput", 1, "/privateinput"}, badRequest{"Source", obj{}, "/Source"},
	)
	before := l.streamLast()
	for i, c := range cases {
		body := patched(t, beginBody(fmt.Sprintf("bad-%d", i), `1`), c.member, c.value)
		status, out := l.do("POST", "/v1/attempts", body)
		refused(t, fmt.Sprintf("%s = %q", c.member, fmt.Sprint(c.value)), status, out, "invalid_request", http.StatusBadRequest, c.path)
	}
	// Raw values alone: strict base64, and never beside JSON.
	for _, v := range []string{"!!", "YQ", "YR==", "YQ==\n", "_-_-"} {
		body := patched(t, beginBody("raw", `1`), "privateInput", nil, "privateInputRaw", v)
		status, out := l.do("POST", "/v1/attempts", body)
		refused(t, "raw "+v, status, out, "invalid_request", http.StatusBadRequest, "/privateInputRaw")
	}
	for _, body := range []string{``, ` `, `null`, `[]`, `7`, `"x"`, `{`, `{}`, `{"source":}`, `{} {}`, `{"source":{},"source":{}}`, "\xff", `{"a":"` + "\xff" + `"}`,
		string(beginBody("trailing", `1`)) + "x", "\ufeff" + string(beginBody("bom", `1`)), strings.Repeat("[", 100_000)} {
		status, out := l.do("POST", "/v1/attempts", []byte(body))
		if status != http.StatusBadRequest || text(out, "error.code") != "invalid_request" || text(out, "error.hint") == "" {
			t.Errorf("%.40q: %d %v", body, status, out)
		}
	}
	if after := l.streamLast(); after != before {
		t.Errorf("refused begins grew the stream from %v to %v", before, after)
	}
	// The same bases, unharmed, are accepted.
	l.want(http.StatusCreated, "POST", "/v1/attempts", beginBody("good", `1`))
	l.want(http.StatusCreated, "POST", "/v1/attempts", patched(t, beginBody("long", `1`), "source.agentId", tooLong[:255], "traceId", nil, "privateInput", nil))
}

func TestEVI07_BadAppends(t *testing.T) {
	l := newLedger(t)
	id := text(l.begin("inv"), "attemptId")
	other := text(l.begin("other"), "attemptId")
	outcome := l.append(id, "first", `"lifecycle":"outcome","status":"unknown"`)
	base := map[string][]byte{
		"outcome":        appendBody(id, "e", `"lifecycle":"outcome","status":"succeeded","privateResult":1`),
		"reversal":       appendBody(id, "e", fmt.Sprintf(`"lifecycle":"reversal","status":"reversed","refs":{"reverses":%q}`, text(outcome, "eventId"))),
		"reconciliation": appendBody(id, "e", `"lifecycle":"reconciliation","readback":{"source":"system:bank","observed":"absent"}`),
		"review":         appendBody(id, "e", fmt.Sprintf(`"lifecycle":"review","status":"noted","reviewer":"human:ann","refs":{"reviews":%q}`, text(outcome, "eventId"))),
	}
	type bad struct {
		badRequest
		base string
	}
	var cases []bad
	add := func(base, member string, path string, values ...any) {
		for _, v := range values {
			cases = append(cases, bad{badRequest{member, v, path}, base})
		}
	}
	for name := range base {
		add(name, "sourceEventId", "/sourceEventId", nil, "", tooLong, 7, "a\u0007")
		add(name, "occurredAt", "/occurredAt", nil, "", "2026-07-28T00:00:00Z", 7)
		add(name, "attemptId", "/attemptId", other, "att_", "ATT_"+id[4:], id+" ", 7)
		add(name, "lifecycle", "/lifecycle", nil, "", "attempt", "Outcome", "cancel", "authorize")
		add(name, "unknownMember", "/unknownMember", 1)
		add(name, "privateInput", "/privateInput", 1)
		add(name, "source", "/source", obj{"runtimeId": "someone else"})
		add(name, "action", "/action", obj{"name": "x"})
		add(name, "reasonCodes", "/reasonCodes/0", []string{"never_registered"}, []string{"UPPER"}, []string{""})
		add(name, "reasonCodes", "/reasonCodes", "timeout", obj{"a": 1})
		add(name, "refs", "/refs", "x", []string{"a"})
		add(name, "keepBody", "/keepBody", "x")
		add(name, "claimBoundary", "/claimBoundary", "stronger")
	}
	for _, name := range []string{"outcome", "reversal", "review"} {
		add(name, "status", "/status", nil, "", "ok", "failed ", "SUCCEEDED", "requested", "confirmed_committed", 7)
		add(name, "readback", "/readback", obj{"source": "s", "observed": "absent"})
	}
	add("outcome", "status", "/status", "reversed", "contradicted")
	add("reversal", "status", "/status", "succeeded", "not_started")
	add("outcome", "reviewer", "/reviewer", "human:ann")
	add("outcome", "refs", "/refs/corrects", obj{"corrects": "evt_1"}, obj{"corrects": ""})
	add("review", "reviewer", "/reviewer", nil, "", tooLong)
	add("reconciliation", "readback", "/readback", nil, "x")
	add("reconciliation", "readback.source", "/readback/source", nil, "", tooLong, 7)
	add("reconciliation", "readback.observed", "/readback/observed", nil, "", "Present", "maybe", 7)
	add("reconciliation", "readback.count", "/readback/count", -1, 2, 1.5, "1", raws("1e400"), raws("9007199254740993"))
	add("reconciliation", "readback.value", "/readback/value", 1, raws("null"), obj{})
	add("reconciliation", "readback.result", "/readback/result", "confirmed_committed")
	add("reconciliation", "privateResult", "/privateResult", 1, raws("null"))
	before := l.streamLast()
	for _, c := range cases {
		status, out := l.do("POST", "/v1/attempts/"+id+"/events", patched(t, base[c.base], c.member, c.value))
		refused(t, fmt.Sprintf("%s: %s = %q", c.base, c.member, fmt.Sprint(c.value)), status, out, "invalid_request", http.StatusBadRequest, c.path)
	}
	if after := l.streamLast(); after != before {
		t.Errorf("refused appends grew the stream from %v to %v", before, after)
	}
}

func TestEVI10_CallerStatesAReconciliation(t *testing.T) {
	l := newLedger(t)
	id := text(l.begin("inv"), "attemptId")
	for _, status := range []string{"confirmed_committed", "confirmed_absent", "contradicted", "still_unknown", "succeeded"} {
		code, out := l.do("POST", "/v1/attempts/"+id+"/events", appendBody(id, "e",
			fmt.Sprintf(`"lifecycle":"reconciliation","status":%q,"readback":{"source":"s","observed":"present","value":1}`, status)))
		refused(t, status, code, out, "invalid_request", http.StatusBadRequest, "/status")
	}
}

func TestEVI08_UnknownAttempts(t *testing.T) {
	l := newLedger(t)
	known := text(l.begin("inv"), "attemptId")
	before := l.streamLast()
	for _, id := range []string{"att_" + strings.Repeat("0", 32), known[:len(known)-1] + string("0123456789abcdef"[(strings.IndexByte("0123456789abcdef", known[len(known)-1])+1)%16]),
		"att_", "att_" + strings.Repeat("g", 32), strings.ToUpper(known), known + "0", "x"} {
		code, out := l.do("POST", "/v1/attempts/"+id+"/events", appendBody(id, "e", `"lifecycle":"outcome","status":"failed"`))
		if code != http.StatusNotFound || text(out, "error.code") != "not_found" || text(out, "error.hint") == "" {
			t.Errorf("append to %s: %d %v", id, code, out)
		}
		for _, path := range []string{"/v1/attempts/" + id, "/v1/attempts/" + id + "/bundle", "/v1/bundle?attempt=" + known + "&attempt=" + id} {
			if code, out := l.do("GET", path, nil); code != http.StatusNotFound || text(out, "error.code") != "not_found" {
				t.Errorf("GET %s: %d %v", path, code, out)
			}
		}
	}
	if after := l.streamLast(); after != before {
		t.Errorf("refused appends grew the stream from %v to %v", before, after)
	}
}
