package event

// Status words by lifecycle. Reviews depend on the subject kind: see
// ReviewStatuses. Source: EVI-23 and the lifecycle table of the specification.
const (
	StatusRequested = "requested"

	StatusSucceeded  = "succeeded"
	StatusFailed     = "failed"
	StatusNotStarted = "not_started"
	StatusUnknown    = "unknown"

	StatusReversed = "reversed"

	StatusConfirmedCommitted = "confirmed_committed"
	StatusConfirmedAbsent    = "confirmed_absent"
	StatusContradicted       = "contradicted"
	StatusStillUnknown       = "still_unknown"
)

var statuses = map[Lifecycle][]string{
	Attempt:        {StatusRequested},
	Outcome:        {StatusSucceeded, StatusFailed, StatusNotStarted, StatusUnknown},
	Reversal:       {StatusReversed, StatusFailed, StatusUnknown},
	Reconciliation: {StatusConfirmedCommitted, StatusConfirmedAbsent, StatusContradicted, StatusStillUnknown},
}

var (
	dispositions = []string{"continue", "re_admit", "quarantine", "retire"}
	verdicts     = []string{"upheld", "disputed", "noted"}
)

// Statuses returns the status words that an event of this lifecycle and
// subject kind may carry: reviews of contracts and admissions give a
// disposition, all other reviews a verdict. The slice must not be changed.
func Statuses(l Lifecycle, k SubjectKind) []string {
	if l == Review {
		if k == Contract || k == Admission {
			return dispositions
		}
		return verdicts
	}
	return statuses[l]
}

// KnownKind reports whether k is one of the eight subject kinds.
func KnownKind(k SubjectKind) bool {
	switch k {
	case ToolAction, Admission, Contract, Retrieval, Citation, Key, Policy, Ledger:
		return true
	}
	return false
}

// Phase is the word for a lifecycle in the receipt's action (EVI-14, EVI-23).
func (l Lifecycle) Phase() string {
	if l == Attempt {
		return "intent"
	}
	return string(l)
}

// claimBoundaries is the registry of claim boundary codes and their texts. It
// is append-only: a text that changes gets a new code. Sources: CLM-03, CLM-04,
// CLM-05, CLM-09, ATT-30.
var claimBoundaries = map[string]string{
	"attempt_self_asserted_v1": "A source that nobody verified says that it is about to act. This does not show that the action was authorised, sent, or happened; " +
		"an attempt without an outcome is open and proves nothing.",
	"outcome_self_asserted_v1": "A source that nobody verified says how its action ended. This does not show that the effect exists in the world, that it happened exactly once, " +
		"or that the report is complete; unknown is not failed.",
	"reversal_self_asserted_v1": "A source that nobody verified says that it tried to undo an outcome. The outcome stays on record; this does not show that its effect is gone.",
	"reconciliation_derived_v1": "The ledger compared keyed tags of a read-back with the attempt's expected effect or reported result and derived the status; no caller stated it. " +
		"The read-back itself is self-asserted: whether its source is authoritative, current and truthful is outside this claim.",
	"review_opinion_v1": "A named reviewer or rubric judged earlier events. The judged events are unchanged, and the judgement does not authorise or prevent execution.",
	"ledger_notice_v1":  "The ledger states something about its own operation, such as events that it knows to be lost. A notice does not show that nothing else was lost.",
}

// ClaimBoundaryFor returns the one code that an event of this kind carries.
// Callers cannot choose or strengthen it.
func ClaimBoundaryFor(l Lifecycle, k SubjectKind) string {
	if k == Ledger {
		return "ledger_notice_v1"
	}
	switch l {
	case Attempt:
		return "attempt_self_asserted_v1"
	case Outcome:
		return "outcome_self_asserted_v1"
	case Reversal:
		return "reversal_self_asserted_v1"
	case Reconciliation:
		return "reconciliation_derived_v1"
	case Review:
		return "review_opinion_v1"
	}
	return ""
}

// ClaimBoundaryText returns the registered text of a code.
func ClaimBoundaryText(code string) (string, bool) {
	text, ok := claimBoundaries[code]
	return text, ok
}

// reasonCodes is the registry of reason codes that an intake accepts, with
// their meaning. It is append-only. A reader accepts any code of the right
// form, so that old verifiers read new logs.
var reasonCodes = map[string]string{
	"tool_error":            "the tool answered with an error result",
	"protocol_error":        "the protocol answered with an error instead of a result",
	"timeout":               "no answer arrived in time",
	"cancelled":             "the caller cancelled the action",
	"connection_lost":       "the connection was lost after the action left",
	"server_exited":         "the process that acted ended before it answered",
	"recorder_restarted":    "the recorder restarted between attempt and outcome",
	"response_missing":      "the recorded session ends without an answer",
	"access_denied":         "the action was refused by an access rule",
	"invalid_arguments":     "the action was refused because of its arguments",
	"not_dispatched":        "the action never left the caller",
	"correction":            "an earlier report was wrong",
	"duplicate_effect":      "the effect was found more than once",
	"events_lost":           "events that were accepted are not in the log",
	"stream_damaged":        "the stream was rebuilt from the log after damage",
	"manual_review":         "a person looked at it",
	"policy_drift_detected": "today's policy differs from the policy of then",
	"evidence_gap":          "calls were let through while no evidence of them could be recorded",
	"contract_changed":      "the definition of a tool differs from the one recorded before",
	"tool_set_changed":      "the list of tools differs from the one recorded before",
	"late_answer":           "an answer arrived after the outcome was recorded",
	"input_required":        "the answer asks for more input before the action can go on",

	"receipt_still_within_policy":                "the evidence of the receipt passes under today's policy, which is the policy of then",
	"privileged_contract_requires_fresh_receipt": "the policy changed since; a privileged contract needs an admission under today's",
	"current_policy_evidence_fail":               "the evidence of the receipt does not pass under today's policy",
	"privileged_contract":                        "the contract is privileged, so a failure weighs more",
	"receipt_evidence_unavailable":               "evidence of the receipt cannot be read any more, so nothing can be judged",
	"receipt_evidence_incomplete":                "a part of the evidence of the receipt cannot be read any more; the rest is not judged by itself",
}

// ReasonCodeMeaning returns what a registered reason code means.
func ReasonCodeMeaning(code string) (string, bool) {
	meaning, ok := reasonCodes[code]
	return meaning, ok
}
