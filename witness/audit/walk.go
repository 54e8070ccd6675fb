package audit

import (
	"context"
	"errors"
	"slices"
	"sync"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
)

// walk reads, proves, inspects and folds the leaves from a leaf on. Units are read
// and inspected side by side, a bounded number of them, and folded in order.
func (r *run) walk(ctx context.Context, from uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	window := max(8, 2*r.cfg.Workers+4)
	queue := make(chan *unit, window)
	cpu := make(chan struct{}, r.cfg.Workers)
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		r.prover.found = r.found
	}()
	defer cancel()
	slots := make(chan struct{}, window)
	wg.Go(func() {
		defer close(queue)
		for index := from / tiles.Width; max(index*tiles.Width, from) < r.now.Size; index++ {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			u := r.plan(ctx, index)
			queue <- u        // never blocks: it is as long as there are slots
			if u.err != nil { // u belongs to others from here on, unless it failed
				close(u.done)
				return
			}
			wg.Go(func() {
				defer close(u.done)
				u.err = r.work(ctx, u, cpu)
			})
		}
	})
	r.copied = true
	for u := range queue {
		<-u.done
		if u.err != nil {
			return errors.Join(u.err, r.commit())
		}
		if err := r.take(u); err != nil {
			return err
		}
		r.tell(u, from)
		<-slots
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(context.Cause(ctx), r.commit())
	}
	return r.commit()
}

// plan finds out what the signed tree has for a unit. The prover belongs to the
// goroutine that calls it.
func (r *run) plan(ctx context.Context, index uint64) *unit {
	u := &unit{index: index, width: width(0, index, r.now.Size), inspectFrom: r.began, done: make(chan struct{})}
	r.prover.found = func(f Finding) { u.above = append(u.above, f) }
	if u.width < tiles.Width {
		u.wantLeaves = r.prover.edge[0]
		return u
	}
	switch h, err := r.prover.tileHash(ctx, 0, index); {
	case err == nil:
		u.want = &h
	case !notProven(err):
		u.err = err
	}
	return u
}

// work reads a unit, proves and inspects its leaves, and stores them in the mirror.
func (r *run) work(ctx context.Context, u *unit, cpu chan struct{}) error {
	check := func(rec *event.Record, index uint64) error {
		_, err := r.cfg.Trust.EventKeys.Check(rec, index)
		return err
	}
	if r.mirror.mayHold(u) {
		s, err := u.load(ctx, r.mirror.src)
		if err == nil && u.prove(s) && len(u.findings) == 0 {
			return r.inspect(ctx, u, s, check, cpu)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Fetched again below; what is there and differs is found by keep.
	}
	s, err := u.load(ctx, r.cfg.Source)
	if err != nil {
		return err
	}
	intact := u.prove(s)
	if intact && r.mirror != nil {
		if err := r.mirror.keepUnit(u, s); err != nil {
			return err
		}
	}
	return r.inspect(ctx, u, s, check, cpu)
}

func (r *run) inspect(ctx context.Context, u *unit, s *stored, check func(*event.Record, uint64) error, cpu chan struct{}) error {
	select {
	case cpu <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-cpu }()
	u.inspect(s, check)
	return nil
}

// take folds a unit, or, after damage, counts what can be said of its leaves alone.
func (r *run) take(u *unit) error {
	for _, f := range slices.Concat(u.above, u.findings) {
		r.found(f)
	}
	for i := range u.leaves {
		l := &u.leaves[i]
		r.report.Leaves.Read++
		if l.damage != nil {
			r.copied = false
			r.fold.stopped = r.fold.stopped || l.index >= r.fold.pos.Size
			r.report.Leaves.Damaged++
			r.found(*l.damage)
		} else if l.index >= u.inspectFrom && r.fold.stopped {
			r.alone(l)
		} else if l.index >= u.inspectFrom {
			if err := r.fold.leaf(l); err != nil {
				return err
			}
		}
		if r.fold.full() {
			if err := r.commit(); err != nil {
				return err
			}
		}
	}
	return nil
}

// alone reports what is wrong with a leaf by itself.
func (r *run) alone(l *leaf) {
	f := l.fault
	if f == nil {
		f = alone(l, r.now.Origin, r.fold.pos.Tenant)
	}
	if f == nil {
		r.report.Leaves.NotJudged++
		return
	}
	r.found(*f)
}

// commit stores the fold as far as it goes.
func (r *run) commit() error {
	err := r.fold.commit(r.now.Signed)
	if err == nil && r.cfg.committed != nil {
		r.cfg.committed()
	}
	return err
}

func (r *run) tell(u *unit, from uint64) {
	if r.cfg.Progress == nil {
		return
	}
	next := u.first() + uint64(u.width)
	if u.index%64 == 0 || next == r.now.Size {
		r.cfg.Progress(Progress{First: from, Next: next, Size: r.now.Size, Folded: r.fold.pos.Size})
	}
}
