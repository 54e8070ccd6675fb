package lifecycle

import "counterfoil/ledger/event"

// Open is the state word of an attempt without an outcome.
const Open = "open"

// Summary is an attempt's state in the words of the views. Empty strings mean
// that no such event is there.
type Summary struct {
	// State is the one word for lists: open, an outcome's status, the result
	// of a reconciliation that settled an open or unknown outcome, or reversed.
	State string
	// Outcome is the status of the outcome in force.
	Outcome string
	// Reconciliation is the status of the newest reconciliation.
	Reconciliation string
	// Reversal is the status of the newest reversal.
	Reversal string
	// Review is the newest review's disposition or verdict.
	Review string
	// InDoubt is true while a contradiction or an unknown reversal stands.
	InDoubt bool
	// Corrected is true if the outcome in force replaced another.
	Corrected bool
}

// Summary words the state. A missing outcome is open, never failed; an unknown
// outcome stays unknown until a reconciliation settles it.
func (s *State) Summary() Summary {
	status := func(l event.Lifecycle) string {
		if i := s.last(l); i >= 0 {
			return s.Entries[i].Status
		}
		return ""
	}
	sum := Summary{
		Outcome: status(event.Outcome), Reconciliation: status(event.Reconciliation),
		Reversal: status(event.Reversal), Review: status(event.Review), InDoubt: s.InDoubt(),
	}
	if i := s.outcome(); i >= 0 {
		sum.Corrected = s.Entries[i].Target >= 0
	}
	sum.State = sum.Outcome
	if sum.State == "" {
		sum.State = Open
	}
	settled := ""
	for _, e := range s.Entries {
		if e.Lifecycle == event.Reconciliation && e.Status != event.StatusStillUnknown {
			settled = e.Status
		}
	}
	if settled != "" && (sum.State == Open || sum.State == event.StatusUnknown || sum.InDoubt) {
		sum.State = settled
	}
	if sum.Reversal == event.StatusReversed && !sum.InDoubt {
		sum.State = event.StatusReversed
	}
	return sum
}
