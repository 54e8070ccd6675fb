package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"counterfoil/ledger/toolresult"
)

// TestCaseUnknownOutcome_EVI10_EVI11_OPR08_OPR10_OPR11_OPR12 is the field's case over MCP: an
// attempt whose outcome nobody knows, and what a read-back makes of it. An answer
// of an authority decides, never its absence, and nothing says that the action is
// safe to repeat.
func TestCaseUnknownOutcome_EVI10_EVI11_OPR08_OPR10_OPR11_OPR12(t *testing.T) {
	surfaces(t, func(t *testing.T, _ *ledger, s *session) {
		effect := obj{"amount": 10.5, "to": "Zoë"}
		for _, c := range []struct {
			name          string
			outcome       bool // unknown; else there is none
			readback      obj
			status, state string
			result        string // status, outcome, delivery, recovery
		}{
			{"none", true, obj{"observed": "absent"}, "confirmed_absent", "confirmed_absent", "failed unknown receipt_reconciled none"},
			{"one matching", true, obj{"observed": "present", "value": effect}, "confirmed_committed", "confirmed_committed", "succeeded committed receipt_reconciled <nil>"},
			{"one differing", true, obj{"observed": "present", "value": obj{"amount": 11}}, "contradicted", "contradicted", "unknown unknown local_replay human_review"},
			{"two", true, obj{"observed": "present", "count": 2, "value": effect}, "contradicted", "contradicted", "unknown unknown local_replay human_review"},
			{"unreachable", true, obj{"observed": "unreachable"}, "still_unknown", "unknown", "unknown unknown local_replay query_status"},
			{"present, nothing to compare", true, obj{"observed": "present"}, "still_unknown", "unknown", "unknown unknown local_replay query_status"},
			{"none, and no outcome", false, obj{"observed": "absent"}, "confirmed_absent", "confirmed_absent", "failed unknown receipt_reconciled none"},
			{"unreachable, and no outcome", false, obj{"observed": "unreachable"}, "still_unknown", "open", "unknown unknown local_replay query_status"},
		} {
			id := s.begin(c.name, "expectedEffect", effect)
			before := "open"
			if c.outcome {
				before = "unknown"
				s.must("receipt_append", appendArgs(id, "o", "outcome", "unknown", "reasonCodes", []string{"connection_lost"}))
				// A second report resolves nothing: only a read-back leads on.
				s.refused("receipt_append", appendArgs(id, "o2", "outcome", "succeeded"), "unlawful", "")
			}
			// However often it is asked for, it stays unknown.
			for range 2 {
				if got := s.must("receipt_get", obj{"attemptId": id}); at(got, "attempt.state") != before || reads(got) != "unknown unknown local_replay query_status" {
					t.Errorf("%s: before, %v, %v", c.name, at(got, "attempt.state"), got["result"])
				}
			}
			c.readback["source"] = "bank.example"
			// No caller states the result, and without a read-back there is none.
			s.refused("receipt_append", appendArgs(id, "r", "reconciliation", c.status, "readback", c.readback), "invalid_request", "/status")
			s.refused("receipt_append", appendArgs(id, "r", "reconciliation", ""), "invalid_request", "/readback")
			got := s.must("receipt_append", appendArgs(id, "r", "reconciliation", "", "readback", c.readback))
			if at(got, "receipt.action.status") != c.status || at(got, "receipt.statement.readback.source") != "bank.example" || at(got, "receipt.statement.readback.value") != nil {
				t.Errorf("%s: %v", c.name, got)
			}
			after := s.must("receipt_get", obj{"attemptId": id})
			if at(after, "attempt.state") != c.state || at(after, "attempt.reconciliation") != c.status {
				t.Errorf("%s: after, %v", c.name, after["attempt"])
			}
			if reads(after) != c.result {
				t.Errorf("%s: it reads %s, want %s", c.name, reads(after), c.result)
			}
			if strings.Contains(fmt.Sprint(got, after), "retry") {
				t.Errorf("%s: something speaks of retrying: %v", c.name, after)
			}
			if c.status != "still_unknown" && c.status != "contradicted" {
				s.refused("receipt_append", appendArgs(id, "r2", "reconciliation", "", "readback", c.readback), "unlawful", "")
			}
		}
	})
}

// reads is what an answer says of the call, in short.
func reads(got obj) string {
	var recovery any
	if e, ok := at(got, "result.error").(obj); ok {
		recovery = e["recovery"]
	}
	return fmt.Sprint(at(got, "result.status"), " ", at(got, "result.execution.outcome"), " ", at(got, "result.execution.delivery"), " ", recovery)
}

// A call that never left is the only one that may be made again unasked; what is
// no call has no result; and what is shown is one spelling of a tool result, in
// which nothing names the evidence beside it.
func TestTRS01_OPR07_ResultsOfCallsOnRecord(t *testing.T) {
	surfaces(t, func(t *testing.T, _ *ledger, s *session) {
		for status, want := range map[string]string{
			"succeeded":   "succeeded committed local_replay <nil>",
			"failed":      "failed unknown local_replay none",
			"not_started": "failed not_started local_replay retry_after",
			"unknown":     "unknown unknown local_replay query_status",
		} {
			id := s.begin(status)
			s.must("receipt_append", appendArgs(id, "o", "outcome", status, "privateResult", "CANARY-2b77"))
			got := s.must("receipt_get", obj{"attemptId": id})
			if reads(got) != want {
				t.Errorf("%s reads %s, want %s", status, reads(got), want)
			}
			b, err := json.Marshal(got["result"]) // sorted, and all of it ASCII
			if err != nil {
				t.Fatal(err)
			}
			if m, err := toolresult.Parse(b); err != nil || m.Data() != nil {
				t.Errorf("%s: %s, %v", status, b, err)
			}
			for _, text := range []any{id, at(got, "attempt.source.runtimeId"), at(got, "attempt.source.invocationId")} {
				if strings.Contains(string(b), `"`+text.(string)+`"`) && text != status {
					t.Errorf("%s: the result names %v: %s", status, text, b)
				}
			}
			if strings.Contains(string(b), "CANARY") || strings.Contains(string(b), "evt_") || strings.Contains(string(b), "sha256") {
				t.Errorf("%s: %s", status, b)
			}
			for _, rc := range at(got, "attempt.receipts").([]any) {
				one := s.must("receipt_get", obj{"eventId": at(rc, "eventId")})
				if one["result"] != nil {
					t.Errorf("a receipt has a result: %v", one["result"])
				}
			}
		}
		policy := s.begin("p", "subject", obj{"kind": "policy", "id": "house"})
		if got := s.must("receipt_get", obj{"attemptId": policy}); got["result"] != nil {
			t.Errorf("a policy has the result %v", got["result"])
		}
	})
}
