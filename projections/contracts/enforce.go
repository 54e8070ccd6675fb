package contracts

import "counterfoil/ledger/event"

// Call is what a caller does with a call of a tool under a contract.
type Call string

// Calls. Queue lets the call through, and the contract is in the queue of what
// is to be remedied.
const (
	Allow  Call = "allow"
	Queue  Call = "queue"
	Refuse Call = "refuse"
)

// Reasons of a standing that is not allow.
const (
	ReasonQuarantined = "contract_quarantined"
	ReasonRetired     = "contract_retired"
	ReasonReadmission = "contract_requires_readmission"
	ReasonReportOnly  = "contract_reported"
	ReasonUnknown     = "contract_unknown"
)

// Standing is what the reviews say about calls now.
type Standing struct {
	Call   Call
	Reason string // empty with allow
	// Review is the review that says so; nil with allow if there is none.
	Review *Review
}

// Standing says whether tools may be called under the contract (REV-28, OPS-03).
// A review of another receipt than the one in force says nothing any more: the
// receipt was replaced.
func (r *Row) Standing() Standing {
	e := r.about(r.Enforced)
	if e != nil {
		switch e.Disposition {
		case "quarantine":
			return Standing{Refuse, ReasonQuarantined, e}
		case "retire":
			return Standing{Refuse, ReasonRetired, e}
		case "re_admit":
			if r.Terms.Impact == event.ImpactPrivileged {
				return Standing{Refuse, ReasonReadmission, e}
			}
			return Standing{Queue, ReasonReadmission, e}
		}
	}
	if p := r.about(r.Reported); p != nil && (e == nil || p.Index > e.Index) {
		if p.Disposition != "continue" {
			return Standing{Queue, ReasonReportOnly, p}
		}
		return Standing{Allow, "", p}
	}
	return Standing{Allow, "", e}
}

// about returns a review if it is about the receipt in force.
func (r *Row) about(rev *Review) *Review {
	if rev == nil || rev.Receipt != r.Terms.Receipt {
		return nil
	}
	return rev
}
