package tiles

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Hash is a node or leaf hash of the tree: RFC 6962 with SHA-256.
type Hash [HashSize]byte

// LeafHashOf is the hash of a leaf with these bytes: SHA-256(0x00 ‖ data).
func LeafHashOf(data []byte) Hash {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write(data)
	var out Hash
	h.Sum(out[:0])
	return out
}

// parentHash is SHA-256(0x01 ‖ l ‖ r).
func parentHash(l, r *Hash) Hash {
	var b [1 + 2*HashSize]byte
	b[0] = 1
	copy(b[1:], l[:])
	copy(b[1+HashSize:], r[:])
	return sha256.Sum256(b[:])
}

// DamageError reports a stored tile or bundle whose form is not that of
// tlog-tiles, or whose content does not fit what the tree says about it.
type DamageError struct {
	Path    Path
	Problem string
}

func (e *DamageError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.Path, e.Problem) }

// hashTile is a parsed tile with the inner nodes that its hashes determine:
// row r (0 to 7) holds the nodes r levels above the tile's own, complete
// subtrees only.
type hashTile struct {
	nodes []Hash // row after row
	row   [9]int // where each row starts; row[8] is the end
}

// node is the node of row r at position i, nil if the tile does not reach it.
func (t *hashTile) node(r int, i uint64) *Hash {
	if i >= uint64(t.row[r+1]-t.row[r]) {
		return nil
	}
	return &t.nodes[t.row[r]+int(i)]
}

func (t *hashTile) bytes() int { return len(t.nodes)*HashSize + 128 }

// parseTile reads the first width hashes of data, which is the content of got.
func parseTile(got Path, data []byte, width int) (*hashTile, error) {
	if len(data) != got.Width*HashSize {
		return nil, &DamageError{Path: got, Problem: fmt.Sprintf("it has %d bytes, expected %d (%d hashes of %d)", len(data), got.Width*HashSize, got.Width, HashSize)}
	}
	t := &hashTile{}
	for r, w := 0, width; r < 8; r, w = r+1, w/2 {
		t.row[r+1] = t.row[r] + w
	}
	t.nodes = make([]Hash, t.row[8])
	for i := range width {
		copy(t.nodes[i][:], data[i*HashSize:])
	}
	for r := 1; r < 8; r++ {
		below, row := t.nodes[t.row[r-1]:t.row[r]], t.nodes[t.row[r]:t.row[r+1]]
		for i := range row {
			row[i] = parentHash(&below[2*i], &below[2*i+1])
		}
	}
	return t, nil
}

// bundle is a parsed entry bundle. The entries share one array.
type bundle struct {
	from    Path // what it was read from
	entries [][]byte
	size    int
}

func (b *bundle) bytes() int { return b.size + len(b.entries)*24 + 128 }

// parseBundle reads the first width entries of data, which is the content of
// got: exactly got.Width entries, each with its length as a big-endian uint16
// before it, and nothing behind the last.
func parseBundle(got Path, data []byte, width int) (*bundle, error) {
	damage := func(i int, format string, args ...any) error {
		return &DamageError{Path: got, Problem: fmt.Sprintf("entry %d of %d (leaf %d): ", i, got.Width, got.Index*Width+uint64(i)) + fmt.Sprintf(format, args...)}
	}
	b := &bundle{from: got, entries: make([][]byte, 0, width), size: len(data)}
	rest := data
	for i := range got.Width {
		if len(rest) < 2 {
			return nil, damage(i, "the file ends with %d bytes where a length of 2 is expected", len(rest))
		}
		n := int(binary.BigEndian.Uint16(rest))
		rest = rest[2:]
		if len(rest) < n {
			return nil, damage(i, "the file ends after %d of its %d bytes", len(rest), n)
		}
		if i < width {
			b.entries = append(b.entries, rest[:n:n])
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return nil, &DamageError{Path: got, Problem: fmt.Sprintf("%d bytes follow its last entry, number %d", len(rest), got.Width)}
	}
	return b, nil
}
