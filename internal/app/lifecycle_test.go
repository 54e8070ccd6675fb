package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// attemptWith begins an attempt with an expected effect; "" has none.
func (l *ledger) attemptWith(invocation, expected string) string {
	l.t.Helper()
	body := beginBody(invocation, `{"n":1}`)
	if expected != "" {
		body = patched(l.t, body, "expectedEffect", raws(expected))
	}
	return text(l.want(http.StatusCreated, "POST", "/v1/attempts", body), "attemptId")
}

func (l *ledger) reconcile(id, event, readback string) obj {
	l.t.Helper()
	return l.append(id, event, `"lifecycle":"reconciliation","readback":`+readback)
}

// unlawful demands that an append is refused by the lifecycle.
func (l *ledger) unlawful(id, event, rest, reason string) {
	l.t.Helper()
	code, out := l.do("POST", "/v1/attempts/"+id+"/events", appendBody(id, event, rest))
	if code != http.StatusConflict || text(out, "error.code") != "unlawful" || text(out, "error.reason") != reason || text(out, "error.state") == "" {
		l.t.Errorf("%s: %d %v, want unlawful %s", rest, code, out, reason)
	}
}

func TestEVI09_EVI10_ReconciliationIsDerived(t *testing.T) {
	l := newLedger(t)
	for i, c := range []struct {
		expected, outcome, readback, want string
	}{
		{`{"paid":10}`, ``, `{"source":"bank","observed":"absent"}`, "confirmed_absent"},
		{`{"paid":10}`, ``, `{"source":"bank","observed":"present","value":{"paid":10}}`, "confirmed_committed"},
		{`{"paid":10,"to":"x"}`, ``, `{"source":"bank","observed":"present","value":{ "to":"x", "paid":1e1 }}`, "confirmed_committed"},
		{`{"paid":10}`, ``, `{"source":"bank","observed":"present","value":{"paid":11}}`, "contradicted"},
		{`{"paid":10}`, ``, `{"source":"bank","observed":"present","count":2,"value":{"paid":10}}`, "contradicted"},
		{`{"paid":10}`, ``, `{"source":"bank","observed":"present","count":1,"value":{"paid":10}}`, "confirmed_committed"},
		{`{"paid":10}`, ``, `{"source":"bank","observed":"unreachable"}`, "still_unknown"},
		{`{"paid":10}`, ``, `{"source":"bank","observed":"present"}`, "still_unknown"},
		{``, ``, `{"source":"bank","observed":"present","value":{"paid":10}}`, "still_unknown"},
		{``, `{"paid":10}`, `{"source":"bank","observed":"present","value":{"paid":10}}`, "confirmed_committed"},
		{``, `{"paid":10}`, `{"source":"bank","observed":"present","value":{"paid":"10"}}`, "contradicted"},
		{`{"paid":10}`, `{"paid":11}`, `{"source":"bank","observed":"present","value":{"paid":10}}`, "confirmed_committed"}, // the effect counts, not the report
		{`null`, ``, `{"source":"bank","observed":"present","value":null}`, "confirmed_committed"},
		{`{}`, ``, `{"source":"bank","observed":"present","value":[]}`, "contradicted"},
		{`"é"`, ``, `{"source":"bank","observed":"present","value":"e\u0301"}`, "contradicted"}, // NFC and NFD differ
	} {
		id := l.attemptWith(fmt.Sprintf("r-%d", i), c.expected)
		if c.outcome != "" {
			l.append(id, "o", `"lifecycle":"outcome","status":"unknown","privateResult":`+c.outcome)
		}
		r := l.reconcile(id, "r", c.readback)
		if got := text(r, "action.status"); got != c.want || text(r, "action.phase") != "reconciliation" || text(r, "claimBoundary") != "reconciliation_derived_v1" {
			t.Errorf("%+v: %s, want %s (%v)", c, got, c.want, r)
		}
		a := l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)
		if text(a, "reconciliation") != c.want {
			t.Errorf("%+v: the attempt says %v", c, a["reconciliation"])
		}
		if c.outcome != "" && text(a, "outcome") != "unknown" {
			t.Errorf("%+v: unknown became %v: only reported as reconciled, never rewritten", c, a["outcome"])
		}
	}
}

