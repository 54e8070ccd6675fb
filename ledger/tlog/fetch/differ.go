package fetch

import (
	"context"
	"fmt"

	"counterfoil/ledger/tiles"
)

// DifferError says that a log is not a beginning of the signed tree.
type DifferError struct {
	Index       uint64 // of the first leaf that differs
	Own, Signed tiles.Hash
}

func (e *DifferError) Error() string {
	return fmt.Sprintf("leaf %d has hash %x here, and %x in the tree that the log signed", e.Index, e.Own, e.Signed)
}

// Begins checks that the first size leaves of a log are those of the tree, by what
// the log's own tiles say. Another leaf is a *DifferError. size is at most the tree's.
func (t *Tree) Begins(ctx context.Context, own *tiles.Reader, size uint64) error {
	same, err := t.equal(ctx, own, size, size)
	if same || err != nil {
		return err
	}
	equal, differ := uint64(0), size // of beginnings
	for differ-equal > 1 {
		mid := equal + (differ-equal)/2
		same, err := t.equal(ctx, own, mid, size)
		if err != nil {
			return err
		}
		if same {
			equal = mid
		} else {
			differ = mid
		}
	}
	a, err := own.LeafHash(ctx, equal, size)
	if err != nil {
		return err
	}
	b, err := t.proven.LeafHash(ctx, equal, t.cfg.Size)
	if err != nil {
		return err
	}
	return &DifferError{Index: equal, Own: a, Signed: b}
}

// equal compares the first n leaves, where the log has size of them.
func (t *Tree) equal(ctx context.Context, own *tiles.Reader, n, size uint64) (bool, error) {
	a, err := own.Range(ctx, 0, n, size)
	if err != nil {
		return false, fmt.Errorf("the own log: %w", err)
	}
	b, err := t.proven.Range(ctx, 0, n, t.cfg.Size)
	if err != nil {
		return false, err
	}
	return tiles.EdgeRoot(a) == tiles.EdgeRoot(b), nil
}
