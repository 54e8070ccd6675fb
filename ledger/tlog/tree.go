package tlog

import (
	"bytes"
	"fmt"
	"math/bits"

	"counterfoil/ledger/tiles"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// tree is a Merkle tree by what is needed to go on with it. It is computed from
// leaves only, with merkle's code and not with that of package tiles: the two
// are compared with each other. It is never changed.
type tree struct {
	size uint64
	root tiles.Hash
	edge []tiles.Hash // roots of the complete subtrees, left to right
}

var ranges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

func emptyTree() tree { return tree{root: tiles.Hash(rfc6962.DefaultHasher.EmptyRoot())} }

// treeOf is the tree with that compact range.
func treeOf(size uint64, edge []tiles.Hash) (tree, error) {
	if len(edge) != bits.OnesCount64(size) {
		return tree{}, fmt.Errorf("a tree of size %d has %d complete subtrees, got %d", size, bits.OnesCount64(size), len(edge))
	}
	g, err := (tree{size: size, edge: edge}).grow()
	if err != nil {
		return tree{}, err
	}
	return g.tree()
}

// growing is a tree to which leaves are appended.
type growing struct{ r *compact.Range }

func (t tree) grow() (growing, error) {
	hashes := make([][]byte, len(t.edge))
	for i := range t.edge {
		hashes[i] = bytes.Clone(t.edge[i][:])
	}
	r, err := ranges.NewRange(0, t.size, hashes)
	return growing{r}, err
}

func (g growing) append(leaf []byte) error {
	return g.r.Append(rfc6962.DefaultHasher.HashLeaf(leaf), nil)
}

func (g growing) tree() (tree, error) {
	if g.r.End() == 0 {
		return emptyTree(), nil
	}
	root, err := g.r.GetRootHash(nil)
	if err != nil {
		return tree{}, err
	}
	t := tree{size: g.r.End(), root: tiles.Hash(root)}
	for _, h := range g.r.Hashes() {
		t.edge = append(t.edge, tiles.Hash(h))
	}
	return t, nil
}

// with is t with more leaves.
func (t tree) with(leaves [][]byte) (tree, error) {
	g, err := t.grow()
	if err != nil {
		return tree{}, err
	}
	for _, leaf := range leaves {
		if err := g.append(leaf); err != nil {
			return tree{}, err
		}
	}
	return g.tree()
}

// same reports whether the trees have the same leaves.
func (t tree) same(size uint64, root tiles.Hash) bool { return t.size == size && t.root == root }

func (t tree) String() string { return fmt.Sprintf("size %d root %x", t.size, t.root) }
