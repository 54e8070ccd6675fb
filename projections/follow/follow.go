// Package follow folds the published log into the views.
//
// # What becomes visible, and when
//
// The follower takes the newest checkpoint and first reads every leaf from its
// cursor up to the checkpoint's size, computes the root from the cursor's compact
// range and those leaves, and compares it with the checkpoint's. Only then are
// the leaves folded. A span that is too long to keep in memory is read a second
// time, each entry bundle being compared with what was proven. So no row is ever
// visible, provisionally or otherwise, whose leaf is not under a checkpoint's
// root. A mismatch stops the follower with a *[MismatchError]; its cursor stays.
//
// A long span is committed in batches; the views are then for a while at a size
// that no checkpoint has. It is still a prefix of a tree whose root was compared.
//
// # What counts
//
// Every leaf moves the cursor. A leaf that is no record, that belongs to another
// ledger or tenant, whose signature does not check, that breaks a lifecycle rule,
// or that repeats an event is parked with its reason, and nothing else changes.
// Whether a leaf counts depends on the leaves before it and on Check alone.
//
// # Crashes
//
// Rows, parked leaves, cursor and compact range of a batch are one transaction
// (package kv). After a kill the follower goes on at the cursor that it finds.
package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/projections/contracts"
	"counterfoil/projections/dispositions"
	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
	"counterfoil/projections/search"
	"counterfoil/projections/stats"
)

// Schema is the version of all row layouts together, for kv.Config: a database
// with another one is folded anew.
const Schema = 2

// Config says what a follower works on.
type Config struct {
	// DB holds the views; its origin and tenant are those that count. The
	// follower must be its only writer.
	DB     *kv.DB
	Source Source
	// Parse reads a leaf; nil stands for event.ParseRecord. It may answer from a
	// cache of the same bytes. Records are not changed.
	Parse func(leaf []byte) (*event.Record, error)
	// Check verifies the signatures of a record at a leaf index; its error says
	// why the leaf does not count. An error may have a method Code() string: the
	// code then goes into the digest and must be the same at every rebuild.
	// Check is called from several goroutines and must depend on its arguments
	// and on fixed keys alone.
	Check func(rec *event.Record, leaf []byte, leafIndex uint64) error
	// BatchLeaves is the most leaves that one transaction takes; 0 stands for 512.
	BatchLeaves int
	// RetryEvery is the pause after trouble with the source or a full disk; 0
	// stands for one second.
	RetryEvery time.Duration
	// Folding is told that proven leaves [from, to) are being folded, and its
	// answer how that ended; nil leaves it out.
	Folding func(from, to uint64) (folded func(error))
	// Now is the clock of Status; nil stands for time.Now.
	Now    func() time.Time
	Logger *slog.Logger // nil discards
}

// Status is what a follower says of itself.
type Status struct {
	Size        uint64 // leaves that the views reflect
	Published   uint64 // size of the newest checkpoint that was seen
	LastSuccess time.Time
	LastError   error // nil after a success
	Stopped     error // why Run ended, if it did not end by its context
}

// Lag is the number of published leaves that the views do not reflect yet.
func (s Status) Lag() uint64 { return s.Published - min(s.Size, s.Published) }

// Follower keeps the views up to date. Run and CatchUp must not run at the same
// time; everything else is safe for concurrent use.
type Follower struct {
	cfg         Config
	hash        *hasher
	receipts    *receipts.Projection
	projections []projection

	// mu guards what follows.
	mu      sync.Mutex
	status  Status
	changed chan struct{} // closed and replaced when size or Stopped change
}

// New makes a follower that goes on at the cursor of the database.
func New(cfg Config) (*Follower, error) {
	if cfg.Parse == nil {
		cfg.Parse = event.ParseRecord
	}
	if cfg.BatchLeaves <= 0 {
		cfg.BatchLeaves = 512
	}
	if cfg.RetryEvery <= 0 {
		cfg.RetryEvery = time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := cfg.DB.Cursor()
	if err != nil {
		return nil, err
	}
	r := receipts.New()
	return &Follower{
		cfg: cfg, hash: newHasher(), receipts: r,
		projections: []projection{r, search.New(), stats.New(), dispositions.New(), contracts.New()},
		status:      Status{Size: c.Size}, changed: make(chan struct{}),
	}, nil
}

// Run follows until ctx ends, which is no error, or until the views can not
// follow this log: *MismatchError, *ChangedError, *RolledBackError, or trouble
// with the database. Trouble with the source and a full disk are not the end:
// they show in Status, and Run tries again.
func (f *Follower) Run(ctx context.Context) error {
	for {
		changed := f.cfg.Source.Changed()
		err := f.CatchUp(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var retry <-chan time.Time
		if err != nil {
			if !passing(err) {
				if errors.Is(err, kv.ErrDamaged) {
					err = fmt.Errorf("%w (hint: counterfoil rebuild)", err)
				}
				f.stop(err)
				return err
			}
			f.cfg.Logger.Warn("views cannot follow the log now", "error", err, "retry", f.cfg.RetryEvery)
			t := time.NewTimer(f.cfg.RetryEvery)
			defer t.Stop()
			retry = t.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
	}
}

// passing reports whether trouble may end by itself.
func passing(err error) bool {
	var source *SourceError
	return errors.As(err, &source) || errors.Is(err, kv.ErrDiskFull)
}

// CatchUp folds what the newest checkpoint covers and returns when the views
// are at its size.
func (f *Follower) CatchUp(ctx context.Context) error {
	err := f.catchUp(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.LastError = err
	if err == nil {
		f.status.LastSuccess = f.cfg.Now()
	}
	return err
}

func (f *Follower) catchUp(ctx context.Context) error {
	size, root, err := f.cfg.Source.Published(ctx)
	if err != nil {
		return &SourceError{Doing: "read the checkpoint", Err: err}
	}
	f.mu.Lock()
	f.status.Published = size
	f.mu.Unlock()
	c, err := f.cfg.DB.Cursor()
	switch {
	case err != nil:
		return err
	case size < c.Size:
		return &RolledBackError{Views: c.Size, Published: size}
	case size == c.Size && size > 0 && root != c.Root:
		return &MismatchError{From: size, Size: size, Want: root, Got: c.Root, Before: true}
	case size == c.Size:
		return nil
	}
	s, err := f.prove(ctx, c, size, root)
	if err != nil {
		return err
	}
	if f.cfg.Folding == nil {
		return f.apply(ctx, c, s)
	}
	folded := f.cfg.Folding(c.Size, size)
	err = f.apply(ctx, c, s)
	folded(err)
	return err
}

func (f *Follower) moved(size uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Size = size
	f.broadcastLocked()
}

func (f *Follower) stop(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Stopped = err
	f.broadcastLocked()
}

func (f *Follower) broadcastLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Status returns what the follower says of itself.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Changed returns a channel that is closed when the views move on or the
// follower stops.
func (f *Follower) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// WaitFor blocks until the views reflect size leaves, the follower stops or ctx
// ends.
func (f *Follower) WaitFor(ctx context.Context, size uint64) error {
	for {
		f.mu.Lock()
		s, changed := f.status, f.changed
		f.mu.Unlock()
		if s.Size >= size {
			return nil
		}
		if s.Stopped != nil {
			return fmt.Errorf("the views stopped at size %d: %w", s.Size, s.Stopped)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("views are at size %d, waiting for %d: %w", s.Size, size, ctx.Err())
		case <-changed:
		}
	}
}
