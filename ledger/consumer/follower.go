package consumer

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"github.com/transparency-dev/merkle/compact"

	"counterfoil/ledger/tiles"
)

// Follower reads one log in order. It is not safe for concurrent use. There is
// nothing to close.
type Follower struct {
	cfg    Config
	reader *tiles.Reader

	next uint64         // leaf that is handed out next
	edge *compact.Range // of [0, next), once anchored

	// seen is the newest checkpoint that the log signed, good the newest one that
	// meets the policy; nil before there is one. Leaves are handed out under good.
	seen, good *signed
	anchored   bool   // edge was found under the root of good
	end        uint64 // with Stop: size of the first good one

	pending [][]byte // from the feed: leaves from next on
	doubted bool     // what was pending did not give the root: the feed is asked anew
	rest    int      // batches that are read before the feed is asked again
	rested  int      // how many it was last time

	wait  time.Duration // next pause
	tries int           // in vain, in a row
	err   error         // final
}

// Next blocks until there are events and returns the next batch, at least one
// event. At the end of a follower with Config.Stop it returns [ErrEnd], and the
// cause of ctx when that ends. See the errors of this package for the rest.
func (f *Follower) Next(ctx context.Context) (*Batch, error) {
	for {
		if f.err != nil {
			return nil, f.err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		b, err := f.step(ctx)
		switch {
		case b != nil:
			f.tries = 0
			f.eager()
			return b, nil
		case err == nil:
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case passing(err):
			if err := f.inVain(ctx, err); err != nil {
				return nil, err
			}
		default:
			f.err = err
		}
	}
}

// step does one thing: look at the checkpoint, wait, or read a batch. It returns
// nothing if another step is to follow.
func (f *Follower) step(ctx context.Context) (*Batch, error) {
	if f.good != nil && f.cfg.Stop && f.next >= f.end {
		return nil, ErrEnd
	}
	if f.good != nil && f.anchored && f.next < f.limit() {
		b, err := f.read(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			// A server may keep the tiles of its newest size alone.
			_, newer := f.look(ctx)
			if newer != nil && !passing(newer) {
				return nil, newer
			}
		}
		return b, err
	}
	moved, err := f.look(ctx)
	if err != nil || moved {
		return nil, err
	}
	f.tries = 0
	return nil, f.idle(ctx)
}

// limit is the size up to which leaves may be handed out.
func (f *Follower) limit() uint64 {
	if f.cfg.Stop {
		return min(f.good.cp.Size, f.end)
	}
	return f.good.cp.Size
}

// inVain pauses after a try of which nothing came, or returns the error when
// there were enough of them.
func (f *Follower) inVain(ctx context.Context, err error) error {
	f.tries++
	if f.cfg.Tries > 0 && f.tries >= f.cfg.Tries {
		f.tries = 0
		return err
	}
	return f.pause(ctx, err)
}

// pause waits, longer each time, and tells why if there is a reason.
func (f *Follower) pause(ctx context.Context, why error) error {
	d := f.wait
	f.wait = min(2*f.wait, f.cfg.Poll)
	if why != nil && f.cfg.Waiting != nil {
		f.cfg.Waiting(why, d)
	}
	return f.cfg.Pause(ctx, d)
}

// eager makes the next pause a short one: something has just moved.
func (f *Follower) eager() { f.wait = min(firstPoll, f.cfg.Poll) }

func (f *Follower) freshTiles() {
	// Bundles are read once: none is kept.
	f.reader = tiles.NewReader(f.cfg.Log, tiles.Options{TileBytes: tileBytes, BundleBytes: 1})
}

// passing reports whether trying again may help.
func passing(err error) bool {
	var u *UnavailableError
	var q *QuorumError
	return errors.As(err, &u) || errors.As(err, &q)
}

// sourceError says what an error of the tiles means: damage is final, anything
// else may pass.
func sourceError(doing string, err error) error {
	var damage *tiles.DamageError
	if errors.As(err, &damage) {
		return err
	}
	return &UnavailableError{Doing: doing, Err: err}
}

// Batches yields what Next returns, until ctx ends, the end with Config.Stop, or
// an error, which is the last pair. That ctx ended is an error, the end is none.
func (f *Follower) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for {
			b, err := f.Next(ctx)
			if errors.Is(err, ErrEnd) || !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// Events yields the events of Batches one by one. Whoever stops in the middle of
// a batch goes on from [Event.Cursor], in a new follower.
func (f *Follower) Events(ctx context.Context) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for b, err := range f.Batches(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range b.Events {
				if !yield(&b.Events[i], nil) {
					return
				}
			}
		}
	}
}

// Position is the index of the leaf that is handed out next, and the size of the
// newest checkpoint that meets the policy; 0 if there was none yet.
func (f *Follower) Position() (next, size uint64) {
	if f.good != nil {
		size = f.good.cp.Size
	}
	return f.next, size
}