// An attempt whose outcome nobody saw: nothing is concluded from silence, and
// every read-back says only what it says.
func TestCaseUnknownOutcome_EVI11(t *testing.T) {
	l := newLedger(t)
	id := l.attemptWith("inv", `{"paid":10}`)
	state := func() string {
		return text(l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil), "state")
	}
	if s := state(); s != "open" {
		t.Fatalf("an attempt without an outcome is %q, want open", s)
	}
	// No read-back, no reconciliation.
	code, out := l.do("POST", "/v1/attempts/"+id+"/events", appendBody(id, "r0", `"lifecycle":"reconciliation"`))
	refused(t, "no read-back", code, out, "invalid_request", http.StatusBadRequest, "/readback")
	for i, step := range []struct{ readback, want string }{
		{`{"source":"bank","observed":"unreachable"}`, "still_unknown"},
		{`{"source":"bank","observed":"present","value":{"paid":12}}`, "contradicted"},
		{`{"source":"bank","observed":"present","count":2,"value":{"paid":10}}`, "contradicted"},
		{`{"source":"bank","observed":"unreachable"}`, "still_unknown"},
		{`{"source":"bank","observed":"present","value":{"paid":10}}`, "confirmed_committed"},
	} {
		if got := text(l.reconcile(id, fmt.Sprintf("r%d", i+1), step.readback), "action.status"); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		switch s := state(); s {
		case "failed", "blocked", "not_started", "succeeded":
			t.Errorf("step %d: state %q was concluded", i, s)
		}
	}
	l.unlawful(id, "late", `"lifecycle":"reconciliation","readback":{"source":"bank","observed":"absent"}`, "nothing_to_reconcile")
	l.unlawful(id, "late-outcome", `"lifecycle":"outcome","status":"failed"`, "attempt_not_open")
}

func TestEVI09_UnknownIsNotFailed(t *testing.T) {
	l := newLedger(t)
	for _, c := range []struct{ status, state string }{{"succeeded", "succeeded"}, {"failed", "failed"}, {"not_started", "not_started"}, {"unknown", "unknown"}} {
		id := text(l.begin("inv-"+c.status), "attemptId")
		r := l.append(id, "o", fmt.Sprintf(`"lifecycle":"outcome","status":%q`, c.status))
		if text(r, "action.status") != c.status {
			t.Errorf("receipt says %v", r["action"])
		}
		if got := text(l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil), "state"); got != c.state {
			t.Errorf("outcome %s: state %q", c.status, got)
		}
	}
	l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("last", `1`))
	for _, state := range []string{"failed", "unknown", "succeeded", "not_started"} {
		list := l.settled("/v1/attempts?state=" + state)
		if n := len(list["attempts"].([]any)); n != 1 {
			t.Errorf("%d attempts are listed as %s, want 1", n, state)
		}
	}
	if code, out := l.do("GET", "/v1/attempts?state=unknwon", nil); code != http.StatusBadRequest {
		t.Errorf("an unknown state: %d %v", code, out)
	}
}

