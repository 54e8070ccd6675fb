package audit

import (
	"bytes"
	"crypto/sha256"
	"errors"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/tiles"
)

// topLevel is the highest tile level: 256^8 leaves are more than a size can say.
const topLevel = 7

// node is SHA-256(0x01 ‖ l ‖ r).
func node(l, r tiles.Hash) tiles.Hash {
	var b [1 + 2*tiles.HashSize]byte
	b[0] = 1
	copy(b[1:], l[:])
	copy(b[1+tiles.HashSize:], r[:])
	return sha256.Sum256(b[:])
}

// subtree is the root over 1, 2, 4 … 256 hashes.
func subtree(hashes []tiles.Hash) tiles.Hash {
	var row [tiles.Width / 2]tiles.Hash
	if len(hashes) == 1 {
		return hashes[0]
	}
	n := len(hashes) / 2
	for i := range n {
		row[i] = node(hashes[2*i], hashes[2*i+1])
	}
	for n > 1 {
		n /= 2
		for i := range n {
			row[i] = node(row[2*i], row[2*i+1])
		}
	}
	return row[0]
}

// edgeNodes appends the roots of the perfect subtrees that a partial tile's
// hashes make up, the largest first.
func edgeNodes(dst, hashes []tiles.Hash) []tiles.Hash {
	for bit := tiles.Width / 2; bit > 0; bit /= 2 {
		if len(hashes)&bit != 0 {
			// All larger subtrees stand before this one.
			from := len(hashes) &^ (2*bit - 1)
			dst = append(dst, subtree(hashes[from:from+bit]))
		}
	}
	return dst
}

// width is how many hashes the tile has in a tree of that size.
func width(level int, index, size uint64) int {
	nodes := size >> (8 * level)
	switch full := nodes / tiles.Width; {
	case index < full:
		return tiles.Width
	case index == full:
		return int(nodes % tiles.Width)
	}
	return 0
}

// splitTile reads the hashes of a tile, the first w of those that are there.
func splitTile(data []byte, got tiles.Path, w int) ([]tiles.Hash, error) {
	if len(data) != got.Width*tiles.HashSize || w > got.Width {
		return nil, &tiles.DamageError{Path: got, Problem: "its length is not that of its hashes"}
	}
	out := make([]tiles.Hash, w)
	for i := range out {
		copy(out[i][:], data[i*tiles.HashSize:])
	}
	return out, nil
}

func joinTile(hashes []tiles.Hash) []byte {
	out := make([]byte, 0, len(hashes)*tiles.HashSize)
	for i := range hashes {
		out = append(out, hashes[i][:]...)
	}
	return out
}

var ranges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

var errRange = errors.New("the stored compact range is damaged")

// newRange makes the compact range of the first size leaves.
func newRange(size uint64, hashes []tiles.Hash) (*compact.Range, error) {
	list := make([][]byte, len(hashes))
	for i := range hashes {
		list[i] = bytes.Clone(hashes[i][:])
	}
	r, err := ranges.NewRange(0, size, list)
	if err != nil {
		return nil, errRange
	}
	return r, nil
}

func rangeHashes(r *compact.Range) []tiles.Hash {
	out := make([]tiles.Hash, 0, len(r.Hashes()))
	for _, h := range r.Hashes() {
		out = append(out, tiles.Hash(h))
	}
	return out
}
