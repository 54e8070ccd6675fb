package stream

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable: the stream cannot answer now; nothing was stored. The
	// cause is wrapped beside it.
	ErrUnavailable = errors.New("the stream is not available")
	// ErrUnanswered: a publish got no answer in time. The message may be
	// stored, now or a little later: reading the stream tells, and publishing
	// it again under the same expectation cannot store it twice.
	ErrUnanswered = errors.New("the stream did not answer: the message may be stored")
	// ErrTooLarge: the body is larger than MaxPublish. It was not sent.
	ErrTooLarge = errors.New("message too large for the stream")
	// ErrNotFound: the stream has no message there.
	ErrNotFound = errors.New("no such message in the stream")
	// ErrClosed: Close was called, or the context of a tail ended. It is an
	// ErrUnavailable too.
	ErrClosed = fmt.Errorf("closed: %w", ErrUnavailable)
	// ErrRewound: the stream lost messages that had been acknowledged or read,
	// so it would give their sequences to others. Only Heal ends this state.
	// It is an ErrUnavailable too.
	ErrRewound = fmt.Errorf("the stream went back behind what it had acknowledged (hint: it must be healed from the log, which a restart does): %w", ErrUnavailable)
)

// WrongLastError: the expectation of a publish failed, so nothing was stored.
// Last is the sequence of the last message that matches Filter, always above
// Expected; 0 if the stream did not say.
type WrongLastError struct {
	Filter         string
	Expected, Last uint64
}

func (e *WrongLastError) Error() string {
	return fmt.Sprintf("another message came first: last sequence of %s is %d, expected %d", e.Filter, e.Last, e.Expected)
}

// GapError: the messages From to To are missing from the stream although later
// ones are there.
type GapError struct{ From, To uint64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("the stream has a hole: messages %d to %d are missing (hint: a restart heals the stream from the log)", e.From, e.To)
}

// unavailable wraps a cause as ErrUnavailable.
func unavailable(doing string, cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, cause)
}
