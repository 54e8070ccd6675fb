// Package tiles reads a Merkle tree stored as C2SP tlog-tiles, checks the form
// of what it reads and makes proofs from it. It writes nothing.
//
//	r := tiles.NewReader(tiles.Dir("DATA/log"), tiles.Options{})
//	proof, err := r.Inclusion(ctx, index, size)
//
// # What is checked
//
// Every file that is read: its length, the lengths inside it, nothing behind
// its end. A leaf is also compared with its hash in the tile above it. Nothing
// here is compared with a signed tree: a proof or root means something once it
// has been checked against a checkpoint, which is up to the caller.
//
// # What may be asked
//
// Every method takes the size of the tree that it speaks about. Only sizes
// that the log has committed to (published, or integrated by the process that
// asks) may be asked about: tiles beyond them can still change, and an answer
// of theirs would be remembered. Under a committed size a full tile never
// changes, and neither does a partial one of a given width; that is how they
// are kept.
package tiles

import (
	"context"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
)

// Options bound the memory of a Reader. Zero values mean the defaults.
type Options struct {
	// TileBytes bounds the tiles kept, about 16 KiB each. Default 32 MiB: the
	// tiles over half a million leaves.
	TileBytes int
	// BundleBytes bounds the entry bundles kept, each 256 leaves. Default
	// 16 MiB. A bundle that is longer is not kept.
	BundleBytes int
}

// Reader reads one log. It is safe for concurrent use.
type Reader struct {
	src     Source
	tiles   *cache[*hashTile]
	bundles *cache[*bundle]
}

// NewReader makes a reader on a source.
func NewReader(src Source, opts Options) *Reader {
	if opts.TileBytes == 0 {
		opts.TileBytes = 32 << 20
	}
	if opts.BundleBytes == 0 {
		opts.BundleBytes = 16 << 20
	}
	return &Reader{src: src, tiles: newCache[*hashTile](opts.TileBytes), bundles: newCache[*bundle](opts.BundleBytes)}
}

// RangeError reports a question about something outside the tree named in it.
type RangeError struct {
	What       string // "leaf", "size", …
	From, Size uint64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s %d is outside the tree of size %d", e.What, e.From, e.Size)
}

// tile returns the tile with at least the nodes it has at that size.
func (r *Reader) tile(ctx context.Context, level int, index, size uint64) (*hashTile, error) {
	width := widthAt(level, index, size)
	if width == 0 {
		return nil, fmt.Errorf("tile of level %d and index %d: %w", level, index, &RangeError{"tile", index, size})
	}
	p := TilePath(level, index, width)
	if t, ok := r.cachedTile(p); ok {
		return t, nil
	}
	data, got, err := r.read(ctx, p)
	if err != nil {
		return nil, err
	}
	// A wider tile is cut down to what was asked for: what lies beyond may be
	// of a size that is not committed.
	t, err := parseTile(got, data, width)
	if err != nil {
		return nil, err
	}
	r.tiles.add(p, t)
	return t, nil
}

func (r *Reader) cachedTile(p Path) (*hashTile, bool) {
	if t, ok := r.tiles.get(p); ok || p.Full() {
		return t, ok
	}
	return r.tiles.get(p.with(Width))
}

// read asks the source and checks that it answered the question.
func (r *Reader) read(ctx context.Context, p Path) ([]byte, Path, error) {
	data, got, err := r.src.Read(ctx, p)
	if err != nil {
		return nil, got, err
	}
	if got.with(p.Width) != p || got.Width < p.Width || got.Width > Width {
		return nil, got, fmt.Errorf("read %s: the source answered with %s", p, got)
	}
	return data, got, nil
}

// nodes returns the hashes of complete subtrees in the tree of that size. The
// slices are the caller's.
func (r *Reader) nodes(ctx context.Context, ids []compact.NodeID, size uint64) ([][]byte, error) {
	flat := make([]byte, len(ids)*HashSize)
	out := make([][]byte, len(ids))
	var last *hashTile
	var lastLevel int
	var lastIndex uint64
	for i, id := range ids {
		level, row := int(id.Level)/8, int(id.Level)%8
		index := id.Index >> (8 - row)
		if last == nil || level != lastLevel || index != lastIndex {
			t, err := r.tile(ctx, level, index, size)
			if err != nil {
				return nil, err
			}
			last, lastLevel, lastIndex = t, level, index
		}
		h := last.node(row, id.Index-index<<(8-row))
		if h == nil {
			return nil, fmt.Errorf("node %d of level %d is not complete in the tree of size %d", id.Index, id.Level, size)
		}
		out[i] = flat[i*HashSize : (i+1)*HashSize : (i+1)*HashSize]
		copy(out[i], h[:])
	}
	return out, nil
}
