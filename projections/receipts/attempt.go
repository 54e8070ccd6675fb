package receipts

import (
	"encoding/binary"
	"errors"
	"fmt"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/kv"
)

// Attempt is the life of one action: its folded state, and the leaf index of
// each of its events that count. What its events share (tool, agent, subject) is
// in the receipt row of the first.
type Attempt struct {
	ID      string
	Indices []uint64 // one for each of State.Entries, ascending
	State   lifecycle.State
}

// First is the leaf index of the attempt event, by which attempts are ordered.
func (a *Attempt) First() uint64 { return a.Indices[0] }

// Last is the leaf index of the newest event.
func (a *Attempt) Last() uint64 { return a.Indices[len(a.Indices)-1] }

const attemptVersion = 1

func (a *Attempt) append(dst []byte) []byte {
	dst = append(dst, attemptVersion)
	dst = binary.AppendUvarint(dst, uint64(len(a.Indices)))
	last := uint64(0)
	for _, i := range a.Indices {
		dst = binary.AppendUvarint(dst, i-last)
		last = i
	}
	dst, _ = a.State.AppendBinary(dst) // never fails
	return dst
}

// size is an upper bound of the encoding's length.
func (a *Attempt) size() int { return 64 + 160*len(a.Indices) }

func parseAttempt(id string, b []byte) (*Attempt, error) {
	d := decoder{b: b}
	d.version(attemptVersion)
	n := d.uvarint()
	if d.bad || n == 0 || n > event.MaxRevision {
		return nil, errRow
	}
	a := &Attempt{ID: id, Indices: make([]uint64, n)}
	last := uint64(0)
	for i := range a.Indices {
		step := d.uvarint()
		if i > 0 && step == 0 {
			d.bad = true
		}
		last += step
		a.Indices[i] = last
	}
	if d.bad {
		return nil, errRow
	}
	if err := a.State.UnmarshalBinary(d.b); err != nil {
		return nil, fmt.Errorf("%w (%w)", errRow, err)
	}
	if len(a.State.Entries) != len(a.Indices) {
		return nil, errRow
	}
	return a, nil
}

// Reader is what rows are read from: a snapshot or a batch.
type Reader interface {
	Get(key []byte) ([]byte, error)
}

// ReadAttempt returns an attempt, or kv.ErrNotFound.
func ReadAttempt(r Reader, id string) (*Attempt, error) {
	if _, ok := event.ShardOfAttempt(id); !ok {
		return nil, kv.ErrNotFound
	}
	b, err := r.Get(attemptKey(id))
	if err != nil {
		return nil, err
	}
	a, err := parseAttempt(id, b)
	if err != nil {
		return nil, fmt.Errorf("attempt %s: %w", id, err)
	}
	return a, nil
}

// ReadRow returns the receipt row at a leaf index, or kv.ErrNotFound.
func ReadRow(r Reader, index uint64) (Row, error) {
	b, err := r.Get(RowKey(index))
	if err != nil {
		return Row{}, err
	}
	row, err := ParseRow(index, b)
	if err != nil {
		return row, fmt.Errorf("receipt at leaf %d: %w", index, err)
	}
	return row, nil
}

// ReadEvent returns the receipt row to which an event id leads, or
// kv.ErrNotFound. The caller compares digests: rows are only as good as the disk.
func ReadEvent(r Reader, d event.Digest) (Row, error) {
	b, err := r.Get(EventKey(d))
	if err != nil {
		return Row{}, err
	}
	index, rest, ok := kv.CutUint64(b)
	if !ok || len(rest) != 0 {
		return Row{}, fmt.Errorf("event %s: %w", d.EventID(), errRow)
	}
	row, err := ReadRow(r, index)
	if errors.Is(err, kv.ErrNotFound) {
		return row, fmt.Errorf("event %s: leaf %d has no row: %w", d.EventID(), index, errRow)
	}
	return row, err
}
