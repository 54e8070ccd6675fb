package mcp

import (
	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/toolresult"
)

// resultOf words an attempt as the result of its call, for a model that asks what
// became of it: whether it took effect, and what may be done next. It is read from
// the record and executes nothing; the tool's own value is not at hand. nil for
// what is no call, and for a state that this program does not know.
func resultOf(a *api.Attempt) *toolresult.ModelResult {
	if a.Subject.Kind != event.ToolAction {
		return nil
	}
	m, err := toolresult.Of(lifecycle.Summary{State: a.State, Outcome: a.Outcome, Reconciliation: a.Reconciliation, Reversal: a.Reversal,
		Review: a.Review, InDoubt: a.InDoubt, Corrected: a.Corrected}, toolresult.LocalReplay)
	if err != nil {
		return nil
	}
	return &m
}

// resultSchema is counterfoil.tool-result.v1 as it is shown here.
func resultSchema() schema {
	null := schema{"type": "null"}
	failure := object(map[string]schema{
		"code":              matching("^[A-Z][A-Z_]*$"),
		"label":             oneOf(toolresult.TrustedControl),
		"message":           text(),
		"recovery":          said(oneOf("none", "retry_after", "query_status", "human_review"), "What may be done next. Only retry_after lets the call be made again without asking."),
		"retryAfterSeconds": {"type": "integer", "minimum": 1},
	}, "retryAfterSeconds")
	return said(object(map[string]schema{
		"schema": oneOf(toolresult.Schema),
		"status": oneOf("succeeded", "failed", "unknown"),
		"data":   null, // the ledger does not show what a tool said
		"error":  {"oneOf": []schema{null, failure}},
		"execution": object(map[string]schema{
			"outcome":  oneOf("not_started", "committed", "unknown"),
			"delivery": oneOf("local_replay", "receipt_reconciled"),
		}),
		"provenance": object(map[string]schema{"claimBoundary": matching("^[a-z][a-z0-9_]*$")}),
	}), "What the attempt says of its call. Act on this: unknown is not failed, and nothing else in the answer says what may be done next.")
}
