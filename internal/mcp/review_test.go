package mcp_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/client"
)

// Agents can read contracts and the reviews of runs; the answers keep to their
// schema, which names every member.
func TestREV22_MCP04_ContractsAndReviewsAreRead(t *testing.T) {
	surfaces(t, func(t *testing.T, l *ledger, s *session) {
		cl := l.client(t)
		digest := "sha256:" + strings.Repeat("1", 64)
		send := func(path string, body obj) string {
			t.Helper()
			b, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			var a *client.Answer[client.Receipt]
			if path == "" {
				a, err = cl.BeginRaw(t.Context(), b, client.Logged)
			} else {
				a, err = cl.AppendRaw(t.Context(), path, b, client.Logged)
			}
			if err != nil {
				t.Fatal(err)
			}
			if path == "" {
				return a.Value.AttemptID + " " + a.Value.EventID
			}
			return a.Value.EventID
		}
		id, set, _ := strings.Cut(send("", obj{
			"source":     obj{"runtimeId": "r", "agentId": "a", "invocationId": "c-" + t.Name(), "protocol": "p", "implementation": "i"},
			"occurredAt": "2026-11-30T12:00:00.000Z", "action": obj{"name": "set_contract", "effectKind": "contract", "effectMode": "replace"},
			"subject":  obj{"kind": "contract", "id": "mcp/a"},
			"contract": obj{"impact": "privileged", "receipt": digest, "artifact": digest, "class": "privileged"},
		}), " ")
		review := send(id, obj{
			"lifecycle": "review", "sourceEventId": "review:r", "occurredAt": "2026-11-30T12:00:00.000Z", "status": "retire", "rubric": "counterfoil.rubric.v1",
			"reasonCodes": []string{"current_policy_evidence_fail", "privileged_contract"},
			"refs":        obj{"reviews": set, "receipt": digest, "policy": digest, "contract": digest, "recheck": digest},
			"run":         obj{"id": "r", "trigger": "incident", "mode": "enforced", "impact": "privileged", "recheck": "fail", "causes": []string{"signer_key_unknown"}},
		})
		got := s.must("receipt_get", obj{"attemptId": id})
		receipts := at(got, "attempt.receipts").([]any)
		if at(receipts[0], "statement.contract.impact") != "privileged" || at(receipts[1], "statement.review.run.mode") != "enforced" {
			t.Errorf("%v", got)
		}
		if rc := s.must("receipt_get", obj{"eventId": review}); at(rc, "receipt.statement.review.run.recheck") != "fail" {
			t.Errorf("%v", rc)
		}
	})
}
