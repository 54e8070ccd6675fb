package lease

import (
	"context"
	"errors"
	"time"
)

// Run follows the register until ctx ends, takes the lease over when nobody holds
// it, and keeps it. It returns nil when ctx ended, and else a final error: this
// node's log contradicts the register. It does not release the lease; Release
// does, after the last publication.
func (l *Lease) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() { defer close(watching); l.watch(ctx) }()
	defer func() { stop(); <-watching }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := l.Changed()
		wait, err := l.step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case Final(err):
			l.setTrouble(err)
			return err
		}
		l.setTrouble(err)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-timer.C:
		}
		l.lapse()
	}
}

// watch keeps a Watch going. What it misses is found by reads.
func (l *Lease) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.cfg.Register.Watch(ctx, func(value []byte, revision uint64) error {
			l.observe(value, revision)
			return nil
		})
		if ctx.Err() == nil {
			l.cfg.Logger.Warn("the watch of the register ended", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(l.cfg.Beat):
		}
	}
}

// lapse tells of a lease that ran out.
func (l *Lease) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held && !l.heldLocked() {
		l.tellLocked(l.last.record)
	}
}

// step does what is due and says after which time, without a change, it is to be
// called again. An error is final or passes.
func (l *Lease) step(ctx context.Context) (time.Duration, error) {
	pause := l.cfg.Beat / 4
	v, ours := l.view()
	now := l.cfg.now()
	switch {
	case !v.known:
		if err := l.look(ctx); err != nil {
			return pause, err
		}
		return 0, nil
	case v.bad != nil:
		// Whoever repairs it is seen by the watch, or at the latest now.
		if err := l.look(ctx); err != nil {
			return pause, err
		}
		v, _ = l.view()
		return l.cfg.TTL, v.bad
	case l.gaveUp():
		return l.cfg.TTL, nil
	case ours:
		if left := v.began.Add(l.cfg.Beat).Sub(now); left > 0 {
			return left, nil
		}
		same := func(r Record) (Record, error) { return r, nil }
		if err := l.update(ctx, false, same); !errors.Is(err, ErrNotHeld) {
			return pause, err
		}
		return pause, nil
	case !v.empty && !v.record.Vacant():
		if left := v.seen.Add(l.cfg.TTL).Sub(now); left > 0 {
			return left, nil
		}
	}
	return pause, l.takeOver(ctx, v)
}

func (l *Lease) gaveUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

// look reads the register.
func (l *Lease) look(ctx context.Context) error {
	if err := take(ctx, l.writing); err != nil {
		return err
	}
	defer release(l.writing)
	return l.read(ctx)
}

// takeOver takes the lease if the register still has the revision on which that
// was decided, and if this node has the guard's tree.
func (l *Lease) takeOver(ctx context.Context, decided view) error {
	if !l.cfg.Fit() {
		return nil
	}
	if !decided.empty {
		if ok, err := l.contains(ctx, decided.record.Guard); err != nil || !ok {
			return err
		}
	}
	if err := take(ctx, l.writing); err != nil {
		return err
	}
	defer release(l.writing)
	// Silence of the watch is not silence of the holder.
	if err := l.read(ctx); err != nil {
		return err
	}
	v, ours := l.view()
	if ours || v.revision != decided.revision || v.bad != nil || l.gaveUp() {
		return nil
	}
	next, err := l.inherit(ctx, v)
	if err != nil {
		return err
	}
	err = l.put(ctx, next, v.revision)
	if err == nil {
		return nil
	}
	if l.read(ctx) == nil {
		if now, _ := l.view(); now.revision != v.revision {
			return nil // another was faster, or it was stored all the same
		}
	}
	return err
}

// inherit makes the record of the next epoch: what the register has, whose tree
// this node has, and what this node knows beyond it.
func (l *Lease) inherit(ctx context.Context, v view) (Record, error) {
	own, note := l.cfg.Own()
	next := v.record
	if v.empty {
		// First use, or the record is lost: what this node has is the best that is
		// known here.
		next = Record{Origin: l.cfg.Origin, Guard: own}
	} else if own.Size > next.Guard.Size {
		// The register may be older than what this node has computed, or come from
		// an old copy. Its tree is the beginning of ours, so ours may replace it.
		next.Guard = own
	}
	next.Epoch, next.Beat, next.Node, next.Instance = next.Epoch+1, 1, l.cfg.Node, v.instance
	return next, l.carry(ctx, &next, note)
}

// carry puts this node's checkpoint into a record that has an older one or none.
func (l *Lease) carry(ctx context.Context, r *Record, note []byte) error {
	if note == nil {
		return nil
	}
	g, err := l.open(note, MaxCheckpoint)
	if err != nil {
		l.cfg.Logger.Warn("this node's own checkpoint is not for the register", "error", err)
		return nil
	}
	if r.Checkpoint != nil {
		_, has, err := readNote(r.Checkpoint, l.cfg.Origin, MaxCheckpoint)
		if err != nil || has.Size >= g.Size {
			return err
		}
	}
	if ok, err := l.contains(ctx, g); err != nil || !ok || g.Size > r.Guard.Size {
		return err
	}
	r.Checkpoint = note
	return nil
}
