package fetch

import (
	"errors"
	"fmt"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/excerpt"
)

// Kind is why a file was not read.
type Kind string

// Kinds of an [Error].
const (
	Refused     Kind = "refused"     // our own bounds and rules forbid it
	NotFound    Kind = "not_found"   // the source says that there is nothing
	Denied      Kind = "denied"      // the source lets us read nothing
	TooLarge    Kind = "too_large"   // more bytes than the limit
	Truncated   Kind = "truncated"   // the body ended before its end, each time
	Throttled   Kind = "throttled"   // the source asks to come back later than we wait
	TimedOut    Kind = "timed_out"   // not read in time
	Unavailable Kind = "unavailable" // no connection, no room, an error of the server
)

// Error says which file was not read, and why.
type Error struct {
	Kind    Kind
	Locator string // without user, query and fragment
	Detail  string
	Err     error // may be nil
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s: %s", e.Locator, e.Kind, e.Detail)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// located fills in what an inner function did not know.
func located(err error, locator string) error {
	var e *Error
	if errors.As(err, &e) && e.Locator == "" {
		e.Locator = Redact(locator)
	}
	return err
}

// KindOf is the kind of an error of this package, "" for any other.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// Failure is the admission's failure for an artifact that was not read. What is
// no [Error] is handed back as an error: nothing was found out.
func Failure(err error) (*admission.Failure, error) {
	code := admission.ArtifactUnresolved
	switch KindOf(err) {
	case "":
		return nil, err
	case TooLarge:
		code = admission.ArtifactTooLarge
	}
	return &admission.Failure{Code: code, Detail: Clip(err.Error())}, nil
}

// SourceState is the state of a source of evidence that answered err.
func SourceState(err error) string {
	switch {
	case err == nil:
		return admission.SourceFound
	case KindOf(err) == NotFound:
		return admission.SourceNone
	}
	return admission.SourceUnavailable
}

// Clip shortens a detail to what a record holds, at a rune, and takes out what a
// terminal would act on.
func Clip(s string) string { return excerpt.First(excerpt.Printable(s), admission.MaxDetailBytes) }
