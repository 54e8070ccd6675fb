package follow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/projections/kv"
)

// Bounds of what a proven span keeps in memory. A longer span is read twice.
const (
	keepBytes  = 8 << 20
	keepLeaves = 16 << 10
	// locateLeaves bounds the search for the wrong leaf after a mismatch.
	locateLeaves = 256 << 10
)

var ranges = compact.RangeFactory{Hash: hashChildren}

// hashChildren is that of RFC 6962. Every leaf needs it twice.
func hashChildren(l, r []byte) []byte {
	buf := append(append(append(make([]byte, 0, 1+2*sha256.Size), rfc6962.RFC6962NodeHashPrefix), l...), r...)
	sum := sha256.Sum256(buf)
	return sum[:]
}

// rangeOf makes the compact range from which a cursor goes on.
func rangeOf(c kv.Cursor) (*compact.Range, error) {
	hashes := make([][]byte, len(c.Hashes))
	for i := range hashes {
		hashes[i] = bytes.Clone(c.Hashes[i][:])
	}
	r, err := ranges.NewRange(0, c.Size, hashes)
	if err != nil {
		return nil, errNoRange
	}
	if rootOf(r) != c.Root {
		return nil, errNoRange
	}
	return r, nil
}

func rootOf(r *compact.Range) (root [32]byte) {
	h, err := r.GetRootHash(nil)
	if err != nil || h == nil { // it begins at 0, so only the empty tree has none
		return sha256.Sum256(nil)
	}
	copy(root[:], h)
	return root
}

// hasher computes RFC 6962 leaf hashes.
type hasher struct {
	h   hash.Hash
	buf []byte
}

func newHasher() *hasher { return &hasher{h: sha256.New()} }

func (h *hasher) leaf(b []byte) (sum [32]byte) {
	h.h.Reset()
	h.buf = append(append(h.buf[:0], rfc6962.RFC6962LeafHashPrefix), b...)
	h.h.Write(h.buf)
	h.h.Sum(sum[:0])
	return sum
}

// span is a run of leaves [from, size) whose root was compared with that of the
// checkpoint. Its parts are bundles, and the two partial ones at its ends.
type span struct {
	from, size uint64
	parts      [][32]byte // SHA-256 over the leaf hashes of each part
	leaves     [][]byte   // nil if they were too many to keep
}

// partEnd is the end of the part that holds leaf at.
func (s *span) partEnd(at uint64) uint64 { return min((at/bundle+1)*bundle, s.size) }

func (s *span) part(at uint64) [32]byte { return s.parts[at/bundle-s.from/bundle] }

// prove reads the leaves from the cursor to size and compares their root with
// the checkpoint's. Only what it returns may become visible. It keeps 32 bytes a
// bundle, so that a second reading of the same leaves can be checked part by
// part, and the leaves themselves if they are few.
func (f *Follower) prove(ctx context.Context, c kv.Cursor, size uint64, root [32]byte) (*span, error) {
	r, err := rangeOf(c)
	if err != nil {
		return nil, err
	}
	s := &span{from: c.Size, size: size, leaves: [][]byte{}}
	part, kept := sha256.New(), 0
	for at := c.Size; at < size; {
		to := min((at/bundle+readBundles)*bundle, size)
		err := f.read(ctx, at, to, size, func(index uint64, leaf []byte) error {
			h := f.hash.leaf(leaf)
			part.Write(h[:])
			if index+1 == s.partEnd(index) {
				s.parts = append(s.parts, [32]byte(part.Sum(nil)))
				part.Reset()
			}
			if kept += len(leaf); kept > keepBytes || len(s.leaves) == keepLeaves {
				s.leaves = nil
			}
			if s.leaves != nil {
				s.leaves = append(s.leaves, bytes.Clone(leaf))
			}
			return r.Append(h[:], nil)
		})
		if err != nil {
			return nil, err
		}
		at = to
	}
	if got := rootOf(r); got != root {
		return nil, f.locate(ctx, &MismatchError{From: c.Size, Size: size, Want: root, Got: got})
	}
	return s, nil
}

// readBundles is how many bundles are read at once.
const readBundles = 2

// locate names the first wrong leaf, if the source can prove inclusion.
func (f *Follower) locate(ctx context.Context, e *MismatchError) error {
	p, ok := f.cfg.Source.(Prover)
	if !ok || e.Size-e.From > locateLeaves {
		return e
	}
	err := f.read(ctx, e.From, e.Size, e.Size, func(index uint64, leaf []byte) error {
		path, err := p.Inclusion(ctx, index, e.Size)
		if err != nil {
			return err
		}
		h := f.hash.leaf(leaf)
		if proof.VerifyInclusion(rfc6962.DefaultHasher, index, e.Size, h[:], path, e.Want[:]) != nil {
			e.Leaf, e.Located = index, true
			return e
		}
		return nil
	})
	e.Before = err == nil
	return e
}
