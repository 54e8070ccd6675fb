package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Reserve writes the guard: the tree that the caller is about to sign. When it
// returns nil, nobody who follows the rules signs a smaller tree any more, or
// another one of this size. The caller has made its own guard durable first.
//
//   - ErrNotHeld: another node signs.
//   - ErrOlder: the register has a larger tree; the caller's newest one will do.
//   - ErrUnavailable, ctx's error: it may be reserved or not; try again.
//   - ErrRolledBack, ErrDisagrees: final, the caller's log is not to be used.
func (l *Lease) Reserve(ctx context.Context, size uint64, root [32]byte) error {
	g := Guard{size, root}
	err := l.update(ctx, false, func(r Record) (Record, error) {
		switch {
		case g.Size < r.Guard.Size:
			return r, l.smaller(ctx, g, r.Guard)
		case g.Size == r.Guard.Size && g.Root != r.Guard.Root:
			return r, fmt.Errorf("%w: the register has %s, the node's log %s", ErrDisagrees, r.Guard, g)
		}
		r.Guard = g
		return r, nil
	})
	if err != nil {
		return fmt.Errorf("reserve %s: %w", g, err)
	}
	return nil
}

// smaller says what a tree below the guard means. The node may have lost the lease
// and got it again since it looked at its tree: then the tree has grown. Else the
// tree shrank, because a node takes the lease only with the guard's tree.
func (l *Lease) smaller(ctx context.Context, offered, guard Guard) error {
	ok, err := l.contains(ctx, guard)
	switch {
	case err != nil:
		return err
	case ok:
		return fmt.Errorf("%w: it has %s, offered %s", ErrOlder, guard, offered)
	}
	return fmt.Errorf("%w: the register has %s, offered %s", ErrRolledBack, guard, offered)
}

// contains asks the node's own log.
func (l *Lease) contains(ctx context.Context, g Guard) (bool, error) {
	ok, err := l.cfg.Contains(ctx, g.Size, g.Root)
	if err != nil && Final(err) {
		return false, fmt.Errorf("%w: %w", ErrDisagrees, err)
	}
	return ok, err
}

// Publish writes a checkpoint of the reserved tree, signed by the log's key. When
// it returns nil the register had it: from now on it may be shown, and every node
// takes it over. A note of the same tree again changes nothing else.
//
//   - ErrNotHeld: another node took over; the note is not to be shown.
//   - ErrNote: it is not one that the log's key signed, or not of the reserved tree.
//   - ErrUnavailable, ctx's error: it may be published or not; it is not to be
//     shown before the register has answered.
func (l *Lease) Publish(ctx context.Context, note []byte) error {
	g, err := l.open(note, MaxCheckpoint)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	note = bytes.Clone(note)
	err = l.update(ctx, false, func(r Record) (Record, error) {
		if g != r.Guard {
			return r, fmt.Errorf("%w: it is of %s, reserved is %s", ErrNote, g, r.Guard)
		}
		r.Checkpoint = note
		return r, nil
	})
	if err != nil {
		return fmt.Errorf("publish %s: %w", g, err)
	}
	return nil
}

// Witnessed writes a checkpoint with cosignatures that others may show. It must be
// of a tree that was published and must not be older than the one that is there.
// How many cosignatures count is for the caller to say.
func (l *Lease) Witnessed(ctx context.Context, note []byte) error {
	g, err := l.open(note, MaxWitnessed)
	if err != nil {
		return fmt.Errorf("keep cosignatures: %w", err)
	}
	if ok, err := l.contains(ctx, g); err != nil || !ok {
		return fmt.Errorf("keep cosignatures of %s: %w", g, errors.Join(ErrNote, err))
	}
	note = bytes.Clone(note)
	err = l.update(ctx, false, func(r Record) (Record, error) {
		before := r.Witnessed
		if len(before) > 0 {
			_, b, err := readNote(before, l.cfg.Origin, MaxWitnessed)
			if err != nil {
				return r, err
			}
			if g.Size < b.Size {
				return r, fmt.Errorf("%w: the register has cosignatures of %s", ErrOlder, b)
			}
		}
		r.Witnessed = note
		if err := r.check(); err != nil {
			return r, fmt.Errorf("%w: %w", ErrNote, err)
		}
		return r, nil
	})
	if err != nil {
		return fmt.Errorf("keep cosignatures of %s: %w", g, err)
	}
	return nil
}

// open reads a note that the log's key must have signed.
func (l *Lease) open(raw []byte, most int) (Guard, error) {
	n, g, err := readNote(raw, l.cfg.Origin, most)
	if err != nil {
		return Guard{}, fmt.Errorf("%w: %w", ErrNote, err)
	}
	switch v, err := n.VerifyBy(l.cfg.LogKey); {
	case err != nil:
		return Guard{}, fmt.Errorf("%w: %w", ErrNote, err)
	case v.Lines == 0:
		return Guard{}, fmt.Errorf("%w: no signature by %s", ErrNote, l.cfg.LogKey)
	}
	return g, nil
}

// Release hands the lease over at once, if this node holds it: the register then
// names nobody, and the next fit node need not wait. This Lease takes nothing over
// any more, also when Release fails; the others then wait for TTL. Nothing must be
// published when it is called.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	l.released = true
	l.tellLocked(l.last.record)
	l.mu.Unlock()
	err := l.update(ctx, true, func(r Record) (Record, error) {
		r.Node, r.Instance = "", ""
		return r, nil
	})
	if err != nil && !errors.Is(err, ErrNotHeld) {
		return fmt.Errorf("release the lease: %w", err)
	}
	return nil
}