func TestEVI18_EVI19_EVI20_TheWholeLife(t *testing.T) {
	l := newLedger(t)
	begun := l.begin("inv")
	id := text(begun, "attemptId")
	first := l.append(id, "o1", `"lifecycle":"outcome","status":"succeeded","privateResult":1`)
	firstID := text(first, "eventId")

	// A second outcome needs a link to the one in force (EVI-20).
	l.unlawful(id, "o2", `"lifecycle":"outcome","status":"failed"`, "outcome_exists")
	l.unlawful(id, "o2", fmt.Sprintf(`"lifecycle":"outcome","status":"failed","refs":{"corrects":%q}`, text(begun, "eventId")), "link_target_wrong")
	second := l.append(id, "o2", fmt.Sprintf(`"lifecycle":"outcome","status":"failed","privateResult":2,"refs":{"corrects":%q}`, firstID))
	secondID := text(second, "eventId")
	l.unlawful(id, "o3", fmt.Sprintf(`"lifecycle":"outcome","status":"succeeded","refs":{"corrects":%q}`, firstID), "link_target_wrong")

	// A reversal names an outcome of this attempt (EVI-19).
	l.unlawful(id, "v1", `"lifecycle":"reversal","status":"reversed"`, "link_target_wrong")
	l.unlawful(id, "v1", fmt.Sprintf(`"lifecycle":"reversal","status":"reversed","refs":{"reverses":%q}`, text(begun, "eventId")), "link_target_wrong")
	reversal := l.append(id, "v1", fmt.Sprintf(`"lifecycle":"reversal","status":"reversed","refs":{"reverses":%q}`, secondID))
	l.unlawful(id, "v2", fmt.Sprintf(`"lifecycle":"reversal","status":"reversed","refs":{"reverses":%q}`, secondID), "already_reversed")

	review := l.append(id, "w1", fmt.Sprintf(`"lifecycle":"review","status":"disputed","reviewer":"human:ann","refs":{"reviews":%q}`, firstID))
	l.unlawful(id, "w2", fmt.Sprintf(`"lifecycle":"review","status":"noted","reviewer":"human:ann","refs":{"reviews":%q}`, text(l.begin("elsewhere"), "eventId")), "link_target_wrong")

	unknown := l.attemptWith("unknown", `1`)
	u := l.append(unknown, "o", `"lifecycle":"outcome","status":"unknown"`)
	l.unlawful(unknown, "o2", fmt.Sprintf(`"lifecycle":"outcome","status":"succeeded","refs":{"corrects":%q}`, text(u, "eventId")), "unknown_needs_readback")
	recon := l.reconcile(unknown, "r", `{"source":"s","observed":"present","value":1}`)

	// Each lifecycle gave a receipt with a place in the log (EVI-18), and what was
	// corrected, reversed or reviewed is there as it was.
	a := l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)
	if a["corrected"] != true || text(a, "outcome") != "failed" || text(a, "reversal") != "reversed" || text(a, "review") != "disputed" || a["revision"] != 5.0 {
		t.Errorf("attempt: %v", a)
	}
	receipts := a["receipts"].([]any)
	previous := ""
	for i, want := range []obj{begun, first, second, reversal, review} {
		got := receipts[i].(obj)
		for _, m := range []string{"eventId", "lifecycle", "revision", "occurredAt", "capturedAt", "leafIndex", "claimBoundary", "previous"} {
			if got[m] != want[m] {
				t.Errorf("event %d: %s is %v, was answered as %v", i, m, got[m], want[m])
			}
		}
		if text(got, "action.status") != text(want, "action.status") || text(got, "commitment.digest") != text(want, "commitment.digest") {
			t.Errorf("event %d changed: %v, was %v", i, got, want)
		}
		if text(got, "previous") != previous {
			t.Errorf("event %d: previous %q, want %q", i, text(got, "previous"), previous)
		}
		previous = text(got, "commitment.digest")
	}
	if text(recon, "eventType") != "tool_action.reconciliation" || recon["leafIndex"] == nil {
		t.Errorf("reconciliation: %v", recon)
	}
	rep := l.verified(l.get("/v1/bundle?attempt=" + id + "&attempt=" + unknown))
	if rep.Counts.Entries != 8 {
		t.Errorf("the bundle has %d events, want 8", rep.Counts.Entries)
	}
}

func TestEVI15_ATT30_NobodyRaisesAClaim(t *testing.T) {
	l := newLedger(t)
	id := l.attemptWith("inv", `1`)
	outcome := l.append(id, "o", `"lifecycle":"outcome","status":"unknown","privateResult":1`)
	l.reconcile(id, "r", `{"source":"bank","observed":"present","value":1}`)
	l.append(id, "v", fmt.Sprintf(`"lifecycle":"reversal","status":"failed","refs":{"reverses":%q}`, text(outcome, "eventId")))
	l.append(id, "w", fmt.Sprintf(`"lifecycle":"review","status":"upheld","reviewer":"human:ann","refs":{"reviews":%q}`, text(outcome, "eventId")))
	// Who tries to raise one is refused, wherever it is put.
	for _, member := range []string{"assurance", "sourceAttestation", "claimBoundary", "source.assurance", "source.claimBoundary"} {
		for _, value := range []any{"verified", obj{"level": "verified", "status": "verified"}} {
			code, out := l.do("POST", "/v1/attempts", patched(t, beginBody("raise", `1`), member, value))
			refused(t, member, code, out, "invalid_request", http.StatusBadRequest, pathOf(member))
			if strings.HasPrefix(member, "source.") {
				continue // an append names no source
			}
			body := patched(t, appendBody(id, "raise", `"lifecycle":"review","status":"noted"`), member, value)
			code, out = l.do("POST", "/v1/attempts/"+id+"/events", body)
			refused(t, member, code, out, "invalid_request", http.StatusBadRequest, pathOf(member))
		}
	}
	boundaries := []string{"attempt_self_asserted_v1", "outcome_self_asserted_v1", "reconciliation_derived_v1", "reversal_self_asserted_v1", "review_opinion_v1"}
	for i, r := range l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)["receipts"].([]any) {
		if text(r, "sourceAttestation.level") != "self_asserted" || text(r, "sourceAttestation.status") != "unverified" {
			t.Errorf("event %d: %v", i, at(r, "sourceAttestation"))
		}
		if text(r, "claimBoundary") != boundaries[i] {
			t.Errorf("event %d: claim boundary %v, want %s", i, text(r, "claimBoundary"), boundaries[i])
		}
	}
}
