package rpc_test

import (
	"strings"
	"testing"

	v1 "counterfoil/proto/counterfoil/v1"
)

func TestREV22_RPCRecordsContractsAndReviews(t *testing.T) {
	l := startLedger(t)
	defer l.stop(t)
	c := l.client(t, l.Token, false)
	digest := "sha256:" + strings.Repeat("1", 64)
	b := begin("contract-1", `1`)
	b.Subject = &v1.Subject{Kind: "contract", Id: "mcp/a"}
	b.Contract = &v1.ContractTerms{Impact: "low", Receipt: digest, Artifact: digest, Tools: digest, Class: "light", Server: "io.github.example/a"}
	set := beginOver(t, c, b)
	if got := set.GetReceipt().GetStatement().GetContract(); got.GetImpact() != "low" || got.GetReceipt() != digest || got.GetServer() != "io.github.example/a" {
		t.Errorf("%v", set)
	}
	review := &v1.AppendRequest{AttemptId: set.GetReceipt().GetAttemptId(), SourceEventId: "review:r", Lifecycle: "review", Status: "re_admit",
		OccurredAt: "2026-07-28T00:00:02.000Z", Rubric: "counterfoil.rubric.v1", ReasonCodes: []string{"current_policy_evidence_fail"},
		Refs: map[string]string{"reviews": set.GetReceipt().GetEventId(), "receipt": digest, "policy": digest, "contract": digest, "recheck": digest},
		Run:  &v1.ReviewRun{Id: "r", Trigger: "manual", Mode: "report_only", Impact: "low", Recheck: "fail", Causes: []string{"signer_key_unknown"}}}
	got, err := c.Append(t.Context(), review)
	if run := got.GetReceipt().GetStatement().GetReview().GetRun(); err != nil || run.GetRecheck() != "fail" || len(run.GetCauses()) != 1 {
		t.Errorf("%v %v", got, err)
	}
	review.SourceEventId, review.Run.Recheck = "review:r2", "passed"
	if _, err := c.Append(t.Context(), review); err == nil {
		t.Error("an unknown state was accepted")
	}
}
