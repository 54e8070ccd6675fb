package tlog

import (
	"context"
	"fmt"
	"sync"

	"counterfoil/ledger/tiles"

	"github.com/gofrs/flock"
	"golang.org/x/mod/sumdb/note"
)

// Log is an open log. Its methods may be called concurrently; there is one
// writer, so two Appends at once run one after the other.
type Log struct {
	cfg      Config
	verifier note.Verifier
	lock     *flock.Flock
	tiles    *tiles.Reader

	// appending is held (one token) by whoever may change the tree: an Append,
	// or its batch when the caller has gone. It guards these.
	appending chan struct{}
	engine    engine
	doubt     *doubt // the last batch while it is not known whether it was kept, else nil
	owed      bool   // a caller left without an answer, and none has been refused since
	owedSize  uint64 // the tree's size when that caller appended

	// signing is held (one token) by whoever stores the guard or publishes.
	signing chan struct{}
	guard   *guard

	mu        sync.Mutex
	tree      tree       // durable, and equal to the stored one
	target    uint64     // size of the tree once the batch in flight or in doubt is in; else tree.size
	guarded   tree       // of the guard's record, for those who do not hold signing
	published Checkpoint // newest; no Note if there is none
	failed    error      // why the log is not touched any more
	closed    bool
	changed   chan struct{} // closed and replaced when tree, published or failed change
}

// Checkpoint is a published tree head.
type Checkpoint struct {
	Size uint64
	Root tiles.Hash
	Note []byte // the signed note; empty if nothing has been published. Not to be changed.
}

// Size is the number of durable leaves.
func (l *Log) Size() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tree.size
}

// Checkpoint is the newest published checkpoint. It has no Note in the moments
// between the making of a log and its first checkpoint.
func (l *Log) Checkpoint() Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.published
}

// PublishedSize is the size of the newest checkpoint.
func (l *Log) PublishedSize() uint64 { return l.Checkpoint().Size }

// Changed is closed when Size, Checkpoint or Err are about to say something
// new. Ask for it before reading them, and again after it was closed.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Err says why the log is not touched any more, nil while all is well: an
// ErrRolledBack, ErrDisagrees or ErrGuardChanged. It stays until the log is
// opened again, which repeats all checks.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Close waits for what is in flight, at most until ctx ends, and releases the
// log. If ctx ends first the log stays locked: a batch may still be written.
func (l *Log) Close(ctx context.Context) error {
	if err := take(ctx, l.appending); err != nil {
		return fmt.Errorf("close the log: a batch is in flight: %w", err)
	}
	defer release(l.appending)
	if err := take(ctx, l.signing); err != nil {
		return fmt.Errorf("close the log: a checkpoint is being published: %w", err)
	}
	defer release(l.signing)
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.engine.close()
	if err := l.lock.Unlock(); err != nil {
		return fmt.Errorf("close the log: %w", err)
	}
	return nil
}

// usable says why nothing may be done, if so.
func (l *Log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return l.failed
}

// fail stops the log if err is one of those after which it must not be touched.
func (l *Log) fail(err error) error {
	if !final(err) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
		l.broadcastLocked()
	}
	return err
}

func (l *Log) broadcastLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// take gets the token, unless ctx ends first.
func take(ctx context.Context, token chan struct{}) error {
	select {
	case token <- struct{}{}:
		return nil
	default:
	}
	select {
	case token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func release(token chan struct{}) { <-token }
