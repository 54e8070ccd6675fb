package keyring

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"counterfoil/ledger/event"
)

// Status says what an event key may do.
type Status string

const (
	// Active: signs.
	Active Status = "active"
	// Retired: no longer signs; what it signed before ToIndex stays good.
	Retired Status = "retired"
	// Revoked: in other hands; nothing from RevokedFromIndex on counts.
	Revoked Status = "revoked"
	// Disabled: taken out of use by the operator; no longer signs.
	Disabled Status = "disabled"
)

// transitions are the allowed changes (ATT-19); there is no way back.
var transitions = map[Status][]Status{
	Active:  {Retired, Revoked, Disabled},
	Retired: {Revoked, Disabled},
}

var (
	// ErrConflict: the key id is registered with other key material, or the key
	// material under another id.
	ErrConflict = errors.New("key id and public key are registered otherwise")
	// ErrTransition: the status may not change this way.
	ErrTransition = errors.New("key status may not change this way")
)

// Entry is a registered event key. Indexes are leaf indexes of the log, since
// times can be written by a thief too. Leaf i is covered if
// FromIndex ≤ i, i < ToIndex and i < RevokedFromIndex, as far as they are set.
type Entry struct {
	KeyID            string
	PublicKey        ed25519.PublicKey
	Status           Status
	FromIndex        uint64  // first leaf that the key may sign
	ToIndex          *uint64 // first leaf that it may not sign any more
	RevokedFromIndex *uint64 // first leaf from which its signatures do not count
}

func (e Entry) clone() Entry {
	e.PublicKey = bytes.Clone(e.PublicKey)
	for _, p := range []**uint64{&e.ToIndex, &e.RevokedFromIndex} {
		if *p != nil {
			v := **p
			*p = &v
		}
	}
	return e
}

// maxIndex is the largest integer that every JSON reader keeps.
const maxIndex = 1<<53 - 1

func (e Entry) validate() error {
	if len(e.PublicKey) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: public key of %q: expected %d bytes, got %d", ErrMalformed, e.KeyID, ed25519.PublicKeySize, len(e.PublicKey))
	}
	if !event.IsKeyID(e.KeyID, e.PublicKey) {
		return fmt.Errorf("%w: the id of the public key is %s, not %q", ErrMismatch, KeyID(e.PublicKey), e.KeyID)
	}
	to, revoked := e.ToIndex != nil, e.RevokedFromIndex != nil
	var ok bool
	switch e.Status {
	case Active:
		ok = !to && !revoked
	case Retired:
		ok = to && !revoked
	case Revoked:
		ok = revoked
	case Disabled:
		ok = to && !revoked
	default:
		return fmt.Errorf("%w: status %q of key %s: expected active, retired, revoked or disabled", ErrMalformed, e.Status, e.KeyID)
	}
	if !ok {
		return fmt.Errorf("%w: key %s is %s: active has neither toIndex nor revokedFromIndex, retired and disabled have toIndex only, revoked has revokedFromIndex",
			ErrMalformed, e.KeyID, e.Status)
	}
	for _, p := range []*uint64{&e.FromIndex, e.ToIndex, e.RevokedFromIndex} {
		if p != nil && (*p > maxIndex || *p < e.FromIndex) {
			return fmt.Errorf("%w: key %s: an index is before fromIndex or beyond 2^53-1", ErrMalformed, e.KeyID)
		}
	}
	return nil
}

// maxKeys bounds a registry; a key a day for ten years fits.
const maxKeys = 4096

// Registry is the list of registered event keys, sorted by key id. It is not
// safe for concurrent use; [Registry.Clone] is what others get. On disk
// ([LoadRegistry], [Registry.Save]) it is
//
//	{
//	  "schema": "counterfoil.key-registry.v1",
//	  "keys": [
//	    {
//	      "keyId": "ed25519:<64 hex digits>",
//	      "publicKey": "<base64 of 32 bytes>",
//	      "status": "active",
//	      "fromIndex": 0
//	    }
//	  ]
//	}
//
// with the optional members toIndex and revokedFromIndex after fromIndex.
// The same registry always gives the same bytes, and no other bytes are read:
// unknown or repeated members, another order or other white space are refused.
type Registry struct{ keys []Entry }

