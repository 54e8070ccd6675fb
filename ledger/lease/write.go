package lease

import (
	"context"
	"fmt"
)

// maxTries bounds how often one change meets a register that does not take it
// although nobody else holds the lease: writes of ours that came late.
const maxTries = 4

// put writes a record on the revision that it was decided on. The caller holds
// l.writing.
func (l *Lease) put(ctx context.Context, r Record, expect uint64) error {
	b, err := r.Encode()
	if err != nil {
		return err
	}
	// From here on the register may have it, whatever becomes of the answer: the
	// next write is made after a read, which knows our records by their instance.
	l.mu.Lock()
	l.last.unsure = true
	l.mu.Unlock()
	began := l.cfg.now()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Beat)
	defer cancel()
	revision, err := l.cfg.Register.Put(ctx, b, expect)
	if err != nil {
		return fmt.Errorf("%w: write on revision %d: %w", ErrUnavailable, expect, err)
	}
	l.stored(r, revision, began)
	return nil
}

// update makes one change as the holder. When it returns nil the changed record
// was in the register at a moment after the call began. After Release only the
// last change is made.
func (l *Lease) update(ctx context.Context, last bool, change func(Record) (Record, error)) error {
	if err := take(ctx, l.writing); err != nil {
		return err
	}
	defer release(l.writing)
	if l.gaveUp() && !last {
		return fmt.Errorf("%w: it was released", ErrNotHeld)
	}
	var failed error
	for range maxTries {
		v, ours := l.view()
		if v.unsure || !v.known {
			if err := l.read(ctx); err != nil {
				return err
			}
			v, ours = l.view()
		}
		if v.bad != nil {
			return v.bad
		}
		if !ours {
			return fmt.Errorf("%w: %s", ErrNotHeld, holder(v.record))
		}
		next, err := change(v.record)
		if err != nil {
			return err
		}
		next.Beat++
		if failed = l.put(ctx, next, v.revision); failed == nil || ctx.Err() != nil {
			return failed
		}
	}
	return failed
}

func holder(r Record) string {
	if r.Vacant() {
		return fmt.Sprintf("nobody does since epoch %d", r.Epoch)
	}
	return fmt.Sprintf("node %s does, in epoch %d", r.Node, r.Epoch)
}

// take gets the token, unless ctx ends first.
func take(ctx context.Context, token chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func release(token chan struct{}) { <-token }
