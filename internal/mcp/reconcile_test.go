package mcp_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestCaseUnknownOutcome_EVI10_EVI11_OPR08_OPR12 is the field's case over MCP: an
// attempt whose outcome nobody knows, and what a read-back makes of it. An answer
// of an authority decides, never its absence, and nothing says that the action is
// safe to repeat.
func TestCaseUnknownOutcome_EVI10_EVI11_OPR08_OPR12(t *testing.T) {
	surfaces(t, func(t *testing.T, _ *ledger, s *session) {
		effect := obj{"amount": 10.5, "to": "Zoë"}
		for _, c := range []struct {
			name          string
			outcome       bool // unknown; else there is none
			readback      obj
			status, state string
		}{
			{"none", true, obj{"observed": "absent"}, "confirmed_absent", "confirmed_absent"},
			{"one matching", true, obj{"observed": "present", "value": effect}, "confirmed_committed", "confirmed_committed"},
			{"one differing", true, obj{"observed": "present", "value": obj{"amount": 11}}, "contradicted", "contradicted"},
			{"two", true, obj{"observed": "present", "count": 2, "value": effect}, "contradicted", "contradicted"},
			{"unreachable", true, obj{"observed": "unreachable"}, "still_unknown", "unknown"},
			{"present, nothing to compare", true, obj{"observed": "present"}, "still_unknown", "unknown"},
			{"none, and no outcome", false, obj{"observed": "absent"}, "confirmed_absent", "confirmed_absent"},
			{"unreachable, and no outcome", false, obj{"observed": "unreachable"}, "still_unknown", "open"},
		} {
			id := s.begin(c.name, "expectedEffect", effect)
			before := "open"
			if c.outcome {
				before = "unknown"
				s.must("receipt_append", appendArgs(id, "o", "outcome", "unknown", "reasonCodes", []string{"connection_lost"}))
				// A second report resolves nothing: only a read-back leads on.
				s.refused("receipt_append", appendArgs(id, "o2", "outcome", "succeeded"), "unlawful", "")
			}
			if got := s.must("receipt_get", obj{"attemptId": id}); at(got, "attempt.state") != before {
				t.Errorf("%s: before, %v", c.name, at(got, "attempt.state"))
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
			if strings.Contains(fmt.Sprint(got, after), "retry") {
				t.Errorf("%s: something speaks of retrying: %v", c.name, after)
			}
			if c.status != "still_unknown" && c.status != "contradicted" {
				s.refused("receipt_append", appendArgs(id, "r2", "reconciliation", "", "readback", c.readback), "unlawful", "")
			}
		}
	})
}
