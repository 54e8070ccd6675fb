package app

import (
	"context"
	"fmt"
	"time"

	"counterfoil/internal/api"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/query"
)

// views are the follower and what it keeps.
type views struct {
	db     *kv.DB
	follow *follow.Follower
	query  *query.Views
}

func (l *Ledger) viewConfig() kv.Config {
	return kv.Config{Dir: l.paths.views(), Origin: l.id.Origin, Tenant: l.id.Tenant, Schema: follow.Schema,
		MinFree: l.disk.toWrite(), Logger: l.log}
}

func (l *Ledger) followConfig(db *kv.DB) follow.Config {
	return follow.Config{DB: db, Source: published{l}, Parse: l.check.parse, Check: l.check.check, Now: l.cfg.Now, Logger: l.log, RetryEvery: 250 * time.Millisecond,
		Folding: l.tracedFolding()}
}

func (l *Ledger) openViews(ctx context.Context) error {
	var db *kv.DB
	err := l.openDerived(l.paths.views(), func() (err error) {
		db, err = kv.Open(l.viewConfig())
		return err
	})
	if err != nil {
		return err
	}
	l.onClose(bounded("views", db.Close))
	f, err := follow.New(l.followConfig(db))
	if err != nil {
		return err
	}
	l.views = &views{db: db, follow: f, query: query.New(db, leafReader{l.tiles})}
	return l.fitViews(ctx)
}

// Views answers lists and look-ups by event id.
func (l *Ledger) Views() *query.Views { return l.views.query }

// CatchUp waits until the views reflect what is on the stream now, or ctx ends.
func (l *Ledger) CatchUp(ctx context.Context) {
	_ = l.views.follow.WaitFor(ctx, l.stream.LastSeen()) // ctx's error: the caller looks again anyway
}

func (v *views) size() uint64 { return v.follow.Status().Size }

func (v *views) parked() uint64 {
	c, err := v.query.Counts(context.Background())
	if err != nil {
		return 0 // trouble shows in the status of the follower
	}
	return c.Parked
}

func (v *views) trouble(st api.Status) error {
	s := v.follow.Status()
	switch {
	case s.Stopped != nil:
		return s.Stopped
	case s.LastError != nil:
		return s.LastError
	case st.PublishedSize > s.Size+lagLimit:
		return fmt.Errorf("%d published leaves are not in the views yet", st.PublishedSize-s.Size)
	}
	return nil
}

// published is the log as the follower sees it. A checkpoint that was lost with
// its file, of a log that has all that the views hold or gets it from the stream,
// is waited for.
type published struct{ l *Ledger }

func (p published) Published(context.Context) (uint64, [32]byte, error) {
	cp := p.l.tlog.Checkpoint()
	c, err := p.l.views.db.Cursor()
	if err != nil {
		return 0, [32]byte{}, err
	}
	if cp.Size < c.Size && c.Size <= max(p.l.tlog.Size(), p.l.stream.LastSeen()) {
		return 0, [32]byte{}, fmt.Errorf("the file of the newest checkpoint is missing or old, size %d of a log of %d leaves, and is published again", cp.Size, p.l.tlog.Size())
	}
	return cp.Size, cp.Root, nil
}

func (p published) Changed() <-chan struct{} { return p.l.tlog.Changed() }

func (p published) Leaves(ctx context.Context, from, to, size uint64, yield func(uint64, []byte) error) error {
	return p.l.leaves(ctx, from, to, size, yield)
}

func (p published) Inclusion(ctx context.Context, index, size uint64) ([][]byte, error) {
	return p.l.tiles.Inclusion(ctx, index, size)
}

// leafReader reads single leaves for queries.
type leafReader struct{ r *logReader }

func (r leafReader) Leaf(ctx context.Context, index, size uint64) ([]byte, error) {
	leaf, err := r.r.Leaf(ctx, index, size)
	return leaf.Data, err
}
