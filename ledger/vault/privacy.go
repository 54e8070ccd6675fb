package vault

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// Privacy is what the vault still has of an attempt. It only grows: nothing leads
// from a state to one before it (PRV-01).
type Privacy int

const (
	// Active: key and bodies are there.
	Active Privacy = iota + 1
	// Redacted: the bodies and the references to evidence are destroyed and none
	// can be added; the key is there, sealed, so that a repeat is known as one.
	Redacted
	// Purged: the key is destroyed as well. See [ErrErased].
	Purged
)

// String is active, redacted or purged.
func (p Privacy) String() string {
	switch p {
	case Active:
		return "active"
	case Redacted:
		return "redacted"
	case Purged:
		return "purged"
	}
	return fmt.Sprintf("privacy %d", int(p))
}

// Privacy tells the state of an attempt: [ErrNotFound] if the vault never had it.
func (v *Vault) Privacy(attemptID string) (p Privacy, err error) {
	if err = checkAttemptID(attemptID); err == nil {
		err = v.view(func(txn *badger.Txn) (err error) {
			_, p, err = v.readPrivacy(txn, row(rowKey, v.seal.attempt(attemptID)))
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("privacy of %s: %w", attemptID, err)
	}
	return p, nil
}

// Erasing tells whether an erasure of an attempt is under way: it has its new state,
// and not everything of the old one is gone.
func (v *Vault) Erasing(attemptID string) (bool, error) {
	names, err := v.names(row(rowPending, v.seal.attempt(attemptID)), 1)
	if err != nil {
		return false, fmt.Errorf("erasure of %s: %w", attemptID, err)
	}
	return len(names) > 0, nil
}

// Lower takes attempts to Redacted or Purged and returns how many of them were
// not there yet. What is there or beyond stays as it is. An attempt that the
// vault never had gets the tombstone of a purge, so that an older copy of its key
// that comes later is no key; a redaction leaves it. It is durable when Lower
// returns; after an error, call it again: some may be done. The package comment
// says what stays on the medium.
func (v *Vault) Lower(to Privacy, attemptIDs []string) (changed int, err error) {
	if to != Redacted && to != Purged {
		return 0, fmt.Errorf("%w: nothing leads to %s", ErrInvalid, to)
	}
	for _, id := range attemptIDs {
		if err := checkAttemptID(id); err != nil {
			return 0, err
		}
	}
	var count atomic.Int64
	err = v.each(len(attemptIDs), func(i int) error {
		was, err := v.lower(to, attemptIDs[i])
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("erase %s: %w", attemptIDs[i], err)
		}
		if was {
			count.Add(1)
		}
		return nil
	})
	changed = int(count.Load())
	if err != nil {
		return changed, err
	}
	// Also those that were there already: a call before this one may have failed
	// in between.
	for some := range slices.Chunk(attemptIDs, maxDeletes) {
		var list []attemptName
		for _, id := range some {
			list = append(list, v.seal.attempt(id))
		}
		if err := v.finishErasure(list...); err != nil {
			if v.shared != nil {
				v.shared.left.Store(true)
			}
			return changed, fmt.Errorf("erase %d attempts from %s on: %w", len(some), some[0], err)
		}
	}
	if err := v.Sync(); err != nil {
		return changed, fmt.Errorf("erase %d attempts: %w", len(attemptIDs), err)
	}
	return changed, nil
}

// lower writes the new state of an attempt.
func (v *Vault) lower(to Privacy, attemptID string) (changed bool, err error) {
	a := v.seal.attempt(attemptID)
	name := row(rowKey, a)
	o := &op{always: true, more: 256}
	o.check = func(txn *badger.Txn) (bool, error) {
		changed = false
		key, p, err := v.readPrivacy(txn, name)
		switch {
		case errors.Is(err, ErrNotFound) && to == Purged:
		case err != nil:
			return false, err
		case p >= to:
			return true, nil
		}
		state := stateRedacted
		if to == Purged {
			state, key = stateErased, [KeySize]byte{}
		}
		sealed, err := v.sealState(name, state, key)
		if err != nil {
			return false, err
		}
		o.rows = []kv{{name, sealed}, {row(rowPending, a), []byte{sealVersion}}}
		changed = true
		return false, nil
	}
	// The commit point: once this op is written nobody gets a body, nor the key if
	// it is purged, and nothing can be added. A crash leaves the p row, from which
	// finishErasures deletes the rest at the next Open.
	err = v.do(o)
	v.forget(attemptID) // whatever came of it
	return changed && err == nil, err
}

// Erase purges an attempt; see [Vault.Lower]. One that the vault never had is
// [ErrNotFound] and gets no tombstone.
func (v *Vault) Erase(attemptID string) error {
	if _, err := v.Privacy(attemptID); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	_, err := v.Lower(Purged, []string{attemptID})
	return err
}
