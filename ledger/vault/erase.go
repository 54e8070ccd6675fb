package vault

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// maxDeletes bounds the rows that one op deletes.
const maxDeletes = 256

// Erase destroys the key and the bodies of an attempt and leaves a tombstone:
// from then on every call for the attempt is [ErrErased], for ever. It is
// durable when Erase returns; after an error, call it again. Erasing again is
// no error. An attempt that the vault never had is [ErrNotFound] and gets no
// tombstone. The package comment says what stays on the medium.
func (v *Vault) Erase(attemptID string) error {
	if err := checkAttemptID(attemptID); err != nil {
		return err
	}
	a := v.seal.attempt(attemptID)
	o, err := v.tombstone(a)
	if err != nil {
		return fmt.Errorf("erase %s: %w", attemptID, err)
	}
	// The commit point: once this op is written nobody gets the key or a body
	// any more and no body can be added. A crash leaves the p row, from which
	// finishErasures deletes the rest at the next Open.
	err = v.do(o)
	v.forget(attemptID) // whatever came of it
	if err == nil {
		err = v.finishErasure(a)
	}
	if err == nil {
		err = v.Sync()
	}
	if err != nil {
		return fmt.Errorf("erase %s: %w", attemptID, err)
	}
	return nil
}

// tombstone replaces the key of an attempt by the tombstone and notes that its
// bodies are to be deleted.
func (v *Vault) tombstone(a attemptName) (*op, error) {
	name := row(rowKey, a)
	sealed, err := v.sealState(name, stateErased, [KeySize]byte{})
	if err != nil {
		return nil, err
	}
	return &op{
		always: true,
		rows:   []kv{{name, sealed}, {row(rowPending, a), []byte{sealVersion}}},
		check: func(txn *badger.Txn) (bool, error) {
			_, err := v.readState(txn, name)
			if errors.Is(err, ErrErased) {
				return true, nil
			}
			return false, err
		},
	}, nil
}

// finishErasure deletes the bodies of an attempt with a tombstone, then its p
// row.
func (v *Vault) finishErasure(a attemptName) error {
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
