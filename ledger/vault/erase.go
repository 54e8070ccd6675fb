package vault

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// maxDeletes bounds the rows that one op deletes.
const maxDeletes = 256

// finishErasure deletes the bodies of an attempt that was redacted or purged,
// ends its references to evidence, and then deletes its p row.
func (v *Vault) finishErasure(a attemptName) error {
	if err := v.endAllRefs(a); err != nil {
		return err
	}
	for _, kind := range []byte{rowBody, rowChunk} {
		for {
			names, err := v.names(row(kind, a), maxDeletes)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				break
			}
			if err := v.deleteRows(names); err != nil {
				return err
			}
		}
	}
	return v.deleteRows([][]byte{row(rowPending, a)})
}

// finishErasures finishes what a crash interrupted.
func (v *Vault) finishErasures() error {
	for {
		names, err := v.names([]byte{rowPending}, maxDeletes)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if len(name) != 1+nameSize {
				return fmt.Errorf("%w: a row of kind %q has a name of %d bytes", ErrCorrupt, name[0], len(name))
			}
			if err := v.finishErasure(attemptName(name[1:])); err != nil {
				return err
			}
		}
		if err := v.Sync(); err != nil {
			return err
		}
	}
}

func (v *Vault) deleteRows(names [][]byte) error {
	o := &op{always: true}
	for _, name := range names {
		o.rows = append(o.rows, kv{name: name})
	}
	return v.do(o)
}

// names lists at most n rows whose names begin with prefix.
func (v *Vault) names(prefix []byte, n int) (names [][]byte, err error) {
	err = v.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid() && len(names) < n; it.Next() {
			names = append(names, it.Item().KeyCopy(nil))
		}
		return nil
	})
	return names, err
}
