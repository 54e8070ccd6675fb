package vault

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// maxDeletes bounds the rows that one op deletes.
const maxDeletes = 256

// finishErasure deletes the bodies of attempts that were redacted or purged, ends
// their references to evidence, and then deletes their p rows.
func (v *Vault) finishErasure(list ...attemptName) error {
	before := make([]Privacy, len(list))
	if err := v.look(func(txn *badger.Txn) (err error) {
		for i, a := range list {
			if before[i], err = v.privacyOf(txn, a); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := v.each(len(list), func(i int) error { return v.empty(list[i]) }); err != nil {
		return err
	}
	var owners [][]byte
	for _, a := range list {
		owners = append(owners, attemptOwner(a))
	}
	rows, err := v.clean(owners...)
	if err == nil {
		err = v.deleteAll(rows)
	}
	if err != nil {
		return err
	}
	o := &op{always: true}
	o.check = func(txn *badger.Txn) (bool, error) {
		o.rows = nil
		for i, a := range list {
			// One that was redacted and is purged by now has more to be done.
			if now, err := v.privacyOf(txn, a); err != nil {
				return false, err
			} else if now == before[i] {
				o.rows = append(o.rows, kv{name: row(rowPending, a)})
			}
		}
		return len(o.rows) == 0, nil
	}
	return v.do(o)
}

// privacyOf is the state of an attempt, 0 if it was never in the vault.
func (v *Vault) privacyOf(txn *badger.Txn, a attemptName) (Privacy, error) {
	_, p, err := v.readPrivacy(txn, row(rowKey, a))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return p, err
}

// atOnce is how many calls about several attempts run side by side.
const atOnce = 32

// each calls f for 0 to n−1 and returns the first error. With a log they run side by
// side, so that they share messages of it.
func (v *Vault) each(n int, f func(int) error) error {
	if v.shared == nil {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	errs := make([]error, min(n, atOnce))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
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
