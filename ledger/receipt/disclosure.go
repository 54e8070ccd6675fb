package receipt

import (
	"fmt"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
)

// Disclosure is what is known of the private value behind a commitment.
type Disclosure string

// States of a disclosure. Missing is neutral: nobody has to show a value, and a
// value that is not shown says nothing about the receipt (PRV-10).
const (
	DisclosureMissing  Disclosure = "missing"
	DisclosureMismatch Disclosure = "mismatch"
	DisclosureErased   Disclosure = "unavailable_after_erasure"
	DisclosureOpened   Disclosure = "opened"
)

// Logged is an event with its leaf index.
type Logged struct {
	Index uint64
	Event *event.Event
}

// Disclose judges what is offered for the commitment called name in an event: an
// opening, or the events of an attempt in which the ledger says that it erased the
// value, or nothing. detail says why it is not opened; it holds nothing private.
// The events must have been verified by the caller, in one log, under a trust file
// from outside ([Verify]); here they are only compared:
//
//	an opening that fits                                           opened
//	any other opening                                              mismatch
//	an erasure that names the attempt, came after the event, and
//	has the outcome succeeded                                      unavailable_after_erasure
//	any other erasure                                              mismatch
//	nothing                                                        missing
//
// An opening comes first: a value that somebody still has is not unavailable.
func Disclose(of Logged, name string, opening *commit.Opening, erasure []Logged) (d Disclosure, detail string) {
	digest, err := commit.ParseDigest(of.Event.Commitments[name])
	switch {
	case opening != nil && err != nil:
		return DisclosureMismatch, fmt.Sprintf("the event commits to no value called %q", name)
	case opening != nil && opening.Name != name:
		return DisclosureMismatch, fmt.Sprintf("the opening is of %q, not of %q", opening.Name, name)
	case opening != nil:
		if err := commit.Verify(*opening, digest); err != nil {
			return DisclosureMismatch, err.Error()
		}
		return DisclosureOpened, ""
	case len(erasure) == 0:
		return DisclosureMissing, "no opening and no erasure was shown"
	case err != nil:
		return DisclosureMismatch, fmt.Sprintf("the event commits to no value called %q", name)
	}
	if detail := erases(erasure, of); detail != "" {
		return DisclosureMismatch, detail
	}
	return DisclosureErased, "the ledger says that it destroyed the value; others may have copies"
}

// erases says why the events do not show that the values of an event were erased.
func erases(proof []Logged, of Logged) string {
	notice, e := proof[0].Event, of.Event
	x, ok := notice.Erasure()
	switch {
	case !ok || notice.Lifecycle != event.Attempt || notice.Subject.Kind != event.Ledger:
		return "the first event announces no erasure"
	case notice.Ledger != e.Ledger || notice.Tenant != e.Tenant:
		return "the erasure is of another ledger or tenant"
	case proof[0].Index <= of.Index:
		return "the erasure was announced before the event was recorded"
	}
	named := false
	for _, id := range x.Attempts {
		named = named || id == e.AttemptID
	}
	if !named {
		return "the erasure does not name the attempt"
	}
	previous := event.DigestOf(notice.Append(nil))
	for _, p := range proof[1:] {
		o := p.Event
		if o.AttemptID != notice.AttemptID || o.Previous != previous.String() {
			return "its events are not one chain"
		}
		if o.Lifecycle == event.Outcome && o.Status == event.StatusSucceeded {
			return ""
		}
		previous = event.DigestOf(o.Append(nil))
	}
	return "the erasure was announced and has no outcome that says it was done"
}
