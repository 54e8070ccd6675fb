// Package lifecycle folds the events of one attempt into its state and says
// what may follow.
//
// The rules are the same for everyone who reads the log: the intake asks Next
// before it writes, and index, follower and auditor call Apply on what was
// written. An event that Apply refuses is on the log all the same; it just does
// not count.
//
//	attempt         first, revision 1
//	outcome         while open; then only as a correction that names the outcome
//	                in force, and never one that leaves unknown
//	reversal        names an outcome of this attempt that is not reversed yet
//	reconciliation  while open, unknown or in doubt; its status is derived from
//	                tags and must equal what Derive says
//	review          names any event of this attempt
//
// The package is pure. A State is not safe for concurrent use.
package lifecycle

import (
	"fmt"

	"counterfoil/ledger/event"
)

// Names of refs that the rules read.
const (
	RefCorrects = "corrects" // outcome → the outcome that it replaces
	RefReverses = "reverses" // reversal → the outcome that it undoes
	RefReviews  = "reviews"  // review → the event that it judges
)

// Names of tags that the rules compare.
const (
	TagExpectedEffect = "expectedEffect"
	TagResult         = "result"
	TagReadBack       = "readback"
)

// Codes of a Violation.
const (
	NotFirst       = "attempt_exists"           // a second attempt event
	NoAttempt      = "attempt_missing"          // an event before its attempt
	BrokenLink     = "chain_broken"             // revision or previous does not continue the chain
	DuplicateLeaf  = "duplicate_leaf"           // this very event is in the chain already
	DuplicateID    = "duplicate_source_event"   // another event has this source event id
	OutcomeExists  = "outcome_exists"           // a second outcome without a correction
	LeavesUnknown  = "unknown_needs_readback"   // a correction of an unknown outcome
	WrongTarget    = "link_target_wrong"        // a ref that names no fitting event of this attempt
	AlreadyUndone  = "already_reversed"         // the outcome was reversed
	NotInDoubt     = "nothing_to_reconcile"     // the outcome is known and nobody doubts it
	NotDerived     = "status_not_derived"       // a reconciliation whose status the tags do not give
	TooManyEvents  = "too_many_events"          // MaxRevision reached
	OpenNoLonger   = "attempt_not_open"         // a first outcome after a reconciliation settled the attempt
	IdentityDiffer = "attempt_identity_differs" // ledger, tenant, subject, action or trace changed
)

// Violation says which rule an event breaks.
type Violation struct {
	Code   string
	Detail string
}

func (v *Violation) Error() string { return v.Code + ": " + v.Detail }

