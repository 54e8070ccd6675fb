package toolresult

// Claim boundaries that a result can carry: that of the event that gave it its
// word. Their texts are in package event.
const (
	byAttempt        = "attempt_self_asserted_v1"
	byOutcome        = "outcome_self_asserted_v1"
	byReversal       = "reversal_self_asserted_v1"
	byReconciliation = "reconciliation_derived_v1"
)

// row is a lawful combination.
type row struct {
	status   Status
	outcome  Outcome
	delivery Delivery
	code     Code
	boundary string
	data     bool // a tool's value may stand beside it
}

// lawful has every combination that there is, and the first is the one of which
// least is said (TRS-03, TRS-04):
//
//   - only what succeeded is committed, and it has no error;
//   - what failed has an error, and is not_started if it never left: of anything
//     else that failed the effect is not known, an absence that was read back
//     included, since it is what one source showed at one time;
//   - what is unknown is unknown in both, has no value, and is never
//     receipt_reconciled: a read-back that leaves doubt has settled nothing.
var lawful = [...]row{
	{Unknown, OutcomeUnknown, LocalReplay, UnknownOutcome, byAttempt, false}, // open
	{Unknown, OutcomeUnknown, LocalReplay, UnknownOutcome, byOutcome, false},
	{Unknown, OutcomeUnknown, Fresh, UnknownOutcome, byOutcome, false},
	{Unknown, OutcomeUnknown, LocalReplay, StatusConflict, byReconciliation, false}, // contradicted, or the effect of a success is gone
	{Unknown, OutcomeUnknown, LocalReplay, StatusConflict, byReversal, false},       // reversed, or perhaps

	{Succeeded, Committed, Fresh, "", byOutcome, true},
	{Succeeded, Committed, LocalReplay, "", byOutcome, true},
	{Succeeded, Committed, ReceiptReconciled, "", byReconciliation, true},

	{Failed, NotStarted, Fresh, TimeoutBeforeExecute, byOutcome, false},
	{Failed, NotStarted, LocalReplay, TimeoutBeforeExecute, byOutcome, false},
	{Failed, OutcomeUnknown, Fresh, ToolError, byOutcome, true},
	{Failed, OutcomeUnknown, LocalReplay, ToolError, byOutcome, true},
	{Failed, OutcomeUnknown, ReceiptReconciled, ToolError, byReconciliation, false}, // absent
}

// find returns the result of a combination.
func find(status Status, outcome Outcome, delivery Delivery, code Code, boundary string) (ModelResult, bool) {
	for i, r := range lawful {
		if r.status == status && r.outcome == outcome && r.delivery == delivery && r.code == code && r.boundary == boundary {
			return ModelResult{row: uint8(i)}, true
		}
	}
	return ModelResult{}, false
}
