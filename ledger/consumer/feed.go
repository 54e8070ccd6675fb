package consumer

import (
	"context"
	"errors"
)

// Feed brings leaves by another way than the tiles, usually sooner. What it
// brings is believed as little as anything else. It need not be safe for
// concurrent use.
type Feed interface {
	// Next returns leaves from an index on, in order, at least one, at most max.
	// It waits for the first until ctx ends. A leaf is nil where the feed knows
	// only that it is there. After an error it may be called again, with any
	// index.
	Next(ctx context.Context, from uint64, max int) ([][]byte, error)
}

// idle waits when everything that is published was handed out: for the feed, if
// there is one that may bring something, and for the next look in any case.
func (f *Follower) idle(ctx context.Context) error {
	if f.cfg.Feed == nil || len(f.pending) > 0 {
		return f.pause(ctx, nil)
	}
	d := f.wait
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	leaves, err := f.ask(wait)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		f.pending = leaves
		f.eager()
		return nil
	case wait.Err() != nil: // it knows of nothing either
		f.wait = min(2*f.wait, f.cfg.Poll)
		return nil
	}
	return f.pause(ctx, &FeedError{err})
}

// hurry makes sure that leaves from the feed are pending, if it has them without
// much delay. Leaves that are published are read from the tiles otherwise, and
// the feed is not asked for a while.
func (f *Follower) hurry(ctx context.Context) bool {
	switch {
	case f.cfg.Feed == nil:
		return false
	case len(f.pending) > 0:
		return true
	case f.rest > 0:
		f.rest--
		return false
	}
	wait, cancel := context.WithTimeout(ctx, feedPatience)
	defer cancel()
	leaves, err := f.ask(wait)
	if err == nil {
		f.pending, f.rested = leaves, 0
		return true
	}
	f.rested = min(max(1, 2*f.rested), feedRests)
	f.rest = f.rested
	if ctx.Err() == nil && f.cfg.Waiting != nil {
		f.cfg.Waiting(&FeedError{err}, 0)
	}
	return false
}

func (f *Follower) ask(ctx context.Context) ([][]byte, error) {
	leaves, err := f.cfg.Feed.Next(ctx, f.next, f.cfg.Batch)
	if err == nil && (len(leaves) == 0 || len(leaves) > f.cfg.Batch) {
		err = errors.New("it brought no leaves, or more than it was asked for")
	}
	return leaves, err
}