func violation(code, format string, args ...any) *Violation {
	return &Violation{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Entry is what the rules remember of one event.
type Entry struct {
	Digest    event.Digest
	SourceKey [16]byte // event.SourceKey of the source event id; zero for the attempt
	Lifecycle event.Lifecycle
	Status    string
	// Result is the effect tag of an outcome's result, "" without one.
	Result string
	// Target is the index in State.Entries of the event that this one
	// corrects, reverses or reviews; −1 without one.
	Target int
}

// State is the fold of an attempt's events so far. The zero value is an attempt
// that has not begun.
type State struct {
	Entries []Entry
	// Expected is the effect tag of the expected effect, "" without one.
	Expected string
	// Identity is the digest of what every event of the attempt repeats.
	Identity event.Digest
}

// Revision is the revision of the newest event, 0 before the attempt.
func (s *State) Revision() int64 { return int64(len(s.Entries)) }

// Head is the digest of the newest event.
func (s *State) Head() (event.Digest, bool) {
	if len(s.Entries) == 0 {
		return event.Digest{}, false
	}
	return s.Entries[len(s.Entries)-1].Digest, true
}

// Find returns the place of an event in the chain, −1 if it is not there.
func (s *State) Find(d event.Digest) int {
	for i := range s.Entries {
		if s.Entries[i].Digest == d {
			return i
		}
	}
	return -1
}

// FindSource returns the place of an appended event by its source event id.
func (s *State) FindSource(sourceEventID string) int {
	k := event.SourceKey(sourceEventID)
	for i := 1; i < len(s.Entries); i++ {
		if s.Entries[i].SourceKey == k {
			return i
		}
	}
	return -1
}

// outcome returns the place of the outcome in force, −1 without one.
func (s *State) outcome() int { return s.last(event.Outcome) }

func (s *State) last(l event.Lifecycle) int {
	for i := len(s.Entries) - 1; i >= 0; i-- {
		if s.Entries[i].Lifecycle == l {
			return i
		}
	}
	return -1
}

// Identity hashes the members that every event of an attempt repeats.
func Identity(e *event.Event) event.Digest {
	id := event.Event{Ledger: e.Ledger, Tenant: e.Tenant, AttemptID: e.AttemptID, Subject: e.Subject, Source: e.Source, Action: e.Action, TraceID: e.TraceID}
	id.Source.EventID = ""
	return event.DigestOf(id.Append(make([]byte, 0, 1024)))
}

// Check reports the rule that e would break as the next event, nil if none.
// digest is that of e's canonical bytes. e must be valid (event.Parse).
func (s *State) Check(e *event.Event, digest event.Digest) *Violation {
	if s.Find(digest) >= 0 {
		return violation(DuplicateLeaf, "%s is event %d of the attempt already", digest.EventID(), s.Find(digest)+1)
	}
	if e.Lifecycle == event.Attempt {
		if len(s.Entries) > 0 {
			return violation(NotFirst, "the attempt began with %s", s.Entries[0].Digest.EventID())
		}
		return nil
	}
	if len(s.Entries) == 0 {
		return violation(NoAttempt, "no attempt %s", e.AttemptID)
	}
	if len(s.Entries) >= event.MaxRevision {
		return violation(TooManyEvents, "an attempt holds at most %d events", event.MaxRevision)
	}
	if i := s.FindSource(e.Source.EventID); i >= 0 {
		return violation(DuplicateID, "source event id %q belongs to %s", e.Source.EventID, s.Entries[i].Digest.EventID())
	}
	head, _ := s.Head()
	if prev, ok := event.ParseDigest(e.Previous); !ok || prev != head || e.Revision != s.Revision()+1 {
		return violation(BrokenLink, "revision %d after %s, want revision %d after %s", e.Revision, e.Previous, s.Revision()+1, head)
	}
	if Identity(e) != s.Identity {
		return violation(IdentityDiffer, "ledger, tenant, subject, source, action and trace must be those of the attempt")
	}
	return s.allowed(e)
}

func (s *State) allowed(e *event.Event) *Violation {
	switch e.Lifecycle {
	case event.Outcome:
		return s.allowOutcome(e)
	case event.Reversal:
		i, v := s.target(e, RefReverses, event.Outcome)
		if v != nil {
			return v
		}
		for _, other := range s.Entries {
			if other.Lifecycle == event.Reversal && other.Target == i && other.Status == event.StatusReversed {
				return violation(AlreadyUndone, "%s was reversed by %s", s.Entries[i].Digest.EventID(), other.Digest.EventID())
			}
		}
	case event.Reconciliation:
		if !s.Reconcilable() {
			return violation(NotInDoubt, "the attempt is %q and not in doubt", s.Summary().State)
		}
		rb, _ := e.ReadBack()
		if want := s.Derive(rb, e.Tags[TagReadBack]); e.Status != want {
			return violation(NotDerived, "status %q, but the read-back gives %q", e.Status, want)
		}
	case event.Review:
		_, v := s.target(e, RefReviews, "")
		return v
	}
	return nil
}

func (s *State) allowOutcome(e *event.Event) *Violation {
	cur := s.outcome()
	_, corrects := e.Refs[RefCorrects]
	if cur < 0 {
		if corrects {
			return violation(WrongTarget, "refs.%s names an outcome, but the attempt has none", RefCorrects)
		}
		if r := s.settled(); r >= 0 {
			return violation(OpenNoLonger, "the attempt was settled by reconciliation %s", s.Entries[r].Digest.EventID())
		}
		return nil
	}
	if !corrects {
		return violation(OutcomeExists, "the outcome is %q (%s); a second one must name it in refs.%s",
			s.Entries[cur].Status, s.Entries[cur].Digest.EventID(), RefCorrects)
	}
	i, v := s.target(e, RefCorrects, event.Outcome)
	if v != nil {
		return v
	}
	if i != cur {
		return violation(WrongTarget, "refs.%s must name the outcome in force, %s", RefCorrects, s.Entries[cur].Digest.EventID())
	}
	if s.Entries[cur].Status == event.StatusUnknown {
		return violation(LeavesUnknown, "only a reconciliation resolves an unknown outcome")
	}
	return nil
}

// target resolves a ref to an event of this attempt.
func (s *State) target(e *event.Event, ref string, want event.Lifecycle) (int, *Violation) {
	d, ok := event.ParseEventID(e.Refs[ref])
	if !ok {
		return -1, violation(WrongTarget, "refs.%s must name an event id of this attempt", ref)
	}
	i := s.Find(d)
	if i < 0 {
		return -1, violation(WrongTarget, "refs.%s names %s, which is no event of this attempt", ref, e.Refs[ref])
	}
	if want != "" && s.Entries[i].Lifecycle != want {
		return -1, violation(WrongTarget, "refs.%s names a %s, want an %s", ref, s.Entries[i].Lifecycle, want)
	}
	return i, nil
}

// Apply adds e to the state, or says which rule it breaks and changes nothing.
func (s *State) Apply(e *event.Event, digest event.Digest) *Violation {
	if v := s.Check(e, digest); v != nil {
		return v
	}
	n := Entry{Digest: digest, Lifecycle: e.Lifecycle, Status: e.Status, Target: -1}
	if e.Lifecycle == event.Attempt {
		s.Identity, s.Expected = Identity(e), e.Tags[TagExpectedEffect]
	} else {
		n.SourceKey = event.SourceKey(e.Source.EventID)
	}
	if e.Lifecycle == event.Outcome {
		n.Result = e.Tags[TagResult]
	}
	for _, ref := range []string{RefCorrects, RefReverses, RefReviews} {
		if d, ok := event.ParseEventID(e.Refs[ref]); ok && refOf[e.Lifecycle] == ref {
			n.Target = s.Find(d)
		}
	}
	s.Entries = append(s.Entries, n)
	return nil
}

var refOf = map[event.Lifecycle]string{event.Outcome: RefCorrects, event.Reversal: RefReverses, event.Review: RefReviews}

// Reconcilable reports whether a reconciliation may follow: the outcome is
// open or unknown, or in doubt.
func (s *State) Reconcilable() bool {
	if len(s.Entries) == 0 {
		return false
	}
	if s.InDoubt() {
		return true
	}
	if s.settled() >= 0 {
		return false
	}
	cur := s.outcome()
	return cur < 0 || s.Entries[cur].Status == event.StatusUnknown
}

// settled returns the place of the newest reconciliation that told something
// about the outcome in force, or about an attempt without one; −1 without one.
func (s *State) settled() int {
	for i := len(s.Entries) - 1; i > s.outcome(); i-- {
		if s.Entries[i].Lifecycle == event.Reconciliation && s.Entries[i].Status != event.StatusStillUnknown {
			return i
		}
	}
	return -1
}

// InDoubt reports whether it is in doubt what became of the effect. The newest
// event of these decides: a contradicted reconciliation and an unknown reversal
// cast doubt; a confirmed reconciliation and a reversed reversal end it. A
// reversal that failed changed nothing, and still_unknown told nothing.
func (s *State) InDoubt() bool {
	for i := len(s.Entries) - 1; i >= 0; i-- {
		switch e := s.Entries[i]; {
		case e.Lifecycle == event.Reconciliation && e.Status != event.StatusStillUnknown:
			return e.Status == event.StatusContradicted
		case e.Lifecycle == event.Reversal && e.Status != event.StatusFailed:
			return e.Status == event.StatusUnknown
		}
	}
	return false
}

// Derive gives the status of a reconciliation. readbackTag is the effect tag of
// the value read back, "" without one; it is compared with the tag of the
// expected effect or, without one, of the outcome's result:
//
//	unreachable, or present with nothing to compare   still_unknown
//	absent                                            confirmed_absent
//	present more than once                            contradicted
//	present and equal                                 confirmed_committed
//	present and different                             contradicted
func (s *State) Derive(rb event.ReadBack, readbackTag string) string {
	switch {
	case rb.Observed == event.ObservedAbsent:
		return event.StatusConfirmedAbsent
	case rb.Observed != event.ObservedPresent:
		return event.StatusStillUnknown
	case rb.Count > 1:
		return event.StatusContradicted
	}
	want := s.Expected
	if want == "" {
		if cur := s.outcome(); cur >= 0 {
			want = s.Entries[cur].Result
		}
	}
	switch {
	case want == "" || readbackTag == "":
		return event.StatusStillUnknown
	case want == readbackTag:
		return event.StatusConfirmedCommitted
	}
	return event.StatusContradicted
}
