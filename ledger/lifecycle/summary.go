package lifecycle

import "counterfoil/ledger/event"

// Open is the state word of an attempt without an outcome.
const Open = "open"

// Summary is an attempt's state in the words of the views. Empty strings mean
// that no such event is there.
type Summary struct {
	// State is the one word for lists: open, or what the newest event says
	// that tells something of the effect: the status of an outcome, of a
	// reconciliation unless still_unknown, or reversed.
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
	sum.State = Open
	for _, e := range s.Entries {
		switch e.Lifecycle {
		case event.Outcome:
			sum.State = e.Status
		case event.Reconciliation:
			if e.Status != event.StatusStillUnknown {
				sum.State = e.Status
			}
		case event.Reversal:
			if e.Status == event.StatusReversed {
				sum.State = e.Status
			}
		}
	}
	return sum
}
