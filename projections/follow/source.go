package follow

import (
	"context"
	"fmt"

	"counterfoil/projections/kv"
)

// Source is where published leaves come from; in a running ledger, the tiles.
type Source interface {
	// Published returns size and root of the newest checkpoint.
	Published(ctx context.Context) (size uint64, root [32]byte, err error)
	// Changed returns a channel that is closed when there is a newer one. The
	// follower asks for the channel first and for the checkpoint after that.
	Changed() <-chan struct{}
	// Leaves yields the leaves [from, to) of the tree of a size, each once and
	// in order. A leaf may be changed after yield returned. It stops at the
	// first error of yield and returns it.
	Leaves(ctx context.Context, from, to, size uint64, yield func(index uint64, leaf []byte) error) error
}

// Prover is what a source may offer besides: with it, a root that does not match
// is traced to the first wrong leaf.
type Prover interface {
	// Inclusion returns the proof of a leaf in the tree of a size, leaf sibling
	// first.
	Inclusion(ctx context.Context, index, size uint64) ([][]byte, error)
}

// SourceError says that leaves could not be read. The follower tries again.
type SourceError struct {
	Doing string
	Err   error
}

func (e *SourceError) Error() string { return "follow the log: " + e.Doing + ": " + e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// bundle is the number of leaves in a full entry bundle of tlog-tiles.
const bundle = 256

// MismatchError says that the leaves do not have the root that the checkpoint
// states. Nothing of them became visible, and the follower stops.
type MismatchError struct {
	From, Size uint64 // the leaves that were read, [From, Size)
	Want, Got  [32]byte
	// Leaf is the first leaf whose inclusion proof fails, if Located.
	Leaf    uint64
	Located bool
	// Before is true if every leaf that was read is in the tree: then the views
	// were folded from other leaves below From than the log has now.
	Before bool
}

func (e *MismatchError) Error() string {
	where := fmt.Sprintf("leaves %d to %d", e.From, e.Size-1)
	hint := "stop, and compare the log directory with a backup or a witness: counterfoil doctor"
	switch {
	case e.Located:
		where = fmt.Sprintf("leaf %d (entry bundle %d)", e.Leaf, e.Leaf/bundle)
	case e.Before:
		where = fmt.Sprintf("leaves below %d, from which the views were folded earlier", e.From)
		hint = "if the log is right, fold the views again: counterfoil rebuild"
	}
	return fmt.Sprintf("root at size %d does not match the checkpoint: got %x, want %x; wrong at %s (hint: %s)", e.Size, e.Got, e.Want, where, hint)
}

// ChangedError says that leaves differ from what was read, and proven, a moment
// before. Nothing of them became visible, and the follower stops.
type ChangedError struct{ From, To uint64 }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("leaves %d to %d (entry bundle %d) changed while they were read", e.From, e.To-1, e.From/bundle)
}

// RolledBackError says that the newest checkpoint is older than the views.
type RolledBackError struct{ Views, Published uint64 }

func (e *RolledBackError) Error() string {
	return fmt.Sprintf("the newest checkpoint has size %d, but the views were folded from a published tree of size %d: the log went back (hint: find the newer log; if it is lost, counterfoil rebuild)", e.Published, e.Views)
}

// read yields leaves and makes sure that none is missing, doubled or moved.
func (f *Follower) read(ctx context.Context, from, to, size uint64, yield func(index uint64, leaf []byte) error) error {
	next := from
	var own error
	err := f.cfg.Source.Leaves(ctx, from, to, size, func(index uint64, leaf []byte) error {
		if index != next || index >= to {
			own = &SourceError{Doing: fmt.Sprintf("read leaves %d to %d", from, to-1), Err: fmt.Errorf("got leaf %d where leaf %d belongs", index, next)}
			return own
		}
		next++
		own = yield(index, leaf)
		return own
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		return &SourceError{Doing: fmt.Sprintf("read leaves %d to %d", from, to-1), Err: err}
	case next != to:
		return &SourceError{Doing: fmt.Sprintf("read leaves %d to %d", from, to-1), Err: fmt.Errorf("leaf %d is missing", next)}
	}
	return nil
}

var errNoRange = fmt.Errorf("%w: the cursor's compact range does not have its root", kv.ErrDamaged)