// Entries are the registered keys, sorted by key id.
func (r *Registry) Entries() []Entry { return r.Clone().keys }

// Clone is an independent copy.
func (r *Registry) Clone() *Registry {
	c := &Registry{keys: make([]Entry, len(r.keys))}
	for i, e := range r.keys {
		c.keys[i] = e.clone()
	}
	return c
}

func (r *Registry) find(id string) (int, bool) {
	return slices.BinarySearchFunc(r.keys, id, func(e Entry, id string) int { return strings.Compare(e.KeyID, id) })
}

// Lookup finds a key by its id.
func (r *Registry) Lookup(id string) (Entry, bool) {
	i, ok := r.find(id)
	if !ok {
		return Entry{}, false
	}
	return r.keys[i].clone(), true
}

// Register adds pub, which must have the id keyID, as an active key from leaf
// fromIndex on. Registering a key again changes nothing, neither its status
// nor its indexes, and returns the entry as it stands with added = false: a
// retired key does not come back this way. The same id with other material is
// [ErrConflict] (ATT-18); an id that is not the key's own is [ErrMismatch].
func (r *Registry) Register(keyID string, pub ed25519.PublicKey, fromIndex uint64) (e Entry, added bool, err error) {
	i, ok := r.find(keyID)
	if ok {
		if !pub.Equal(r.keys[i].PublicKey) {
			return Entry{}, false, fmt.Errorf("register key %s: %w", keyID, ErrConflict)
		}
		return r.keys[i].clone(), false, nil
	}
	for _, other := range r.keys {
		if pub.Equal(other.PublicKey) { // in the other scheme
			return Entry{}, false, fmt.Errorf("register key %s: %w: this public key is registered as %s", keyID, ErrConflict, other.KeyID)
		}
	}
	e = Entry{KeyID: keyID, PublicKey: bytes.Clone(pub), Status: Active, FromIndex: fromIndex}
	if err := e.validate(); err != nil {
		return Entry{}, false, fmt.Errorf("register key: %w", err)
	}
	if len(r.keys) >= maxKeys {
		return Entry{}, false, fmt.Errorf("register key %s: the registry is full (%d keys)", keyID, maxKeys)
	}
	r.keys = slices.Insert(r.keys, i, e)
	return e.clone(), true, nil
}

// SetStatus moves a key from active to retired, revoked or disabled, or from
// retired to revoked or disabled; everything else is [ErrTransition] (ATT-19). A
// revocation may be moved to an earlier leaf, never to a later one.
// at is the first leaf index to which the new status applies: it becomes
// RevokedFromIndex of a revoked key, which may lie before an earlier ToIndex,
// and ToIndex of an active key that is retired or disabled.
func (r *Registry) SetStatus(keyID string, status Status, at uint64) (Entry, error) {
	i, ok := r.find(keyID)
	if !ok {
		return Entry{}, fmt.Errorf("set key %s to %s: %w", keyID, status, ErrNotRegistered)
	}
	e := r.keys[i].clone()
	if status == Revoked && e.Status == Revoked && at < *e.RevokedFromIndex {
		e.RevokedFromIndex = &at
		if err := e.validate(); err != nil {
			return Entry{}, fmt.Errorf("set key %s to %s at leaf %d: %w", keyID, status, at, err)
		}
		r.keys[i] = e
		return e.clone(), nil
	}
	if !slices.Contains(transitions[e.Status], status) {
		return Entry{}, fmt.Errorf("set key %s to %q: %w: it is %s", keyID, status, ErrTransition, e.Status)
	}
	switch {
	case status == Revoked:
		e.RevokedFromIndex = &at
	case e.ToIndex == nil:
		e.ToIndex = &at
	}
	e.Status = status
	if err := e.validate(); err != nil {
		return Entry{}, fmt.Errorf("set key %s to %s at leaf %d: %w", keyID, status, at, err)
	}
	r.keys[i] = e
	return e.clone(), nil
}
