package tiles

import (
	"context"
	"fmt"
	"iter"
)

// Leaf is one leaf of the tree.
type Leaf struct {
	Index uint64
	Data  []byte // shared: not to be changed
	Hash  Hash   // of Data, equal to the one in the tree's tile
}

// Leaf reads one leaf and compares it with its hash in the tile of level 0.
func (r *Reader) Leaf(ctx context.Context, index, size uint64) (Leaf, error) {
	if index >= size {
		return Leaf{}, &RangeError{"leaf", index, size}
	}
	p := EntriesPath(index/Width, widthAt(0, index/Width, size))
	b, ok := r.cachedBundle(p)
	if !ok {
		var err error
		if b, err = r.readBundle(ctx, p); err != nil {
			return Leaf{}, fmt.Errorf("leaf %d: %w", index, err)
		}
		r.bundles.add(p, b)
	}
	t, err := r.tile(ctx, 0, index/Width, size)
	if err != nil {
		return Leaf{}, fmt.Errorf("leaf %d: %w", index, err)
	}
	return leafOf(b, t, index)
}

// Leaves reads the leaves from (inclusive) to (exclusive) in order, bundle by
// bundle; each bundle is read from the source once. The first error ends the
// sequence. The bundles read are not kept.
func (r *Reader) Leaves(ctx context.Context, from, to, size uint64) iter.Seq2[Leaf, error] {
	return func(yield func(Leaf, error) bool) {
		if to > size {
			yield(Leaf{}, &RangeError{"end of the leaves,", to, size})
			return
		}
		for from < to {
			index := from / Width
			p := EntriesPath(index, widthAt(0, index, size))
			b, ok := r.cachedBundle(p)
			var err error
			if !ok {
				b, err = r.readBundle(ctx, p)
			}
			var t *hashTile
			if err == nil {
				t, err = r.tile(ctx, 0, index, size)
			}
			if err != nil {
				yield(Leaf{}, fmt.Errorf("leaf %d: %w", from, err))
				return
			}
			for end := min(to, (index+1)*Width); from < end; from++ {
				leaf, err := leafOf(b, t, from)
				if !yield(leaf, err) || err != nil {
					return
				}
			}
		}
	}
}

func leafOf(b *bundle, t *hashTile, index uint64) (Leaf, error) {
	l := Leaf{Index: index, Data: b.entries[index%Width]}
	l.Hash = LeafHashOf(l.Data)
	if want := t.node(0, index%Width); l.Hash != *want {
		return Leaf{}, &LeafError{Index: index, Expected: *want, Got: l.Hash, bundle: b.from}
	}
	return l, nil
}

// LeafError is the [DamageError] of a leaf whose bytes do not have the hash that
// the tile of level 0 has for it. Which of the two is wrong is not said.
type LeafError struct {
	Index         uint64
	Expected, Got Hash // in the tile; of the bytes

	bundle Path
}

func (e *LeafError) Error() string { return e.Unwrap().Error() }

// Unwrap returns a *[DamageError].
func (e *LeafError) Unwrap() error {
	return &DamageError{Path: e.bundle, Problem: fmt.Sprintf("leaf %d hashes to %x, its tile of level 0 has %x", e.Index, e.Got, e.Expected)}
}

func (r *Reader) cachedBundle(p Path) (*bundle, bool) {
	if b, ok := r.bundles.get(p); ok || p.Full() {
		return b, ok
	}
	return r.bundles.get(p.with(Width))
}

func (r *Reader) readBundle(ctx context.Context, p Path) (*bundle, error) {
	data, got, err := r.read(ctx, p)
	if err != nil {
		return nil, err
	}
	return parseBundle(got, data, p.Width)
}
