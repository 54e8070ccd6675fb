package vault

import (
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// maxDeletes bounds the rows that one op deletes.
const maxDeletes = 256

// finishErasure deletes the bodies of attempts that were redacted or purged, ends
// their references to evidence, and then deletes their p rows.
func (v *Vault) finishErasure(list ...attemptName) error {
	var owners [][]byte
	for _, a := range list {
		if err := v.empty(a); err != nil {
			return err
		}
		owners = append(owners, attemptOwner(a))
	}
	rows, err := v.clean(owners...)
	if err != nil {
		return err
	}
	for _, a := range list {
		rows = append(rows, kv{name: row(rowPending, a)})
	}
	return v.deleteAll(rows)
}

// empty deletes the bodies of an attempt and ends its references to evidence.
func (v *Vault) empty(a attemptName) error {
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
	return nil
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
		var list []attemptName
		for _, name := range names {
			if len(name) != 1+nameSize {
				return fmt.Errorf("%w: a row of kind %q has a name of %d bytes", ErrCorrupt, name[0], len(name))
			}
			list = append(list, attemptName(name[1:]))
		}
		if err := v.finishErasure(list...); err != nil {
			return err
		}
		if err := v.Sync(); err != nil {
			return err
		}
	}
}

func (v *Vault) deleteRows(names [][]byte) error {
	var rows []kv
	for _, name := range names {
		rows = append(rows, kv{name: name})
	}
	return v.deleteAll(rows)
}

// deleteAll deletes rows, maxDeletes at once, the last ones last.
func (v *Vault) deleteAll(rows []kv) error {
	for some := range slices.Chunk(rows, maxDeletes) {
		if err := v.do(&op{always: true, rows: some}); err != nil {
			return err
		}
	}
	return nil
}

// names lists at most n rows whose names begin with prefix.
func (v *Vault) names(prefix []byte, n int) (names [][]byte, err error) {
	err = v.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		names = nil
		for it.Rewind(); it.Valid() && len(names) < n; it.Next() {
			names = append(names, it.Item().KeyCopy(nil))
		}
		return nil
	})
	return names, err
}
