package vault

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// An erasure must leave nothing of a row in the log either. A message has rows of
// many owners, so it is replaced: what still holds of it, deletions too, is
// published again as a change of its own, checked like every change against the
// newest state, and then the message is erased. Whoever applies the log later comes
// to the same rows, since the last message about a row decides and is never taken
// away without another of the same content after it. Until that one comes a row may
// be missing there; so who finds nothing looks for the newest first.
//
// It can be cut off anywhere and done again, by any node: the row that marks what is
// under way (p, q) goes last.

// clean erases the messages that have content of owners which does not hold any
// more. It returns the index rows of messages that are gone, to be deleted with the
// mark. Without a log there is nothing to do.
func (v *Vault) clean(owners ...[]byte) (done []kv, err error) {
	if v.shared == nil {
		return nil, nil
	}
	places := map[uint64][][]byte{}
	for _, o := range owners {
		names, err := v.allNames(append([]byte{rowIndex}, o...))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			seq, err := splitIndex(name)
			if err != nil {
				return nil, err
			}
			places[seq] = append(places[seq], name)
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(places)) {
		gone, err := v.replace(seq)
		if err != nil {
			return nil, err
		}
		if gone {
			for _, name := range places[seq] {
				done = append(done, kv{name: name})
			}
		}
	}
	return done, nil
}

// replace erases a message that has content which does not hold any more; gone says
// that there is no message there, now or before.
func (v *Vault) replace(seq uint64) (gone bool, err error) {
	s := v.shared
	body, err := s.log.Get(s.ctx, seq)
	if err != nil {
		return false, unavailable(err)
	}
	if body == nil {
		return true, nil
	}
	c, err := decodeChange(body)
	if err != nil {
		return false, err
	}
	over := false // some content does not hold
	o := &op{always: true, more: len(body)}
	o.check = func(txn *badger.Txn) (bool, error) {
		o.rows, over = nil, false
		var index []kv
		for _, r := range c.rows {
			if r.name[0] == rowIndex {
				continue
			}
			now, err := get(txn, r.name)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return false, err
			}
			owner := ownerOf(r)
			if holds := (now == nil) == (r.value == nil) && bytes.Equal(now, r.value); !holds {
				over = over || owner != nil
				continue
			}
			o.rows = append(o.rows, r)
			if owner != nil {
				index = append(index, kv{name: indexRow(owner, seq)})
			}
		}
		if !over || len(o.rows) == 0 {
			return true, nil
		}
		o.rows = append(o.rows, index...)
		return false, nil
	}
	if err := v.do(o); err != nil {
		return false, err
	}
	if !over {
		return false, nil
	}
	if err := s.log.Erase(s.ctx, seq); err != nil {
		return false, unavailable(err)
	}
	return true, nil
}

// allNames lists all rows whose names begin with prefix.
func (v *Vault) allNames(prefix []byte) (names [][]byte, err error) {
	return v.names(prefix, int(^uint(0)>>1))
}

func attemptOwner(a attemptName) []byte { return append([]byte{rowKey}, a[:]...) }

func objectOwner(n []byte) []byte { return append([]byte{rowObject}, n...) }

func piecesOwner(id [bodyIDSize]byte) []byte { return append([]byte{rowPiece}, id[:]...) }
