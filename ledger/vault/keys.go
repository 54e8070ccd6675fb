package vault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// KeySize is the length of an attempt's key in bytes.
const KeySize = 32

const maxAttemptID = 128

// States in a k row. All contents have the same length.
const (
	stateLive     byte = 1
	stateErased   byte = 2
	stateRedacted byte = 3 // the key is still there
)

// Put stores the key of an attempt. Storing the same key again is no error;
// another key for the same attempt is [ErrConflict], any key for an erased
// attempt [ErrErased]. See [Vault.Sync] for durability.
func (v *Vault) Put(attemptID string, key [KeySize]byte) error {
	if err := checkAttemptID(attemptID); err != nil {
		return err
	}
	before := v.erasureCount()
	name := row(rowKey, v.seal.attempt(attemptID))
	sealed, err := v.sealState(name, stateLive, key)
	if err != nil {
		return fmt.Errorf("keep key of %s: %w", attemptID, err)
	}
	err = v.do(&op{
		rows: []kv{{name, sealed}},
		check: func(txn *badger.Txn) (bool, error) {
			have, err := v.readKey(txn, name)
			switch {
			case errors.Is(err, ErrNotFound):
				return false, nil
			case err != nil:
				return false, err
			case have != key:
				return false, ErrConflict
			}
			return true, nil
		},
	})
	if err != nil {
		return fmt.Errorf("keep key of %s: %w", attemptID, err)
	}
	v.remember(attemptID, key, before)
	return nil
}

// PutNew stores the keys of attempts that are not in use yet, all or none of them;
// one that has a key is [ErrConflict]. They take about 120 bytes each and go into one
// message of a log; see [MaxChange]. See [Vault.Sync] for durability.
func (v *Vault) PutNew(keys map[string][KeySize]byte) error {
	before := v.erasureCount()
	rows := make([]kv, 0, len(keys))
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		if err := checkAttemptID(id); err != nil {
			return err
		}
		name := row(rowKey, v.seal.attempt(id))
		sealed, err := v.sealState(name, stateLive, keys[id])
		if err != nil {
			return fmt.Errorf("keep key of %s: %w", id, err)
		}
		rows = append(rows, kv{name, sealed})
	}
	err := v.do(&op{
		rows: rows,
		check: func(txn *badger.Txn) (bool, error) {
			for _, r := range rows {
				if _, err := get(txn, r.name); err == nil {
					return false, ErrConflict
				} else if !errors.Is(err, ErrNotFound) {
					return false, err
				}
			}
			return len(rows) == 0, nil
		},
	})
	if err != nil {
		return fmt.Errorf("keep keys of %d attempts: %w", len(keys), err)
	}
	for id, key := range keys {
		v.remember(id, key, before)
	}
	return nil
}

// Key gives the key of an attempt, also of a redacted one: [ErrNotFound] if there
// is none, [ErrErased] if it was purged.
func (v *Vault) Key(attemptID string) ([KeySize]byte, error) {
	if err := checkAttemptID(attemptID); err != nil {
		return [KeySize]byte{}, err
	}
	if key, ok := v.cache.Get(attemptID); ok {
		if err := v.enter(); err != nil {
			return [KeySize]byte{}, fmt.Errorf("key of %s: %w", attemptID, err)
		}
		v.leave()
		return key, nil
	}
	before := v.erasureCount()
	var key [KeySize]byte
	err := v.view(func(txn *badger.Txn) (err error) {
		key, err = v.readKey(txn, row(rowKey, v.seal.attempt(attemptID)))
		return err
	})
	if err != nil {
		return [KeySize]byte{}, fmt.Errorf("key of %s: %w", attemptID, err)
	}
	v.remember(attemptID, key, before)
	return key, nil
}

// remember caches a key unless something was erased since before: the key may
// have been read just before its own erasure.
func (v *Vault) remember(attemptID string, key [KeySize]byte, before uint64) {
	v.cacheMu.Lock()
	defer v.cacheMu.Unlock()
	if v.erasures == before {
		v.cache.Add(strings.Clone(attemptID), key)
	}
}

func (v *Vault) forget(attemptID string) {
	v.cacheMu.Lock()
	defer v.cacheMu.Unlock()
	v.erasures++
	v.cache.Remove(attemptID)
}

// forgetAll is forget for an attempt that is not known by its id.
func (v *Vault) forgetAll() {
	v.cacheMu.Lock()
	defer v.cacheMu.Unlock()
	v.erasures++
	v.cache.Purge()
}

func (v *Vault) erasureCount() uint64 {
	v.cacheMu.Lock()
	defer v.cacheMu.Unlock()
	return v.erasures
}

func (v *Vault) sealState(name []byte, state byte, key [KeySize]byte) ([]byte, error) {
	return v.seal.lock(v.seal.rows, name, append([]byte{state}, key[:]...))
}

// readKey gives the key in a k row, of a redacted attempt too: [ErrNotFound] or
// [ErrErased] if there is none.
func (v *Vault) readKey(txn *badger.Txn, name []byte) (key [KeySize]byte, err error) {
	key, p, err := v.readPrivacy(txn, name)
	if err == nil && p == Purged {
		err = ErrErased
	}
	return key, err
}

// readState gives the key of an attempt whose bodies may be read and added:
// [ErrNotFound], [ErrErased] or [ErrRedacted] if they may not.
func (v *Vault) readState(txn *badger.Txn, name []byte) (key [KeySize]byte, err error) {
	key, p, err := v.readPrivacy(txn, name)
	switch {
	case err != nil:
		return key, err
	case p == Purged:
		return key, ErrErased
	case p == Redacted:
		return [KeySize]byte{}, ErrRedacted
	}
	return key, nil
}

// readPrivacy reads a k row. The key of a purged attempt is zero.
func (v *Vault) readPrivacy(txn *badger.Txn, name []byte) (key [KeySize]byte, p Privacy, err error) {
	sealed, err := get(txn, name)
	if err != nil {
		return key, 0, err
	}
	content, err := v.seal.unlock(v.seal.rows, name, sealed)
	if err != nil {
		return key, 0, err
	}
	if len(content) != 1+KeySize {
		return key, 0, fmt.Errorf("%w: a key row has %d bytes", ErrCorrupt, len(content))
	}
	switch content[0] {
	case stateLive:
		return [KeySize]byte(content[1:]), Active, nil
	case stateRedacted:
		return [KeySize]byte(content[1:]), Redacted, nil
	case stateErased:
		return key, Purged, nil
	}
	return key, 0, fmt.Errorf("%w: a key row has state %d", ErrCorrupt, content[0])
}

// get reads a row; [ErrNotFound] if there is none.
func get(txn *badger.Txn, name []byte) ([]byte, error) {
	item, err := txn.Get(name)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	} else if err != nil {
		return nil, fmt.Errorf("%w: read: %w", ErrCorrupt, err)
	}
	val, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: read: %w", ErrCorrupt, err)
	}
	return val, nil
}

func checkAttemptID(id string) error {
	if id == "" {
		return fmt.Errorf("%w: empty attempt id", ErrInvalid)
	}
	if len(id) > maxAttemptID {
		return fmt.Errorf("%w: attempt id of %d bytes, at most %d", ErrTooLarge, len(id), maxAttemptID)
	}
	return nil
}
