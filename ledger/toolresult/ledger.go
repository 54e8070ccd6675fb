package toolresult

import (
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// Of words the state of an attempt as the result of its call. told is LocalReplay
// where the record is read, or Fresh where whoever made the call hands on its
// outcome; what a read-back settled is receipt_reconciled in any case.
//
//	state                 status     outcome      error
//	succeeded             succeeded  committed
//	confirmed_committed   succeeded  committed
//	failed                failed     unknown      TOOL_ERROR
//	confirmed_absent      failed     unknown      TOOL_ERROR
//	not_started           failed     not_started  TIMEOUT_BEFORE_EXECUTE
//	open, unknown         unknown    unknown      OUTCOME_UNKNOWN
//	contradicted,         unknown    unknown      STATUS_CONFLICT
//	reversed, in doubt
//
// Nothing is guessed (OPR-12): without a read-back that settled it an unknown
// outcome stays unknown, and a success whose effect was found absent later is in
// conflict and no failure. An error says that the words do not go together, or
// are not those of this program; what is open, contradicted or reversed is never
// fresh.
func Of(sum lifecycle.Summary, told Delivery) (ModelResult, error) {
	r, ok := word(sum)
	if !ok {
		return ModelResult{}, bad("/state", "%s is not a state of an attempt", clip(sum.State))
	}
	if r.delivery == "" {
		if told != Fresh && told != LocalReplay {
			return ModelResult{}, bad("/execution/delivery", "%s is for a read-back to say; want %s or %s", clip(string(told)), Fresh, LocalReplay)
		}
		r.delivery = told
	}
	m, ok := find(r.status, r.outcome, r.delivery, r.code, r.boundary)
	if !ok {
		return ModelResult{}, bad("/execution/delivery", "what is %s comes from the record alone: want %s", sum.State, LocalReplay)
	}
	return m, nil
}

// word finds the row of a state, without its delivery unless a read-back gave it.
func word(sum lifecycle.Summary) (row, bool) {
	if sum.InDoubt {
		if sum.State != event.StatusContradicted && sum.Reversal == event.StatusUnknown {
			return conflict(byReversal), true
		}
		return conflict(byReconciliation), true
	}
	switch sum.State {
	case lifecycle.Open:
		return row{status: Unknown, outcome: OutcomeUnknown, code: UnknownOutcome, boundary: byAttempt}, true
	case event.StatusUnknown:
		return row{status: Unknown, outcome: OutcomeUnknown, code: UnknownOutcome, boundary: byOutcome}, true
	case event.StatusSucceeded:
		return row{status: Succeeded, outcome: Committed, boundary: byOutcome}, true
	case event.StatusFailed:
		return row{status: Failed, outcome: OutcomeUnknown, code: ToolError, boundary: byOutcome}, true
	case event.StatusNotStarted:
		return row{status: Failed, outcome: NotStarted, code: TimeoutBeforeExecute, boundary: byOutcome}, true
	case event.StatusConfirmedCommitted:
		return row{status: Succeeded, outcome: Committed, delivery: ReceiptReconciled, boundary: byReconciliation}, true
	case event.StatusConfirmedAbsent:
		if sum.Outcome == event.StatusSucceeded || sum.Reversal == event.StatusReversed || sum.Reversal == event.StatusUnknown {
			return conflict(byReconciliation), true // it is gone, which is not that it never was
		}
		return row{status: Failed, outcome: OutcomeUnknown, delivery: ReceiptReconciled, code: ToolError, boundary: byReconciliation}, true
	case event.StatusContradicted:
		return conflict(byReconciliation), true
	case event.StatusReversed:
		return conflict(byReversal), true
	}
	return row{}, false
}

// conflict is the row of what is on record and does not agree.
func conflict(boundary string) row {
	return row{status: Unknown, outcome: OutcomeUnknown, code: StatusConflict, boundary: boundary}
}
