package tlog

import (
	"context"
	"errors"
	"fmt"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Adopt puts another node's checkpoint in place of the last one, if it is one that
// this log's key signed, of a tree that this log has. It returns the newest
// checkpoint, which is the given one or one that is at least as large. The note may
// have cosignatures; they are kept as they are and not judged. It may run beside an
// Append.
//
//   - ErrBehind: the tree here is smaller. Adopt it again when Size has grown.
//   - ErrCheckpoint: it is not a checkpoint of this log.
//   - ErrDisagrees: the log's key signed another tree than the one here. Final, as
//     the other errors of Publish that are: nothing will be appended or published
//     any more, see Err.
//
// After any other error the old checkpoint or the new one is in place.
func (l *Log) Adopt(ctx context.Context, signed []byte) (Checkpoint, error) {
	cp, err := l.parseCheckpoint(signed)
	if err == nil && cp.extension != "" {
		err = fmt.Errorf("%w: it has extension lines", ErrCheckpoint)
	}
	if _, perr := trust.ParseNote(signed); err == nil && perr != nil { // one spelling
		err = fmt.Errorf("%w: %w", ErrCheckpoint, perr)
	}
	if err != nil {
		return l.Checkpoint(), fmt.Errorf("adopt a checkpoint: %w", err)
	}
	if err := l.adopted(ctx, cp.Checkpoint); err != nil {
		return l.Checkpoint(), fmt.Errorf("adopt the checkpoint of size %d: %w", cp.Size, err)
	}
	return l.Checkpoint(), nil
}

func (l *Log) adopted(ctx context.Context, cp Checkpoint) error {
	if err := take(ctx, l.signing); err != nil {
		return err
	}
	defer release(l.signing)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.usable(); err != nil {
		return err
	}
	t, err := l.checkStored(ctx)
	if err != nil {
		return l.fail(err)
	}
	if cp.Size > t.size {
		return fmt.Errorf("%w: it has size %d", ErrBehind, t.size)
	}
	// Older ones are compared too: two histories show at any size.
	if err := l.begins(ctx, t, cp.Size, cp.Root); err != nil {
		return l.fail(err)
	}
	if has := l.Checkpoint(); has.Note != nil && cp.Size <= has.Size {
		return nil
	}
	return l.putInPlace(t, cp)
}

// putInPlace makes cp the newest checkpoint. Its tree is t or a beginning of it.
// The caller holds l.signing.
func (l *Log) putInPlace(t tree, cp Checkpoint) error {
	// The guard comes first: a checkpoint is never ahead of it, whatever crashes.
	// It gets the whole tree, which was computed here from leaves that are durable.
	if err := l.storeGuard(t); err != nil {
		return err
	}
	return l.show(cp)
}

// begins checks that a tree of that size and root is a beginning of t: by a proof
// from the tiles which only the two roots verify, so that no damaged or altered
// tile can say yes.
func (l *Log) begins(ctx context.Context, t tree, size uint64, root tiles.Hash) error {
	has := t.root
	if size < t.size {
		var err error
		if has, err = l.tiles.Root(ctx, size); err != nil {
			return tilesError(err)
		}
	}
	if has != root {
		return fmt.Errorf("%w: at size %d it has root %x, the checkpoint %x", ErrDisagrees, size, has, root)
	}
	if size == 0 || size == t.size {
		return nil
	}
	hashes, err := l.tiles.Consistency(ctx, size, t.size)
	if err != nil {
		return tilesError(err)
	}
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, size, t.size, hashes, root[:], t.root[:]); err != nil {
		return fmt.Errorf("%w: from size %d to %s: %w", ErrTiles, size, t, err)
	}
	return nil
}

// Contains reports whether the durable tree has at least size leaves and that root
// at size; false while it is smaller. Another root there is an ErrDisagrees with
// both. It waits for no publication.
func (l *Log) Contains(ctx context.Context, size uint64, root [32]byte) (bool, error) {
	if err := l.usable(); err != nil && !errors.Is(err, ErrClosed) {
		return false, fmt.Errorf("compare a tree with the log: %w", err)
	}
	l.mu.Lock()
	t := l.tree
	l.mu.Unlock()
	if size > t.size {
		return false, nil
	}
	if err := l.begins(ctx, t, size, root); err != nil {
		return false, fmt.Errorf("compare a tree with the log: %w", err)
	}
	return true, nil
}

// Guard is the tree of the guard's record: the largest that this node may have
// signed or shown, durable. It waits for no publication.
func (l *Log) Guard() (size uint64, root [32]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guarded.size, l.guarded.root
}
