package consumer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/transparency-dev/merkle/compact"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// Batch is a run of leaves that were checked together.
type Batch struct {
	// Events are the leaves in order, at least one, no index left out.
	Events []Event
	// Note is the signed checkpoint under which they are, Checkpoint what it says.
	Note       []byte
	Checkpoint trust.Checkpoint

	start *compact.Range // of the leaves before the batch
}

// Cursor goes on behind the batch.
func (b *Batch) Cursor() *Cursor { return b.cursorAfter(len(b.Events)) }

// cursorAfter goes on behind the first n events.
func (b *Batch) cursorAfter(n int) *Cursor {
	r := cloneRange(b.start)
	for i := range b.Events[:n] {
		appendHash(r, b.Events[i].Hash)
	}
	c := &Cursor{Origin: b.Checkpoint.Origin, Next: r.End(), Note: b.Note}
	for _, h := range r.Hashes() {
		c.Range = append(c.Range, tiles.Hash(h))
	}
	return c
}

// read reads the next leaves, checks them, and moves on; nil if it is to be called
// again. From the return of a
// batch a crash loses nothing: it comes again from the last cursor that was
// saved.
func (f *Follower) read(ctx context.Context) (*Batch, error) {
	from, size := f.next, f.good.cp.Size
	leaves, fed, err := f.leaves(ctx)
	if err != nil {
		return nil, err
	}
	to := from + uint64(len(leaves))
	b := &Batch{Events: make([]Event, len(leaves)), Note: f.good.note, Checkpoint: f.good.cp, start: f.edge}
	edge := cloneRange(f.edge)
	for i, leaf := range leaves {
		e := &b.Events[i]
		*e = Event{Index: from + uint64(i), Leaf: leaf, Hash: tiles.LeafHashOf(leaf), batch: b}
		appendHash(edge, e.Hash)
	}
	whole := cloneRange(edge)
	if err := f.join(ctx, whole, size, size); err != nil {
		return nil, treeError(from, size, err)
	}
	if got := rootOf(whole); got != f.good.cp.Root {
		if fed && !f.doubted {
			// A stream that lost what was not logged gives its sequence to others: what
			// came before that is no lie. What comes now is.
			f.doubted, f.pending = true, nil
			return nil, nil
		}
		return nil, f.blame(ctx, b.Events, fed, &TreeError{From: from, To: to, Size: size, Expected: f.good.cp.Root, Got: got})
	}
	f.inspect(b.Events)
	f.edge, f.next, f.doubted = edge, to, false
	if fed {
		f.pending = f.pending[len(leaves):]
	}
	return b, nil
}

// leaves returns the next leaves: what the feed brought, or else whole bundles
// from the tiles.
func (f *Follower) leaves(ctx context.Context) (leaves [][]byte, fed bool, err error) {
	to := min((f.next/tiles.Width)*tiles.Width+uint64(f.cfg.Batch), f.limit())
	to = max(to, f.next+1)
	if f.hurry(ctx) {
		to = min(f.next+uint64(len(f.pending)), f.limit())
		leaves, err = f.filled(ctx, to)
		return leaves, true, err
	}
	leaves, err = f.bundles(ctx, f.next, to)
	return leaves, false, err
}

// filled is what is pending up to a leaf. Of some leaves the feed knows only that
// they are there.
func (f *Follower) filled(ctx context.Context, to uint64) ([][]byte, error) {
	leaves := append([][]byte(nil), f.pending[:to-f.next]...)
	for i := 0; i < len(leaves); i++ {
		if leaves[i] != nil {
			continue
		}
		at := f.next + uint64(i)
		end := min((at/tiles.Width+1)*tiles.Width, to)
		read, err := f.bundles(ctx, at, end)
		if err != nil {
			return nil, err
		}
		for j, leaf := range read {
			if leaves[i+j] == nil {
				leaves[i+j] = leaf
			}
		}
	}
	return leaves, nil
}

// bundles reads leaves from the tiles, all bundles at once.
func (f *Follower) bundles(ctx context.Context, from, to uint64) ([][]byte, error) {
	each, cancel := context.WithCancel(ctx)
	defer cancel()
	leaves := make([][]byte, to-from)
	errs := make([]error, to/tiles.Width-from/tiles.Width+1)
	var all sync.WaitGroup
	for bundle := from / tiles.Width; bundle*tiles.Width < to; bundle++ {
		all.Go(func() {
			begin, end := max(bundle*tiles.Width, from), min((bundle+1)*tiles.Width, to)
			for leaf, err := range f.reader.Leaves(each, begin, end, f.good.cp.Size) {
				if err != nil {
					errs[bundle-from/tiles.Width] = err
					cancel()
					return
				}
				leaves[leaf.Index-from] = leaf.Data
			}
		})
	}
	all.Wait()
	// The first that is not just the end of the others.
	var err error
	for _, e := range errs {
		if e != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = e
		}
	}
	return leaves, f.leafError(ctx, from, to, err)
}

// leafError says what an error of reading leaves means.
func (f *Follower) leafError(ctx context.Context, from, to uint64, err error) error {
	if err == nil {
		return nil
	}
	var leaf *tiles.LeafError
	if !errors.As(err, &leaf) {
		return treeError(from, f.good.cp.Size, sourceError(fmt.Sprintf("read leaves from %d", from), err))
	}
	proven, perr := f.proves(ctx, from, to)
	if perr != nil && passing(perr) {
		return perr
	}
	return &LeafError{Index: leaf.Index, Expected: leaf.Expected, Got: leaf.Got, Proven: proven != nil}
}

// blame says which leaf it was that does not give the root, if the tiles tell.
func (f *Follower) blame(ctx context.Context, events []Event, fed bool, e *TreeError) error {
	hashes, err := f.proves(ctx, e.From, e.To)
	if err != nil {
		return treeError(e.From, e.Size, err)
	}
	for i := range hashes {
		got := &events[i]
		switch {
		case got.Hash == hashes[i]:
			continue
		case !fed:
			return &LeafError{Index: got.Index, Expected: hashes[i], Got: got.Hash, Proven: true}
		}
		logged, err := f.bundles(ctx, got.Index, got.Index+1)
		if err != nil {
			return err
		}
		return &DisagreeError{Index: got.Index, LeafDigest: digest(logged[0]), MessageDigest: digest(got.Leaf)}
	}
	return e
}

// proves returns the leaf hashes of the tiles if they, joined with the edge and
// the rest of the tree, give the root of the checkpoint; nil if not.
func (f *Follower) proves(ctx context.Context, from, to uint64) ([]tiles.Hash, error) {
	size := f.good.cp.Size
	hashes := make([]tiles.Hash, 0, to-from)
	r := cloneRange(f.edge)
	for i := from; i < to; i++ {
		h, err := f.reader.LeafHash(ctx, i, size)
		if err != nil {
			return nil, sourceError("read the leaf hashes", err)
		}
		hashes = append(hashes, h)
		appendHash(r, h)
	}
	if err := f.join(ctx, r, size, size); err != nil {
		return nil, err
	}
	if rootOf(r) != f.good.cp.Root {
		return nil, nil
	}
	return hashes, nil
}

func digest(leaf []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(leaf)) }

func appendHash(r *compact.Range, h tiles.Hash) {
	if err := r.Append(h[:], nil); err != nil {
		panic("consumer: a range cannot grow: " + err.Error())
	}
}
