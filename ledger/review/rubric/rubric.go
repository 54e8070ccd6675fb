// Package rubric judges an old admission anew: a pure function from how its
// evidence did today to what becomes of the contract.
//
//	evidence      drift  impact      disposition  reason codes
//	unavailable   any    any         quarantine   receipt_evidence_unavailable
//	pass          no     any         continue     receipt_still_within_policy
//	pass          yes    privileged  re_admit     policy_drift_detected, privileged_contract_requires_fresh_receipt
//	pass          yes    other       continue     policy_drift_detected
//	fail          any    privileged  retire       current_policy_evidence_fail, privileged_contract
//	fail          any    other       re_admit     current_policy_evidence_fail
//
// Two knobs are data of the policy: a privileged failure may be quarantine in
// place of retire, and standard may be judged as privileged. Evidence of which a
// part is missing is unavailable, with receipt_evidence_incomplete as a second
// code. Nothing else is looked at: not what a live registry says, not history,
// and nothing that a model inferred.
//
// The package is pure. Sources: requirements REV-01 to REV-12, REV-32, X5, X7;
// docs/spec/review.md.
package rubric

import (
	"fmt"
	"slices"

	"counterfoil/ledger/event"
)

// Name is the rubric's name in reviews. A change of the table is a new name.
const Name = "counterfoil.rubric.v1"

// Disposition is what becomes of a contract.
type Disposition string

// The dispositions, as in the status of a review.
const (
	Continue   Disposition = "continue"
	ReAdmit    Disposition = "re_admit"
	Quarantine Disposition = "quarantine"
	Retire     Disposition = "retire"
)

// Reason codes of results. They are in the registry of events, which is
// append-only.
const (
	StillWithinPolicy   = "receipt_still_within_policy"
	PolicyDrift         = "policy_drift_detected"
	NeedsFreshReceipt   = "privileged_contract_requires_fresh_receipt"
	EvidenceFail        = "current_policy_evidence_fail"
	PrivilegedContract  = "privileged_contract"
	EvidenceUnavailable = "receipt_evidence_unavailable"
	EvidenceIncomplete  = "receipt_evidence_incomplete"
)

// Input is all that the rubric looks at.
type Input struct {
	// Recheck is how the evidence did under today's policy: pass, fail or
	// unavailable, as event.RecheckStates.
	Recheck string
	// Incomplete says of unavailable evidence that a part of it was there.
	Incomplete bool
	// Drift says that today's policy has another digest than that of then.
	Drift bool
	// Impact is the contract's now: low, standard or privileged.
	Impact string
}

// Knobs are what the policy decides. The zero value is the default.
type Knobs struct {
	// PrivilegedFail is Retire or Quarantine; empty is Retire.
	PrivilegedFail Disposition
	// StandardAs is low or privileged: as which impact standard is judged;
	// empty is low.
	StandardAs string
}

// Result is a disposition and its reasons, of which there is at least one.
type Result struct {
	Disposition Disposition
	Reasons     []string
}

// Error says which part of the input is missing or unknown. Nothing is judged
// then (REV-01, REV-12).
type Error struct{ Field, Got string }

func (e *Error) Error() string {
	return fmt.Sprintf("review input: %s is %q, which the rubric does not know", e.Field, e.Got)
}

// Judge applies the table. The error is an *[Error].
func Judge(in Input, k Knobs) (Result, error) {
	impact, err := in.check(k)
	if err != nil {
		return Result{}, err
	}
	privileged := impact == event.ImpactPrivileged
	switch {
	case in.Recheck == event.RecheckUnavailable && in.Incomplete:
		return Result{Quarantine, []string{EvidenceUnavailable, EvidenceIncomplete}}, nil
	case in.Recheck == event.RecheckUnavailable:
		return Result{Quarantine, []string{EvidenceUnavailable}}, nil
	case in.Recheck == event.RecheckFail && privileged:
		if k.PrivilegedFail == Quarantine {
			return Result{Quarantine, []string{EvidenceFail, PrivilegedContract}}, nil
		}
		return Result{Retire, []string{EvidenceFail, PrivilegedContract}}, nil
	case in.Recheck == event.RecheckFail:
		return Result{ReAdmit, []string{EvidenceFail}}, nil
	case in.Drift && privileged:
		return Result{ReAdmit, []string{PolicyDrift, NeedsFreshReceipt}}, nil
	case in.Drift:
		return Result{Continue, []string{PolicyDrift}}, nil
	}
	return Result{Continue, []string{StillWithinPolicy}}, nil
}

// check returns the impact by which is judged.
func (in Input) check(k Knobs) (impact string, err error) {
	switch {
	case !slices.Contains(event.RecheckStates, in.Recheck):
		return "", &Error{"recheck", in.Recheck}
	case in.Incomplete && in.Recheck != event.RecheckUnavailable:
		return "", &Error{"recheck", in.Recheck + " of incomplete evidence"}
	case !slices.Contains(event.Impacts, in.Impact):
		return "", &Error{"impact", in.Impact}
	case k.PrivilegedFail != "" && k.PrivilegedFail != Retire && k.PrivilegedFail != Quarantine:
		return "", &Error{"privileged failure", string(k.PrivilegedFail)}
	case k.StandardAs != "" && k.StandardAs != event.ImpactLow && k.StandardAs != event.ImpactPrivileged:
		return "", &Error{"standard as", k.StandardAs}
	case in.Impact == event.ImpactStandard && k.StandardAs == event.ImpactPrivileged:
		return event.ImpactPrivileged, nil
	}
	return in.Impact, nil
}
