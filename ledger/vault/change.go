package vault

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A message of the log ([Replica]) is what one group of calls changed:
//
//	version (1) ‖ kind (1) ‖ for each row: length of its name ‖ name ‖
//	0 for a deletion, or 1 + length of its value ‖ value
//
// with lengths as unsigned varints. Names and values are those of the rows, so
// values are sealed and names keyed. Kinds:
//
//	r  rows that calls changed
//	b  a vault that was there before the log begins to give it its rows; one row,
//	   named by the vault's own name, without a value
//	s  rows of that vault, in the order of their names
//	e  it has given all of them
type change struct {
	kind byte
	rows []kv
}

const (
	changeVersion      = 1
	changeRows    byte = 'r'
	changeBegin   byte = 'b'
	changeSeed    byte = 's'
	changeEnd     byte = 'e'

	// maxRowName bounds the name of a row; the longest are those of references.
	maxRowName = 1 + 3*nameSize
)

func (c change) encode() []byte {
	n := 2
	for _, r := range c.rows {
		n += 2*binary.MaxVarintLen32 + len(r.name) + len(r.value)
	}
	out := append(make([]byte, 0, n), changeVersion, c.kind)
	for _, r := range c.rows {
		out = binary.AppendUvarint(out, uint64(len(r.name)))
		out = append(out, r.name...)
		if r.value == nil {
			out = append(out, 0)
			continue
		}
		out = binary.AppendUvarint(out, uint64(len(r.value))+1)
		out = append(out, r.value...)
	}
	return out
}

// decodeChange accepts what encode gives and rows that may be in a log; else
// [ErrCorrupt]. The rows share in's memory.
func decodeChange(in []byte) (c change, err error) {
	bad := fmt.Errorf("%w: a message of the log of %d bytes cannot be read", ErrCorrupt, len(in))
	if len(in) < 2 || len(in) > MaxChange || in[0] != changeVersion {
		return change{}, bad
	}
	c.kind, in = in[1], in[2:]
	take := func(n uint64) []byte {
		if n > uint64(len(in)) {
			err = bad
			return nil
		}
		out := in[:n:n]
		in = in[n:]
		return out
	}
	number := func() uint64 {
		n, size := binary.Uvarint(in)
		if size <= 0 {
			err = bad
			return 0
		}
		in = in[size:]
		return n
	}
	for len(in) > 0 && err == nil {
		r := kv{name: take(number())}
		if n := number(); n > 0 && err == nil {
			r.value = take(n - 1)
		}
		c.rows = append(c.rows, r)
	}
	if err != nil {
		return change{}, err
	}
	switch {
	case c.kind == changeRows, c.kind == changeSeed:
		for _, r := range c.rows {
			if !travels(r) {
				return change{}, bad
			}
		}
	case c.kind == changeBegin && len(c.rows) == 1 && len(c.rows[0].name) == vaultIDSize && c.rows[0].value == nil:
	case c.kind == changeEnd && len(c.rows) == 0:
	default:
		return change{}, bad
	}
	return c, nil
}

// travels tells whether a row may be in a message. Of the index of messages only
// deletions are: every vault makes its own.
func travels(r kv) bool {
	if len(r.name) == 0 || len(r.name) > maxRowName {
		return false
	}
	switch r.name[0] {
	case rowMeta, rowShared:
		return false
	case rowIndex:
		return r.value == nil
	}
	return rowKinds[r.name[0]]
}

// rowKinds are the rows that all vaults of a log have.
var rowKinds = map[byte]bool{
	rowKey: true, rowBody: true, rowChunk: true, rowPending: true, rowObject: true,
	rowPiece: true, rowRef: true, rowBackRef: true, rowLoose: true,
}

// The index tells which messages have rows of an owner, so that an erasure finds
// them: s ‖ owner ‖ sequence (8). An owner is the attempt, the object or the id of
// pieces that a row with content is about; rows without content have none.

// ownerOf is nil for a row that has no content, or whose name is too short.
func ownerOf(r kv) []byte {
	if r.value == nil || len(r.name) == 0 {
		return nil
	}
	kind, n := r.name[0], nameSize
	switch kind {
	case rowKey, rowBody, rowChunk, rowRef:
		kind = rowKey
	case rowObject:
	case rowPiece:
		n = bodyIDSize
	default:
		return nil
	}
	if len(r.name) < 1+n {
		return nil
	}
	return append([]byte{kind}, r.name[1:1+n]...)
}

func indexRow(owner []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Concat([]byte{rowIndex}, owner), seq)
}

// splitIndex takes the sequence from the name of an s row.
func splitIndex(name []byte) (seq uint64, err error) {
	if len(name) < 1+8 {
		return 0, fmt.Errorf("%w: a row of kind %q has a name of %d bytes", ErrCorrupt, name[0], len(name))
	}
	return binary.BigEndian.Uint64(name[len(name)-8:]), nil
}
