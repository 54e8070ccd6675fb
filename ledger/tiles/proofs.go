package tiles

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
)

// LeafHash is the hash of the leaf, as the tiles have it.
func (r *Reader) LeafHash(ctx context.Context, index, size uint64) (Hash, error) {
	if index >= size {
		return Hash{}, &RangeError{"leaf", index, size}
	}
	t, err := r.tile(ctx, 0, index/Width, size)
	if err != nil {
		return Hash{}, fmt.Errorf("hash of leaf %d: %w", index, err)
	}
	return *t.node(0, index%Width), nil
}

// Inclusion proves that the leaf is in the tree of that size (RFC 6962 §2.1.1):
// hashes of 32 bytes, the leaf's sibling first, none for a tree of one leaf.
func (r *Reader) Inclusion(ctx context.Context, index, size uint64) ([][]byte, error) {
	if index >= size {
		return nil, &RangeError{"leaf", index, size}
	}
	n, err := proof.Inclusion(index, size)
	if err != nil {
		return nil, err
	}
	hashes, err := r.proof(ctx, n, size)
	if err != nil {
		return nil, fmt.Errorf("inclusion proof of leaf %d in size %d: %w", index, size, err)
	}
	return hashes, nil
}

// Consistency proves that the tree of size a is the beginning of the tree of
// size b (RFC 6962 §2.1.2). It is empty for a = 0 and a = b.
func (r *Reader) Consistency(ctx context.Context, a, b uint64) ([][]byte, error) {
	if a > b {
		return nil, &RangeError{"size", a, b}
	}
	n, err := proof.Consistency(a, b)
	if err != nil {
		return nil, err
	}
	hashes, err := r.proof(ctx, n, b)
	if err != nil {
		return nil, fmt.Errorf("consistency proof from size %d to %d: %w", a, b, err)
	}
	return hashes, nil
}

func (r *Reader) proof(ctx context.Context, n proof.Nodes, size uint64) ([][]byte, error) {
	hashes, err := r.nodes(ctx, n.IDs, size)
	if err != nil {
		return nil, err
	}
	return n.Rehash(hashes, foldBytes)
}

// RightEdge is the compact range of the tree: the roots of its complete
// subtrees from left to right, the largest first (one for every bit set in
// size).
func (r *Reader) RightEdge(ctx context.Context, size uint64) ([]Hash, error) {
	edge, err := r.Range(ctx, 0, size, size)
	if err != nil {
		return nil, fmt.Errorf("right edge: %w", err)
	}
	return edge, nil
}

// Range is the compact range of the leaves from (inclusive) to (exclusive) in the
// tree of that size: the roots of the fewest complete subtrees that cover them,
// from left to right. Leaves of both sides of a place in a tree are joined with
// it: the range of [0, k) is that of every tree that begins with those k leaves.
func (r *Reader) Range(ctx context.Context, from, to, size uint64) ([]Hash, error) {
	switch {
	case to > size:
		return nil, &RangeError{"end of the range,", to, size}
	case from > to:
		return nil, &RangeError{"begin of the range,", from, to}
	}
	nodes, err := r.nodes(ctx, compact.RangeNodes(from, to, nil), size)
	if err != nil {
		return nil, fmt.Errorf("range [%d, %d) of the tree of size %d: %w", from, to, size, err)
	}
	hashes := make([]Hash, len(nodes))
	for i, n := range nodes {
		hashes[i] = Hash(n)
	}
	return hashes, nil
}

// Root is the root hash of the tree of that size, as the tiles have it. Size 0
// has the hash of nothing.
func (r *Reader) Root(ctx context.Context, size uint64) (Hash, error) {
	edge, err := r.RightEdge(ctx, size)
	if err != nil {
		return Hash{}, err
	}
	return EdgeRoot(edge), nil
}

// EdgeRoot is the root hash of the tree whose compact range is edge.
func EdgeRoot(edge []Hash) Hash {
	if len(edge) == 0 {
		return sha256.Sum256(nil)
	}
	root := edge[len(edge)-1]
	for i := len(edge) - 2; i >= 0; i-- {
		root = parentHash(&edge[i], &root)
	}
	return root
}

// foldBytes is parentHash for the proof package.
func foldBytes(l, r []byte) []byte {
	h := parentHash((*Hash)(l), (*Hash)(r))
	return h[:]
}
