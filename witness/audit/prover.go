package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"

	"counterfoil/ledger/tiles"
)

// prover hands out node hashes of one signed tree, each proven from the root
// down. A tile that is damaged is reported, and made anew from the tiles below it
// where that gives the hash that the tree demands.
//
// It is not safe for concurrent use: one goroutine walks the tree in order.
type prover struct {
	src  tiles.Source
	size uint64
	root tiles.Hash
	// found takes what is wrong with hash tiles.
	found func(Finding)
	// proven, if set, takes every proven full tile of level 1 and above, once
	// for each time it is read.
	proven func(p tiles.Path, hashes []tiles.Hash) error

	edge [topLevel + 1][]tiles.Hash // the partial tiles, proven by the root
	last [topLevel + 1]struct {     // the last full tile of each level
		index  uint64
		hashes []tiles.Hash
	}
}

// errUnproven: the tiles do not lead from the signed root to this place.
var errUnproven = errors.New("the tiles do not lead from the signed root to this place")

// errRoot: nothing that is served gives the signed root.
var errRoot = errors.New("neither the tiles nor the leaves at the edge of the tree give the signed root")

// newProver reads the right edge of the tree and compares it with the root. A
// root that nothing gives is errRoot, with a finding.
func newProver(ctx context.Context, src tiles.Source, size uint64, root tiles.Hash, found func(Finding)) (*prover, error) {
	p := &prover{src: src, size: size, root: root, found: found}
	served := make([]bool, topLevel+1)
	for level := range p.edge {
		w := int(size >> (8 * level) % tiles.Width)
		if w == 0 {
			continue
		}
		hashes, err := p.read(ctx, tiles.TilePath(level, size>>(8*level)/tiles.Width, w))
		if err != nil && !wrongTile(err) {
			return nil, err
		}
		p.edge[level], served[level] = hashes, err == nil
	}
	if p.edgeRoot() == root && p.whole() {
		return p, nil
	}
	return p, p.repairEdge(ctx, served)
}

func (p *prover) edgeRoot() tiles.Hash {
	var nodes []tiles.Hash
	for level := topLevel; level >= 0; level-- {
		nodes = edgeNodes(nodes, p.edge[level])
	}
	return tiles.EdgeRoot(nodes)
}

// whole reports whether no tile of the edge is missing.
func (p *prover) whole() bool {
	for level := range p.edge {
		if len(p.edge[level]) != int(p.size>>(8*level)%tiles.Width) {
			return false
		}
	}
	return true
}

// repairEdge looks for the tiles of the edge that are damaged: for each level
// there is the tile as served and the one that follows from below, and some choice
// of them gives the signed root.
func (p *prover) repairEdge(ctx context.Context, served []bool) error {
	asServed, made := p.edge, [topLevel + 1][]tiles.Hash{}
	for level := range p.edge {
		w := int(p.size >> (8 * level) % tiles.Width)
		if w == 0 {
			continue
		}
		var err error
		if made[level], err = p.fromBelow(ctx, level, p.size>>(8*level)/tiles.Width, w); err != nil {
			return err
		}
	}
	for choice := range 1 << len(p.edge) {
		for level := range p.edge {
			p.edge[level] = asServed[level]
			if choice>>level&1 == 1 {
				p.edge[level] = made[level]
			}
		}
		if !p.whole() || p.edgeRoot() != p.root {
			continue
		}
		for level := range p.edge {
			if choice>>level&1 == 1 && len(made[level]) > 0 {
				path := tiles.TilePath(level, p.size>>(8*level)/tiles.Width, len(made[level]))
				p.tileWrong(path, made[level], asServed[level], served[level])
			}
		}
		return nil
	}
	p.edge = asServed
	p.found(about(RootMismatch, "", fmt.Sprintf("root %x", p.root), fmt.Sprintf("root %x", p.edgeRoot()),
		"the tiles do not give the root that the log signed for size %d", p.size))
	return errRoot
}

// tileWrong reports a tile that is not what the tree has.
func (p *prover) tileWrong(path tiles.Path, want, got []tiles.Hash, served bool) {
	if !served {
		p.found(about(MissingTile, path.String(), "the tile", "nothing, or not a tile", "hash tile %s is not served, or has no form", path))
		return
	}
	for i := range want {
		if i >= len(got) || want[i] != got[i] {
			g := "nothing"
			if i < len(got) {
				g = fmt.Sprintf("%x", got[i])
			}
			p.found(about(DamagedTile, path.String(), fmt.Sprintf("%x", want[i]), g, "hash %d of tile %s is not that of the signed tree", i, path))
			return
		}
	}
}

// wrongTile reports an answer that will not become better by itself.
func wrongTile(err error) bool {
	var damage *tiles.DamageError
	return errors.As(err, &damage) || errors.Is(err, fs.ErrNotExist)
}

// read reads the first p.Width hashes of a tile, unproven.
func (p *prover) read(ctx context.Context, path tiles.Path) ([]tiles.Hash, error) {
	data, got, err := readPath(ctx, p.src, path)
	if err != nil {
		return nil, err
	}
	return splitTile(data, got, path.Width)
}

