package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// same demands the receipt of the first event again.
func (l *ledger) same(what string, first obj, path string, body []byte) {
	l.t.Helper()
	code, got := l.do("POST", path, body)
	if code != http.StatusOK {
		l.t.Errorf("%s: %d %v, want 200", what, code, got)
		return
	}
	for _, m := range []string{"eventId", "attemptId", "leafIndex", "capturedAt", "revision"} {
		if got[m] != first[m] {
			l.t.Errorf("%s: %s is %v, was %v", what, m, got[m], first[m])
		}
	}
	if fmt.Sprint(got["openings"]) != fmt.Sprint(first["openings"]) {
		l.t.Errorf("%s: openings %v, were %v", what, got["openings"], first["openings"])
	}
}

// conflicts demands a 409 with both tags, and the first event unchanged.
func (l *ledger) conflicts(what string, first obj, path string, body []byte) {
	l.t.Helper()
	code, got := l.do("POST", path, body)
	stored, offered := text(got, "error.stored"), text(got, "error.offered")
	if code != http.StatusConflict || text(got, "error.code") != "conflict" || text(got, "error.eventId") != text(first, "eventId") {
		l.t.Errorf("%s: %d %v, want 409 conflict", what, code, got)
		return
	}
	for _, tag := range []string{stored, offered} {
		if !strings.HasPrefix(tag, "hmac-sha256:") || len(tag) != len("hmac-sha256:")+64 {
			l.t.Errorf("%s: tag %q", what, tag)
		}
	}
	if stored == offered {
		l.t.Errorf("%s: both tags are %s", what, stored)
	}
}

func TestEVI17_SameContentOtherContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	const begin = `{"source":{"runtimeId":"r","agentId":"a","invocationId":"i","protocol":"mcp","implementation":"x"},"occurredAt":"2026-07-28T00:00:00.000Z",` +
		`"action":{"name":"pay","effectKind":"payment","effectMode":"one_time"},"privateInput":{"amount":10,"to":"Zoë","f":1.5},"expectedEffect":null}`
	// The same in another order, with white space, escapes, other number spellings, and members that say nothing.
	const sameBegin = ` { "keepBody":false, "traceId":null, "subject":{"id":"pay","kind":"tool_action"}, "expectedEffect": null, "privateInputRaw":null,
		"privateInput":{"f":15e-1,"to":"Zo\u00eb","amount":1e1},"action":{"effectMode":"one_time","effectKind":"payment","name":"\u0070ay"},
		"occurredAt":"2026-07-28T00:00:00.000Z","source":{"implementation":"x","protocol":"mcp","invocationId":"i","agentId":"a","runtimeId":"r"}} `
	first := l.want(http.StatusCreated, "POST", "/v1/attempts", []byte(begin))
	id := text(first, "attemptId")
	events := "/v1/attempts/" + id + "/events"
	outcome := fmt.Sprintf(`{"attemptId":%q,"lifecycle":"outcome","sourceEventId":"o","occurredAt":"2026-07-28T00:00:01.000Z","status":"unknown","privateResult":{"a":[],"b":{}},"reasonCodes":["timeout"]}`, id)
	sameOutcome := `{"reasonCodes":["timeout"],"refs":{},"readback":null,"reviewer":"","privateResult":{"b":{},"a":[ ]},"status":"unknown","occurredAt":"2026-07-28T00:00:01.000Z","sourceEventId":"o","lifecycle":"outcome"}`
	second := l.want(http.StatusCreated, "POST", events, []byte(outcome))
	size := l.streamLast()
	check := func(when string) {
		t.Helper()
		l.same(when+": begin", first, "/v1/attempts", []byte(begin))
		l.same(when+": begin spelt otherwise", first, "/v1/attempts", []byte(sameBegin))
		l.same(when+": outcome", second, events, []byte(outcome))
		l.same(when+": outcome spelt otherwise", second, events, []byte(sameOutcome))
		for _, c := range []struct {
			member string
			value  any
		}{
			{"privateInput.amount", 11}, {"privateInput.to", "Zoe\u0308"}, {"privateInput", nil}, {"privateInput", raws("null")}, {"privateInput", obj{}}, {"expectedEffect", nil},
			{"expectedEffect", obj{}}, {"expectedEffect", ""}, {"expectedEffect", 0}, {"keepBody", true}, {"traceId", "t"}, {"occurredAt", "2026-07-28T00:00:00.001Z"},
			{"source.agentId", "b"}, {"source.protocol", "a2a"}, {"action.name", "refund"}, {"action.effectMode", "x"}, {"subject", obj{"kind": "contract", "id": "pay"}},
		} {
			l.conflicts(fmt.Sprintf("%s: begin with %s = %v", when, c.member, c.value), first, "/v1/attempts", patched(t, []byte(begin), c.member, c.value))
		}
		for _, c := range []struct {
			member string
			value  any
		}{
			{"privateResult", nil}, {"privateResult", obj{}}, {"privateResult", raws("null")}, {"privateResult.a", obj{}}, {"status", "failed"}, {"occurredAt", "2026-07-28T00:00:02.000Z"}, {"keepBody", true},
		} {
			l.conflicts(fmt.Sprintf("%s: outcome with %s = %v", when, c.member, c.value), second, events, patched(t, []byte(outcome), c.member, c.value))
		}
		if now := l.streamLast(); now != size {
			t.Errorf("%s: the stream grew from %v to %v", when, size, now)
		}
	}
	check("at once")
	for _, gone := range []string{"", "index", "views", "index views"} {
		l.stop()
		for _, name := range strings.Fields(gone) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		l = startLedger(t, dir)
		check("after a restart without [" + gone + "]")
	}
}

