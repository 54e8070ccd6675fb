package stream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// In a cluster the loss of a leader is a pause for publishers: what got no
// answer is sent again under the same expectation, which lets the stream store
// it once. A second sending that is refused because another message came first
// finds out whether that message is the first sending.
//
// resendMax is the longest time between two sendings.
const resendMax = 4 * time.Second

// errSilent: a sending got no answer yet.
var errSilent = fmt.Errorf("%w yet", ErrUnanswered)

// failed is a future that was not sent, for err.
func (p *publisher) failed(m Msg, e expectation, until time.Time, err error) *Future {
	f := &Future{p: p, msg: m, expect: e, until: until, done: make(chan struct{}), err: err}
	close(f.done)
	return f
}

// persist is Wait in a cluster: it sends again until there is a decision, ctx
// ends, or f counts as unanswered.
func (f *Future) persist(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithDeadline(ctx, f.until)
	defer cancel()
	maybe := false // something was sent that got no answer
	resend, pause := resendAfter, retryBusy
	for {
		seq, err := f.await(ctx, resend)
		var busy *busyError
		var wrong *WrongLastError
		switch {
		case err == nil:
			return seq, nil
		case errors.Is(err, ErrClosed), errors.Is(err, ErrRewound):
			return 0, f.verdict(maybe, err)
		case errors.As(err, &wrong):
			if !maybe {
				return 0, err
			}
			if seq, own, lerr := f.p.s.decided(ctx, f.msg, f.expect); lerr == nil && own {
				f.p.s.see(seq)
				return seq, nil
			} else if lerr == nil {
				return 0, err
			} else {
				err = lerr // asked again with the next sending
			}
		case errors.As(err, &busy):
		case errors.Is(err, ErrUnanswered):
			maybe = true
			if f.expect.none {
				return 0, err // nothing would keep it from being stored twice
			}
			resend = min(2*resend, resendMax)
		case !errors.Is(err, ErrUnavailable):
			return 0, err
		}
		if !f.p.s.pause(ctx, pause) {
			return 0, f.verdict(maybe, err)
		}
		pause = min(2*pause, retryMax)
		if gerr := f.p.s.gate.check(); f.gated && gerr != nil {
			return 0, f.verdict(maybe, gerr)
		}
		again, err := f.p.send(f.msg, f.expect, f.until)
		if err != nil {
			again = f.p.failed(f.msg, f.expect, f.until, err)
		}
		again.gated = f.gated
		f = again
	}
}

// verdict is the error of a publish that is given up for err.
func (f *Future) verdict(maybe bool, err error) error {
	var busy *busyError
	switch {
	case maybe && !errors.Is(err, ErrUnanswered):
		return fmt.Errorf("publish to %s: %w: %w", f.msg.Subject, ErrUnanswered, err)
	case errors.As(err, &busy):
		return unavailable("publish to "+f.msg.Subject, busy)
	}
	return err
}

// await waits for the answer to one sending, at most for a time.
func (f *Future) await(ctx context.Context, most time.Duration) (uint64, error) {
	t := time.NewTimer(most)
	defer t.Stop()
	why := errSilent
	select {
	case <-f.done:
		return f.seq, f.err
	case <-t.C:
	case <-f.elected:
	case <-ctx.Done():
		why = ctx.Err()
	case <-f.p.s.ctx.Done():
		why = ErrClosed
	}
	if !f.p.forget(f) {
		<-f.done // it is being answered just now
		return f.seq, f.err
	}
	return 0, fmt.Errorf("publish to %s: %w: %w", f.msg.Subject, ErrUnanswered, why)
}

// decided looks which message came first after an expectation that failed, and
// whether that is m itself: then its sequence.
func (s *Stream) decided(ctx context.Context, m Msg, e expectation) (seq uint64, own bool, err error) {
	next := e.filter
	if next == "" {
		next = ">"
	}
	got, err := s.getFromLeader(ctx, messageRequest{Seq: e.last + 1, NextFor: next})
	if err != nil {
		return 0, false, unavailable("look which message came first", err)
	}
	return got.Seq, got.Subject == m.Subject && string(got.Body) == string(m.Body), nil
}