// fromBelow computes a tile from what is served one level below it, or further
// below where that is not there; nil if nothing is.
func (p *prover) fromBelow(ctx context.Context, level int, index uint64, w int) ([]tiles.Hash, error) {
	if level == 0 {
		data, got, err := readPath(ctx, p.src, tiles.EntriesPath(index, w))
		if err != nil {
			return nil, unlessWrong(err)
		}
		entries, _ := splitBundle(data, got.Width, w)
		if len(entries) < w {
			return nil, nil
		}
		out := make([]tiles.Hash, w)
		for i := range out {
			out[i] = tiles.LeafHashOf(entries[i])
		}
		return out, nil
	}
	out := make([]tiles.Hash, w)
	for i := range out {
		at := index*tiles.Width + uint64(i)
		below, err := p.read(ctx, tiles.TilePath(level-1, at, tiles.Width))
		if wrongTile(err) {
			below, err = p.fromBelow(ctx, level-1, at, tiles.Width)
		}
		if err != nil || below == nil {
			return nil, err
		}
		out[i] = subtree(below)
	}
	return out, nil
}

func unlessWrong(err error) error {
	if wrongTile(err) {
		return nil
	}
	return err
}

// hashes returns the proven hashes of a tile, all that the tree has of it.
func (p *prover) hashes(ctx context.Context, level int, index uint64) ([]tiles.Hash, error) {
	if index == p.size>>(8*level)/tiles.Width {
		return p.edge[level], nil
	}
	if l := &p.last[level]; l.hashes != nil && l.index == index {
		return l.hashes, nil
	}
	want, err := p.tileHash(ctx, level, index)
	if err != nil {
		return nil, err
	}
	path := tiles.TilePath(level, index, tiles.Width)
	got, err := p.read(ctx, path)
	if err != nil && !wrongTile(err) {
		return nil, err
	}
	hashes := got
	if err != nil || subtree(got) != want {
		made, ferr := p.fromBelow(ctx, level, index, tiles.Width)
		if ferr != nil {
			return nil, ferr
		}
		if made == nil || subtree(made) != want {
			if level > 0 { // a unit says more of its own tile
				p.found(about(DamagedTile, path.String(), fmt.Sprintf("%x", want), "other hashes, and below it as well",
					"hash tile %s cannot be proven: the leaves under it are not judged", path))
			}
			return nil, fmt.Errorf("%s: %w", path, errUnproven)
		}
		p.tileWrong(path, made, got, err == nil)
		hashes = made
	}
	p.last[level].index, p.last[level].hashes = index, hashes
	if p.proven != nil && level > 0 {
		if err := p.proven(path, hashes); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// tileHash is the proven root of a full tile.
func (p *prover) tileHash(ctx context.Context, level int, index uint64) (tiles.Hash, error) {
	if level == topLevel {
		return tiles.Hash{}, errUnproven // no size reaches so far
	}
	up, err := p.hashes(ctx, level+1, index/tiles.Width)
	if err != nil {
		return tiles.Hash{}, err
	}
	return up[index%tiles.Width], nil
}

// node is the proven hash of a perfect subtree of the tree.
func (p *prover) node(ctx context.Context, id compact.NodeID) (tiles.Hash, error) {
	level, row := int(id.Level)/8, id.Level%8
	first := id.Index << row
	hashes, err := p.hashes(ctx, level, first/tiles.Width)
	if err != nil {
		return tiles.Hash{}, err
	}
	from, to := first%tiles.Width, first%tiles.Width+1<<row
	if to > uint64(len(hashes)) {
		return tiles.Hash{}, fmt.Errorf("node %d of level %d is not in the tree of size %d", id.Index, id.Level, p.size)
	}
	return subtree(hashes[from:to]), nil
}

// edgeAt is the proven compact range of the first size leaves.
func (p *prover) edgeAt(ctx context.Context, size uint64) ([]tiles.Hash, error) {
	out := make([]tiles.Hash, 0, bits.OnesCount64(size))
	for _, id := range compact.RangeNodes(0, size, nil) {
		h, err := p.node(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// consistency proves that the tree of a smaller size is a beginning of this one,
// or shows that it is not.
func (p *prover) consistency(ctx context.Context, size uint64) ([][]byte, error) {
	n, err := proof.Consistency(size, p.size)
	if err != nil {
		return nil, err
	}
	nodes := make([][]byte, len(n.IDs))
	for i, id := range n.IDs {
		h, err := p.node(ctx, id)
		if err != nil {
			return nil, err
		}
		nodes[i] = h[:]
	}
	return n.Rehash(nodes, ranges.Hash)
}

// readPath reads a tile or bundle and demands the answer to the question.
func readPath(ctx context.Context, src tiles.Source, p tiles.Path) ([]byte, tiles.Path, error) {
	data, got, err := src.Read(ctx, p)
	if err != nil {
		return nil, got, err
	}
	same := got
	same.Width = p.Width
	if same != p || got.Width < p.Width || got.Width > tiles.Width {
		return nil, got, fmt.Errorf("read %s: the source answered with %s", p, got)
	}
	return data, got, nil
}
