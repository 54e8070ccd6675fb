package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Cursor is how far the rows go: they are the fold of leaves 0 … Size−1 of the
// tree with this root. Hashes is the compact range of that tree (the roots of
// its perfect subtrees, left to right), from which a follower goes on.
type Cursor struct {
	Size   uint64
	Root   [32]byte
	Hashes [][32]byte
	// Under is the size of a published tree, at least Size, under whose root the
	// leaves were proven: ask the log for them at this size, since it need not
	// have a tree of Size. It depends on when checkpoints came, so it is outside
	// of the digest.
	Under uint64
}

var errCursor = fmt.Errorf("%w: it is no cursor", ErrDamaged)

func (c Cursor) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, c.Size)
	dst = append(dst, c.Root[:]...)
	for _, h := range c.Hashes {
		dst = append(dst, h[:]...)
	}
	return dst
}

func parseCursor(b []byte) (c Cursor, err error) {
	if len(b) < 40 {
		return c, errCursor
	}
	c.Size = binary.BigEndian.Uint64(b)
	copy(c.Root[:], b[8:])
	b = b[40:]
	if len(b) != 32*bits.OnesCount64(c.Size) {
		return c, errCursor
	}
	c.Hashes = make([][32]byte, len(b)/32)
	for i := range c.Hashes {
		copy(c.Hashes[i][:], b[32*i:])
	}
	return c, nil
}

// readCursor returns the cursor of the empty tree if nothing was committed yet.
func readCursor(r interface{ Get([]byte) ([]byte, error) }) (Cursor, error) {
	row, err := r.Get(keyCursor)
	if errors.Is(err, ErrNotFound) {
		return Cursor{Root: sha256.Sum256(nil)}, nil
	}
	if err != nil {
		return Cursor{}, err
	}
	c, err := parseCursor(row)
	if err != nil {
		return c, err
	}
	if row, err = r.Get(keyUnder); err != nil {
		return c, err
	}
	var ok bool
	if c.Under, row, ok = CutUint64(row); !ok || len(row) != 0 || c.Under < c.Size {
		return c, errCursor
	}
	return c, nil
}