// Private values that say little are values all the same, and differ from none.
func TestEVI13_EVI17_EmptyPrivateValues(t *testing.T) {
	l := newLedger(t)
	values := []any{nil, raws("null"), "", raws("{}"), raws("[]"), raws("false"), raws("0")}
	for i, v := range values {
		inv := fmt.Sprintf("inv-%d", i)
		first := l.want(http.StatusCreated, "POST", "/v1/attempts", patched(t, beginBody(inv, `1`), "privateInput", v))
		if got := at(first, "commitments.input") != nil; got != (v != nil) {
			t.Errorf("input %v: commitments %v", v, first["commitments"])
		}
		for j, other := range values {
			body := patched(t, beginBody(inv, `1`), "privateInput", other)
			what := fmt.Sprintf("input %s again with %s", v, other)
			if i == j {
				l.same(what, first, "/v1/attempts", body)
			} else {
				l.conflicts(what, first, "/v1/attempts", body)
			}
		}
	}
}

func TestCaseSameIDAgain_TwentyAtOnce(t *testing.T) {
	l := newLedger(t)
	before := l.streamLast()
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		created int
		ids     = map[string]int{}
	)
	for range 20 {
		wg.Go(func() {
			code, b := l.raw("POST", "/v1/attempts", beginBody("inv", `{"n":1}`), l.Token)
			r := decoded(t, b)
			mu.Lock()
			defer mu.Unlock()
			if code == http.StatusCreated {
				created++
			} else if code != http.StatusOK {
				t.Errorf("%d %s", code, b)
			}
			ids[fmt.Sprint(text(r, "eventId"), r["leafIndex"], text(r, "attemptId"))]++
		})
	}
	wg.Wait()
	if created != 1 || len(ids) != 1 || l.streamLast() != before+1 {
		t.Errorf("%d were new, events %v, the stream grew by %v", created, ids, l.streamLast()-before)
	}
}

// Racing outcomes: one counts, the other callers learn the state.
func TestEVI20_RacingOutcomes(t *testing.T) {
	l := newLedger(t)
	id := text(l.begin("inv"), "attemptId")
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		won  int
		lost int
	)
	for i := range 16 {
		wg.Go(func() {
			code, b := l.raw("POST", "/v1/attempts/"+id+"/events", appendBody(id, fmt.Sprintf("o-%d", i), `"lifecycle":"outcome","status":"succeeded"`), l.Token)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case code == http.StatusCreated:
				won++
			case code == http.StatusConflict && strings.Contains(string(b), `"outcome_exists"`) && strings.Contains(string(b), `"state":"succeeded"`):
				lost++
			default:
				t.Errorf("%d %s", code, b)
			}
		})
	}
	wg.Wait()
	if won != 1 || lost != 15 {
		t.Errorf("%d won, %d lost", won, lost)
	}
}
