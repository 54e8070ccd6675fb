package kv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Snapshot is the rows at one cursor; later batches do not change it. It is not
// safe for concurrent use, and Close must follow.
type Snapshot struct {
	d      *DB
	txn    *badger.Txn
	cursor Cursor
	iters  []*Iter
	done   bool
}

// Snapshot returns the rows as they are.
func (d *DB) Snapshot() (*Snapshot, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	s := &Snapshot{d: d, txn: d.db.NewTransaction(false)}
	cursor, err := readCursor(s)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.cursor = cursor
	return s, nil
}

// Cursor tells which leaves the rows are folded from.
func (s *Snapshot) Cursor() Cursor { return s.cursor }

// Get returns a row, or ErrNotFound. The value must not be changed.
func (s *Snapshot) Get(key []byte) ([]byte, error) { return get(s.txn, key) }

// Close ends the snapshot and its iterators.
func (s *Snapshot) Close() {
	if s.done {
		return
	}
	s.done = true
	for _, it := range s.iters {
		it.it.Close()
	}
	s.txn.Discard()
	s.d.release()
}

// Iter walks over the rows whose keys have a prefix, in key order or against it.
// It is positioned by Seek and ends with its snapshot.
type Iter struct {
	it      *badger.Iterator
	prefix  []byte
	reverse bool
}

// Iter makes an iterator.
func (s *Snapshot) Iter(prefix []byte, reverse bool) *Iter {
	opts := badger.IteratorOptions{Reverse: reverse, Prefix: prefix}
	it := &Iter{it: s.txn.NewIterator(opts), prefix: prefix, reverse: reverse}
	s.iters = append(s.iters, it)
	return it
}

// Seek goes to the first row whose key is prefix ‖ rest or comes after it, in the
// direction of the iterator. It reports whether there is one.
func (i *Iter) Seek(rest []byte) bool {
	key := make([]byte, 0, len(i.prefix)+len(rest))
	key = append(append(key, i.prefix...), rest...)
	i.it.Seek(key)
	return i.Valid()
}

// First goes to the first row in the direction of the iterator.
func (i *Iter) First() bool {
	if !i.reverse {
		return i.Seek(nil)
	}
	// Rows of this package have keys of fewer than 1,024 bytes, and none is
	// all ones.
	return i.Seek(bytes.Repeat([]byte{0xFF}, 16))
}

// Next goes to the next row and reports whether there is one.
func (i *Iter) Next() bool {
	i.it.Next()
	return i.Valid()
}

// Valid reports whether the iterator is at a row.
func (i *Iter) Valid() bool { return i.it.ValidForPrefix(i.prefix) }

// Key is the key without the prefix, valid until the next move.
func (i *Iter) Key() []byte { return i.it.Item().Key()[len(i.prefix):] }

// Value is the row, valid until the next move. A row whose bytes changed on disk
// is ErrDamaged.
func (i *Iter) Value() ([]byte, error) { return unseal(i.it.Item()) }

// SizeError says that rows of another size are there than were asked for.
type SizeError struct{ Want, Have uint64 }

func (e *SizeError) Error() string {
	return fmt.Sprintf("the views are at tree size %d, not %d", e.Have, e.Want)
}

// Digest is the view digest at a tree size, which must be that of the snapshot
// (*SizeError if not): SHA-256 over lp(key) ‖ lp(value) of every derived row in
// key order, lp(x) being the length of x in 8 bytes, big-endian, and x. It reads
// all rows, about a million a second.
func (s *Snapshot) Digest(ctx context.Context, size uint64) (sum [32]byte, err error) {
	if size != s.cursor.Size {
		return sum, &SizeError{Want: size, Have: s.cursor.Size}
	}
	h := sha256.New()
	var buf []byte
	n := 0
	it := s.Iter(nil, false)
	for ok := it.Seek([]byte{derivedFrom}); ok; ok = it.Next() {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return sum, ctx.Err()
		}
		v, err := it.Value()
		if err != nil {
			return sum, err
		}
		k := it.Key()
		buf = binary.BigEndian.AppendUint64(buf[:0], uint64(len(k)))
		buf = append(buf, k...)
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(v)))
		buf = append(buf, v...)
		h.Write(buf)
	}
	h.Sum(sum[:0])
	return sum, nil
}
