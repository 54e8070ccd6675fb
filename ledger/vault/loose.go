package vault

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Contents of a q row. Without a log it is always the first: whoever opens the vault
// deletes the pieces. With one, other nodes may be writing:
//
//	1                 pieces of nobody
//	2 ‖ vault (16)    being written by that vault, which alone may take them for dead
//	3 ‖ object (32)   pieces of an object that ended, whose head is in the log as well
const (
	looseNobody  byte = sealVersion
	looseWriting byte = 2
	looseObject  byte = 3
)

func (v *Vault) looseWritten() []byte {
	if v.shared == nil {
		return []byte{looseNobody}
	}
	return append([]byte{looseWriting}, v.shared.id[:]...)
}

func (v *Vault) looseEnded(n objectName) []byte {
	if v.shared == nil {
		return []byte{looseNobody}
	}
	return append([]byte{looseObject}, n[:]...)
}

// dropPieces deletes pieces that belong to no head, and then the mark that says
// so; without the mark it does nothing. In a vault that failed or was closed they
// stay; Open deletes them.
func (v *Vault) dropPieces(id [bodyIDSize]byte) error {
	err := v.dropMarked(id)
	switch {
	case errors.Is(err, ErrFailed), errors.Is(err, ErrClosed):
		return nil
	case err != nil && v.shared != nil:
		v.shared.left.Store(true)
	}
	return err
}

func (v *Vault) dropMarked(id [bodyIDSize]byte) error {
	var mark []byte // nil once it is gone
	look := func(txn *badger.Txn) (err error) {
		mark, err = get(txn, looseRow(id))
		return ignore(err)
	}
	check := func(txn *badger.Txn) (bool, error) {
		err := look(txn)
		return mark == nil, err
	}
	if err := v.look(look); err != nil || mark == nil {
		return err
	}
	for {
		names, err := v.names(append([]byte{rowPiece}, id[:]...), maxDeletes)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			break
		}
		o := &op{always: true, check: check}
		for _, name := range names {
			o.rows = append(o.rows, kv{name: name})
		}
		if err := v.do(o); err != nil || mark == nil {
			return err
		}
	}
	if v.shared == nil {
		return v.deleteRows([][]byte{looseRow(id)})
	}
	owners := [][]byte{piecesOwner(id)}
	if len(mark) == 1+nameSize && mark[0] == looseObject {
		owners = append(owners, objectOwner(mark[1:]))
	}
	rows, err := v.clean(owners...)
	if err != nil {
		return err
	}
	return v.deleteAll(append(rows, kv{name: looseRow(id)}))
}

// dropLoose deletes all pieces that a crash left without a head; at the start also
// those that this vault was writing when it ended.
func (v *Vault) dropLoose(start bool) error {
	var at []byte
	for {
		var list [][bodyIDSize]byte
		err := v.look(func(txn *badger.Txn) error {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{rowLoose}})
			defer it.Close()
			for it.Seek(append([]byte{rowLoose}, at...)); it.Valid() && len(list) < maxDeletes; it.Next() {
				name := it.Item().KeyCopy(nil)
				if len(name) != 1+bodyIDSize {
					return fmt.Errorf("%w: a row of kind %q has a name of %d bytes", ErrCorrupt, name[0], len(name))
				}
				at = append(bytes.Clone(name[1:]), 0)
				mark, err := it.Item().ValueCopy(nil)
				if err != nil {
					return fmt.Errorf("%w: read: %w", ErrCorrupt, err)
				}
				if len(mark) > 0 && mark[0] == looseWriting && (!start || v.shared == nil || !bytes.Equal(mark[1:], v.shared.id[:])) {
					continue
				}
				list = append(list, [bodyIDSize]byte(name[1:]))
			}
			return nil
		})
		if err != nil || len(list) == 0 {
			return err
		}
		for _, id := range list {
			if err := v.dropPieces(id); err != nil {
				return err
			}
		}
	}
}
