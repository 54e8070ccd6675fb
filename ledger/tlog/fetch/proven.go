package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
)

// Config says which tree is taken, and from whom.
type Config struct {
	// Peers are asked in turn, bundle by bundle.
	Peers []Peer
	// Size and Root are of a checkpoint whose signatures the caller has verified.
	Size uint64
	Root tiles.Hash
	// Workers is how many bundles are on their way at once. Default 8.
	Workers int
	// Progress, if set, is told how many leaves are on the disk, now and then.
	Progress func(leaves uint64)
	Logger   *slog.Logger

	// Write puts a file in place, durably. Default [durable.WriteFile]; tests let it
	// fail.
	Write func(path string, data []byte, perm fs.FileMode) error
}

// Tree is a signed tree that others have. It is safe for concurrent use, but for
// Fill.
type Tree struct {
	cfg   Config
	peers *peers
	edge  [levels][]tiles.Hash // the partial tiles, proven by the root
	// proven reads from the tree itself: tiles that are proven.
	proven *tiles.Reader
}

// levels is how many levels of tiles a tree can have.
const levels = 8

var ranges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// Open reads the right edge of the tree and proves it by the root.
func Open(ctx context.Context, cfg Config) (*Tree, error) {
	if cfg.Workers == 0 {
		cfg.Workers = 8
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Progress == nil {
		cfg.Progress = func(uint64) {}
	}
	if cfg.Write == nil {
		cfg.Write = durable.WriteFile
	}
	t := &Tree{cfg: cfg, peers: &peers{log: cfg.Logger, left: append([]Peer(nil), cfg.Peers...)}}
	t.proven = tiles.NewReader(source{t}, tiles.Options{TileBytes: 8 << 20, BundleBytes: 1})
	for {
		peer, ok := t.peers.pick(tiles.Path{})
		if !ok {
			return nil, fmt.Errorf("read the edge of the tree of size %d: %w", cfg.Size, t.peers.err())
		}
		p, err := t.readEdge(ctx, peer)
		if err == nil {
			return t, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t.peers.giveUp(peer, p, err)
	}
}

// Reader reads hashes of the tree, each proven before it is given.
func (t *Tree) Reader() *tiles.Reader { return t.proven }

// readEdge reads the partial tiles of one peer. It returns the tile at which it
// failed.
func (t *Tree) readEdge(ctx context.Context, peer Peer) (p tiles.Path, err error) {
	var edge [levels][]tiles.Hash
	var nodes []tiles.Hash
	for level := levels - 1; level >= 0; level-- {
		n := t.cfg.Size >> (8 * level)
		if n%tiles.Width == 0 {
			continue
		}
		p = tiles.TilePath(level, n/tiles.Width, int(n%tiles.Width))
		data, err := peer.read(ctx, p)
		if err != nil {
			return p, err
		}
		if edge[level], err = split(p, data); err != nil {
			return p, err
		}
		r, err := rangeOf(0, edge[level])
		if err != nil {
			return p, err
		}
		nodes = append(nodes, hashesOf(r)...)
	}
	if root := tiles.EdgeRoot(nodes); root != t.cfg.Root {
		return p, &WrongError{fmt.Sprintf("the edge of the tree of size %d", t.cfg.Size), fmt.Sprintf("root %x, which is signed", t.cfg.Root), fmt.Sprintf("root %x", root)}
	}
	t.edge = edge
	return p, nil
}

// source is the tree as a source of proven hash tiles. It answers with the width
// that a tile has in the whole tree.
type source struct{ t *Tree }

func (s source) Read(ctx context.Context, p tiles.Path) ([]byte, tiles.Path, error) {
	if p.Kind != tiles.Tile {
		return nil, p, fmt.Errorf("%s is no hash tile", p)
	}
	p = p.In(s.t.cfg.Size)
	if p.Width == 0 {
		return nil, p, fmt.Errorf("%s is not in the tree of size %d", p, s.t.cfg.Size)
	}
	if !p.Full() {
		return join(s.t.edge[p.Level]), p, nil
	}
	data, err := s.t.tile(ctx, p)
	return data, p, err
}

// tile reads a full hash tile and proves it by the one above it.
func (t *Tree) tile(ctx context.Context, p tiles.Path) ([]byte, error) {
	want, err := t.over(ctx, p)
	if err != nil {
		return nil, err
	}
	return t.peers.read(ctx, p, func(data []byte) error {
		hashes, err := split(p, data)
		if err != nil {
			return err
		}
		return compareRoot(p, hashes, want)
	})
}

// over is the proven hash of all that is under a full tile or bundle.
func (t *Tree) over(ctx context.Context, p tiles.Path) (tiles.Hash, error) {
	span := uint64(tiles.Width) << (8 * p.Level)
	nodes, err := t.proven.Range(ctx, p.Index*span, (p.Index+1)*span, t.cfg.Size)
	if err != nil {
		return tiles.Hash{}, err
	}
	return nodes[0], nil // a full tile is one complete subtree
}

func compareRoot(p tiles.Path, hashes []tiles.Hash, want tiles.Hash) error {
	r, err := rangeOf(0, hashes)
	if err != nil {
		return err
	}
	if got := hashesOf(r)[0]; got != want {
		return &WrongError{p.String(), fmt.Sprintf("hash %x", want), fmt.Sprintf("%x", got)}
	}
	return nil
}

// bundle reads a bundle and proves every leaf of it; it returns the leaves' hashes
// as well.
func (t *Tree) bundle(ctx context.Context, p tiles.Path) (data []byte, hashes []tiles.Hash, err error) {
	data, err = t.peers.read(ctx, p, func(data []byte) error {
		hashes, err = t.proveBundle(ctx, p, data)
		return err
	})
	return data, hashes, err
}

// proveBundle compares the leaves of a bundle with the tree.
func (t *Tree) proveBundle(ctx context.Context, p tiles.Path, data []byte) ([]tiles.Hash, error) {
	hashes, err := tiles.LeafHashes(p, data)
	if err != nil {
		return nil, err
	}
	if p.Full() {
		want, err := t.over(ctx, p)
		if err != nil {
			return nil, err
		}
		if err := compareRoot(p, hashes, want); err != nil {
			return nil, t.whichLeaf(ctx, p, hashes, err)
		}
		return hashes, nil
	}
	return hashes, t.whichLeaf(ctx, p, hashes, nil)
}

// whichLeaf names the first leaf that is not the tree's; otherwise if no hash tile
// tells.
func (t *Tree) whichLeaf(ctx context.Context, p tiles.Path, hashes []tiles.Hash, otherwise error) error {
	for i, got := range hashes {
		index := p.Index*tiles.Width + uint64(i)
		want, err := t.proven.LeafHash(ctx, index, t.cfg.Size)
		if err != nil {
			return errors.Join(otherwise, err)
		}
		if got != want {
			return &WrongError{fmt.Sprintf("leaf %d in %s", index, p), fmt.Sprintf("hash %x", want), fmt.Sprintf("%x", got)}
		}
	}
	return otherwise
}

// rangeOf is the compact range of hashes that begin at a place.
func rangeOf(begin uint64, hashes []tiles.Hash) (*compact.Range, error) {
	r := ranges.NewEmptyRange(begin)
	for i := range hashes {
		if err := r.Append(hashes[i][:], nil); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func hashesOf(r *compact.Range) []tiles.Hash {
	out := make([]tiles.Hash, 0, len(r.Hashes()))
	for _, h := range r.Hashes() {
		out = append(out, tiles.Hash(h))
	}
	return out
}

// split reads the hashes of a tile of exactly that width.
func split(p tiles.Path, data []byte) ([]tiles.Hash, error) {
	if len(data) != p.Width*tiles.HashSize {
		return nil, &WrongError{p.String(), fmt.Sprintf("%d bytes", p.Width*tiles.HashSize), fmt.Sprintf("%d", len(data))}
	}
	out := make([]tiles.Hash, p.Width)
	for i := range out {
		copy(out[i][:], data[i*tiles.HashSize:])
	}
	return out, nil
}

func join(hashes []tiles.Hash) []byte {
	var b bytes.Buffer
	for i := range hashes {
		b.Write(hashes[i][:])
	}
	return b.Bytes()
}
