package tlog

import (
	"context"
	"errors"
	"fmt"
)

// guardLag is how many leaves the guard's tree may be behind before it is
// advanced without a checkpoint. It bounds how many leaves a start has to check.
const guardLag = 8192

// Append makes the leaves durable at Size, Size+1, … and returns the new size.
// It takes any number of leaves and writes them in batches of at most 1,024, one
// after the other. The leaves must not be changed afterwards, even after an
// error.
//
// After an error none, some leading or all of the leaves may be durable; the
// size returned is the one known to be. The caller reads Size and appends what
// is missing:
//
//   - ErrNotKept: the batch at Size failed; append it again.
//   - ErrUnanswered: ctx ended, or the outcome could not be read; the batch may
//     become durable at any time. The next Append waits for the outcome.
//   - ErrMoved: that batch was durable; nothing was appended by this call.
//   - *LeafTooLargeError: nothing was appended; it will never succeed.
//   - ErrRolledBack, ErrDisagrees: nothing will be appended any more, see Err.
//   - ErrClosed, or ctx's error: nothing was begun.
func (l *Log) Append(ctx context.Context, leaves [][]byte) (newSize uint64, err error) {
	for i, leaf := range leaves {
		if len(leaf) > MaxLeaf {
			return l.Size(), fmt.Errorf("append: %w", &LeafTooLargeError{i, len(leaf)})
		}
	}
	if err := take(ctx, l.appending); err != nil {
		return l.Size(), fmt.Errorf("append: wait for the batch in flight: %w", err)
	}
	handedOver := false
	defer func() {
		if !handedOver {
			release(l.appending)
		}
	}()
	if err := l.usable(); err != nil {
		return l.Size(), fmt.Errorf("append: %w", err)
	}
	if _, err := l.settle(); err != nil {
		return l.Size(), fmt.Errorf("append: %w", err)
	}
	if l.owed {
		l.owed = false
		if size := l.Size(); size != l.owedSize {
			return size, fmt.Errorf("append: %w: from size %d to %d", ErrMoved, l.owedSize, size)
		}
	}
	for len(leaves) > 0 {
		if err := ctx.Err(); err != nil {
			return l.Size(), fmt.Errorf("append: %w", context.Cause(ctx))
		}
		n := batchSize(len(leaves))
		first, batch := l.Size(), leaves[:n]
		done := make(chan error, 1)
		go func() { done <- l.batch(batch) }()
		select {
		case err = <-done:
		case <-ctx.Done():
			select {
			case err = <-done: // both at once: the answer is better
			default:
				l.owed, l.owedSize, handedOver = true, first, true
				go func() { <-done; release(l.appending) }()
				return first, fmt.Errorf("append %d leaves at %d: %w: %w", n, first, ErrUnanswered, context.Cause(ctx))
			}
		}
		if err != nil {
			if errors.Is(err, ErrUnanswered) {
				l.owed, l.owedSize = true, first
			}
			return l.Size(), fmt.Errorf("append %d leaves at %d: %w", n, first, err)
		}
		leaves = leaves[n:]
	}
	return l.Size(), nil
}

// batch appends one batch and learns what became of it. The caller holds
// l.appending.
func (l *Log) batch(leaves [][]byte) error {
	base := l.tree
	// Tessera continues from its state file, whatever that says. It is read
	// first, so that leaves are never written over other ones.
	st, err := l.liveState()
	if err != nil {
		return l.fail(fmt.Errorf("%w: %w", ErrNotKept, err))
	}
	if !st.is(base) {
		return l.fail(stateError(st, base))
	}
	l.mu.Lock()
	l.target = base.size + uint64(len(leaves))
	l.mu.Unlock()

	type result struct {
		indexes []uint64
		err     error
	}
	written := make(chan result, 1)
	go func() {
		indexes, err := l.engine.append(leaves)
		written <- result{indexes, err}
	}()
	next, err := base.with(leaves) // meanwhile
	res := <-written
	if err != nil {
		return l.fail(fmt.Errorf("%w: compute the new root: %w", ErrDisagrees, err))
	}
	if res.err == nil {
		for i, index := range res.indexes {
			if want := base.size + uint64(i); index != want {
				return l.fail(fmt.Errorf("%w: leaf %d was put at index %d", ErrDisagrees, want, index))
			}
		}
	}
	l.doubt = &doubt{next, res.err}
	kept, err := l.settle()
	if err == nil && !kept {
		err = fmt.Errorf("%w: %w", ErrNotKept, res.err)
	}
	return err
}

// doubt is a batch of which it is not known whether it is in the stored tree.
type doubt struct {
	next    tree  // with the batch
	failure error // what the engine said, nil for success
}

// settle learns from the stored state whether the last batch was kept. It is
// the end of every batch and, when that could not read the state, the beginning
// of the next Append. Without a doubt it does nothing. The caller holds
// l.appending.
func (l *Log) settle() (kept bool, err error) {
	if l.doubt == nil {
		return false, nil
	}
	base, next, failure := l.tree, l.doubt.next, l.doubt.failure
	st, err := l.liveState()
	switch {
	case final(err):
		return false, l.fail(err)
	case err != nil:
		return false, fmt.Errorf("%w: %w", ErrUnanswered, errors.Join(failure, err))
	case st.is(base) && failure != nil:
		l.doubt = nil
		l.mu.Lock()
		l.target = base.size
		l.mu.Unlock()
		return false, nil
	case !st.is(next):
		return false, l.fail(stateError(st, next))
	case failure != nil:
		// Failed but kept: the state is in place, and whether it would survive
		// a power loss is what failed.
		if err := l.flushState(st); err != nil {
			return false, fmt.Errorf("%w: %w", ErrUnanswered, errors.Join(failure, err))
		}
	}
	// The commit point was Tessera's flush of its state file, or ours of the
	// same. From there on a crash loses nothing of the batch: Open finds it
	// beyond the guard, checks its leaves and adds them to the guard's tree.
	l.doubt = nil
	l.mu.Lock()
	l.tree, l.target = next, next.size
	l.broadcastLocked()
	l.mu.Unlock()
	l.advanceGuard()
	return true, nil
}

// advanceGuard keeps the guard from falling far behind when nothing is
// published. That it fails is not the batch's trouble; it is tried again, and
// the next Publish reports it.
func (l *Log) advanceGuard() {
	select {
	case l.signing <- struct{}{}:
	default:
		return // Publish advances it
	}
	defer release(l.signing)
	if l.tree.size-l.guard.tree.size < guardLag {
		return
	}
	if err := l.storeGuard(l.tree); err != nil {
		l.cfg.Logger.Warn("advance the guard", "size", l.tree.size, "error", err)
	}
}

// stateError says how the stored state contradicts the tree computed here.
func stateError(st state, want tree) error {
	kind := ErrDisagrees
	if st.size < want.size {
		kind = ErrRolledBack
	}
	return fmt.Errorf("%w: %s has %s, computed %s", kind, stateFile, st, want)
}
