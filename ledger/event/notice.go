package event

import (
	"github.com/go-json-experiment/json/jsontext"
)

// MaxErased bounds the attempts that one erasure names.
const MaxErased = 256

// What an erasure leaves of the private values of an attempt. Both are for ever,
// and nothing leads from purged back to redacted.
const (
	// PrivacyRedacted: the bodies are destroyed. The attempt's key is not, so that
	// a repeat is still known as one.
	PrivacyRedacted = "redacted"
	// PrivacyPurged: the attempt's key is destroyed as well. Nobody can open a
	// commitment of the attempt any more, or compare its tags.
	PrivacyPurged = "purged"
)

// Erasure is the statement {"erasure":{…}} of a ledger notice: private values
// that the ledger is about to destroy. It names attempts by their random ids and
// nothing of their content. The outcome succeeded of the same attempt says that
// it was done; until then it may be under way.
type Erasure struct {
	// State is redacted or purged.
	State string `json:"state"`
	// Attempts are 1 to MaxErased attempt ids, sorted, none twice.
	Attempts []string `json:"attempts"`
}

// Hold is the statement {"hold":{…}} of a ledger notice: a legal hold on an
// attempt, or on all attempts about a subject, those to come included. It is in
// force until a reversal of its outcome.
type Hold struct {
	// Attempt is an attempt id; empty if Subject is given.
	Attempt string `json:"attempt,omitempty"`
	// Subject is as it stands in the events about it.
	Subject *Subject `json:"subject,omitempty"`
}

// RetentionChange is the statement {"retention":{…}} of a ledger notice: the
// evidence that an attempt refers to is kept under another retention class, for
// Days counted from when each piece of it was stored (ARC-16).
type RetentionChange struct {
	Attempt string `json:"attempt"`
	Class   string `json:"class"` // an identifier
	Kind    string `json:"kind"`  // security_evidence or discovery_telemetry
	Days    int64  `json:"days"`  // 1 to MaxRetentionDays
}

// MaxRetentionDays bounds a retention: a hundred years.
const MaxRetentionDays = 36_525

// Kinds of retention.
const (
	RetentionEvidence  = "security_evidence"
	RetentionTelemetry = "discovery_telemetry"
)

// Value returns the canonical statement.
func (x Erasure) Value() jsontext.Value { return statement{Erasure: &x}.value() }

// Value returns the canonical statement.
func (h Hold) Value() jsontext.Value { return statement{Hold: &h}.value() }

// Value returns the canonical statement.
func (r RetentionChange) Value() jsontext.Value { return statement{Retention: &r}.value() }

// Erasure returns the erasure that an attempt of kind ledger announces, once it
// was validated.
func (e *Event) Erasure() (Erasure, bool) {
	s, err := e.parseStatement()
	if err != nil || s.Erasure == nil {
		return Erasure{}, false
	}
	return *s.Erasure, true
}

// Hold returns the legal hold of an attempt of kind ledger that was validated.
func (e *Event) Hold() (Hold, bool) {
	s, err := e.parseStatement()
	if err != nil || s.Hold == nil {
		return Hold{}, false
	}
	return *s.Hold, true
}

// RetentionChange returns the change of retention that an attempt of kind ledger
// announces, once it was validated.
func (e *Event) RetentionChange() (RetentionChange, bool) {
	s, err := e.parseStatement()
	if err != nil || s.Retention == nil {
		return RetentionChange{}, false
	}
	return *s.Retention, true
}

// notices counts the members that a ledger notice may have.
func (s statement) notices() (n int) {
	for _, there := range []bool{s.Gap != nil, s.Erasure != nil, s.Hold != nil, s.Retention != nil} {
		if there {
			n++
		}
	}
	return n
}

func (s statement) validateNotice(path string) error {
	switch {
	case s.Erasure != nil:
		return s.Erasure.validate(path + "/erasure")
	case s.Hold != nil:
		return s.Hold.validate(path + "/hold")
	case s.Retention != nil:
		return s.Retention.validate(path + "/retention")
	}
	return nil
}

func (x *Erasure) validate(path string) error {
	if x.State != PrivacyRedacted && x.State != PrivacyPurged {
		return bad(path+"/state", "%q is not redacted or purged", clip(x.State))
	}
	if n := len(x.Attempts); n < 1 || n > MaxErased {
		return bad(path+"/attempts", "%d attempts, 1 to %d are lawful", n, MaxErased)
	}
	for i, id := range x.Attempts {
		if _, ok := ShardOfAttempt(id); !ok {
			return bad(path+"/attempts", "%q is no attempt id", clip(id))
		}
		if i > 0 && x.Attempts[i-1] >= id {
			return bad(path+"/attempts", "not sorted, or one twice")
		}
	}
	return nil
}

func (h *Hold) validate(path string) error {
	if (h.Attempt == "") == (h.Subject == nil) {
		return bad(path, "it is on an attempt or on a subject, one of the two")
	}
	if h.Subject == nil {
		return attemptIn(path+"/attempt", h.Attempt)
	}
	if !KnownKind(h.Subject.Kind) {
		return bad(path+"/subject/kind", "%q is no subject kind", clip(string(h.Subject.Kind)))
	}
	return CheckID(path+"/subject/id", h.Subject.ID)
}

func (r *RetentionChange) validate(path string) error {
	if err := attemptIn(path+"/attempt", r.Attempt); err != nil {
		return err
	}
	if err := CheckID(path+"/class", r.Class); err != nil {
		return err
	}
	if r.Kind != RetentionEvidence && r.Kind != RetentionTelemetry {
		return bad(path+"/kind", "%q is not security_evidence or discovery_telemetry", clip(r.Kind))
	}
	if r.Days < 1 || r.Days > MaxRetentionDays {
		return bad(path+"/days", "%d days, 1 to %d are lawful", r.Days, MaxRetentionDays)
	}
	return nil
}

func attemptIn(path, id string) error {
	if _, ok := ShardOfAttempt(id); !ok {
		return bad(path, "%q is no attempt id", clip(id))
	}
	return nil
}
