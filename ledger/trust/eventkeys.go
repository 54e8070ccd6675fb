package trust

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"counterfoil/ledger/event"
)

// MaxEventKeys bounds the event keys of a trust file (ATT-12).
const MaxEventKeys = 1024

// MaxIndex is the largest leaf index that canonical JSON carries, 2^53−1.
const MaxIndex = 1<<53 - 1

// EventKey is a key that signs events, and where it is valid. Validity is by
// leaf index and not by time, since whoever steals a key writes the times too.
// The key may sign leaf i if FromIndex ≤ i, i < ToIndex and i <
// RevokedFromIndex, as far as they are set.
type EventKey struct {
	KeyID            string            // event.KeyID or event.PrehashKeyID of PublicKey
	PublicKey        ed25519.PublicKey // 32 bytes
	FromIndex        uint64            // first leaf that the key may sign
	ToIndex          *uint64           // first leaf that it may not sign any more: retired
	RevokedFromIndex *uint64           // first leaf from which its signatures do not count
}

func (k EventKey) validate() error {
	if len(k.PublicKey) != ed25519.PublicKeySize {
		return fmt.Errorf("public key of %q has %d bytes, want %d", clip(k.KeyID), len(k.PublicKey), ed25519.PublicKeySize)
	}
	if !event.IsKeyID(k.KeyID, k.PublicKey) {
		return fmt.Errorf("keyId %q is not the id of its public key, %s", clip(k.KeyID), event.KeyID(k.PublicKey))
	}
	for name, p := range map[string]*uint64{"fromIndex": &k.FromIndex, "toIndex": k.ToIndex, "revokedFromIndex": k.RevokedFromIndex} {
		if p == nil {
			continue
		}
		if *p > MaxIndex {
			return fmt.Errorf("%s of key %s is %d, limit 2^53-1", name, k.KeyID, *p)
		}
		if *p < k.FromIndex {
			return fmt.Errorf("%s of key %s is %d, before its fromIndex %d", name, k.KeyID, *p, k.FromIndex)
		}
	}
	return nil
}

// validity reports why the key does not cover a leaf; the reason is "" if it
// does.
func (k *EventKey) validity(leafIndex uint64) (KeyReason, uint64) {
	switch {
	case k.RevokedFromIndex != nil && leafIndex >= *k.RevokedFromIndex:
		return KeyRevoked, *k.RevokedFromIndex
	case k.ToIndex != nil && leafIndex >= *k.ToIndex:
		return KeyRetired, *k.ToIndex
	case leafIndex < k.FromIndex:
		return KeyNotYetValid, k.FromIndex
	}
	return "", 0
}

// KeyReason says why no signature of a record counts.
type KeyReason string

// The reasons, from the least to the most that was found.
const (
	// UnknownKey: no signature is by a key of the list.
	UnknownKey KeyReason = "unknown_key"
	// BadSignature: a key of the list is named, but no signature verifies.
	BadSignature KeyReason = "bad_signature"
	// KeyNotYetValid: the signature verifies, but the leaf is before FromIndex.
	KeyNotYetValid KeyReason = "key_not_yet_valid"
	// KeyRetired: the signature verifies, but the leaf is not before ToIndex.
	KeyRetired KeyReason = "key_retired"
	// KeyRevoked: the signature verifies, but the leaf is not before
	// RevokedFromIndex.
	KeyRevoked KeyReason = "key_revoked"
)

// KeyError says why no signature of a record counts.
type KeyError struct {
	Reason KeyReason
	// KeyID names the key that was found; of an unknown key it is what the
	// record says.
	KeyID     string
	LeafIndex uint64
	// Bound is the leaf index that the key is valid from or up to, if that is
	// the reason.
	Bound uint64
}

func (e *KeyError) Error() string {
	switch e.Reason {
	case UnknownKey:
		return fmt.Sprintf("unknown key %s: no signature of leaf %d is by a trusted event key", e.KeyID, e.LeafIndex)
	case BadSignature:
		return fmt.Sprintf("bad signature: leaf %d names trusted key %s, but its signature does not verify", e.LeafIndex, e.KeyID)
	case KeyRevoked:
		return fmt.Sprintf("key revoked: %s does not count from leaf %d on, and this is leaf %d", e.KeyID, e.Bound, e.LeafIndex)
	case KeyRetired:
		return fmt.Sprintf("key retired: %s signs no leaf from %d on, and this is leaf %d", e.KeyID, e.Bound, e.LeafIndex)
	case KeyNotYetValid:
		return fmt.Sprintf("key not yet valid: %s signs leaves from %d on, and this is leaf %d", e.KeyID, e.Bound, e.LeafIndex)
	}
	return fmt.Sprintf("%s: key %s at leaf %d", e.Reason, e.KeyID, e.LeafIndex)
}

// EventKeys is a set of event keys. The zero value trusts nobody. It is
// immutable and safe for concurrent use.
type EventKeys struct {
	list []EventKey // sorted by key id
	byID map[string]*EventKey
}

// NewEventKeys checks and copies a list of keys, at most MaxEventKeys, no public
// key twice, not in two schemes either.
func NewEventKeys(keys []EventKey) (EventKeys, error) {
	if len(keys) > MaxEventKeys {
		return EventKeys{}, fmt.Errorf("%d event keys, limit %d", len(keys), MaxEventKeys)
	}
	e := EventKeys{list: make([]EventKey, len(keys)), byID: make(map[string]*EventKey, len(keys))}
	for i, k := range keys {
		if err := k.validate(); err != nil {
			return EventKeys{}, fmt.Errorf("event key %d: %w", i+1, err)
		}
		e.list[i] = k.clone()
	}
	slices.SortFunc(e.list, func(a, b EventKey) int { return strings.Compare(a.KeyID, b.KeyID) })
	publics := make(map[string]string, len(e.list))
	for i := range e.list {
		k := &e.list[i]
		if e.byID[k.KeyID] != nil {
			return EventKeys{}, fmt.Errorf("event key %s is listed twice", k.KeyID)
		}
		if other := publics[string(k.PublicKey)]; other != "" {
			return EventKeys{}, fmt.Errorf("event keys %s and %s are one public key", other, k.KeyID)
		}
		e.byID[k.KeyID], publics[string(k.PublicKey)] = k, k.KeyID
	}
	return e, nil
}

func (k EventKey) clone() EventKey {
	k.PublicKey = bytes.Clone(k.PublicKey)
	for _, p := range []**uint64{&k.ToIndex, &k.RevokedFromIndex} {
		if *p != nil {
			v := **p
			*p = &v
		}
	}
	return k
}

// Len is the number of keys.
func (e EventKeys) Len() int { return len(e.list) }

// Key returns a copy of the key with that id.
func (e EventKeys) Key(id string) (EventKey, bool) {
	k := e.byID[id]
	if k == nil {
		return EventKey{}, false
	}
	return k.clone(), true
}

// Keys returns a copy of the keys, sorted by key id.
func (e EventKeys) Keys() []EventKey {
	out := make([]EventKey, len(e.list))
	for i, k := range e.list {
		out[i] = k.clone()
	}
	return out
}

// Check looks for a signature of the record that verifies under one of the keys
// and counts at leafIndex, and returns the id of the first such key. Bad
// signatures and unknown keys before it do not hide it (ATT-11), and keys that
// travel with the record are never used (ATT-09). The error is a *[KeyError].
func (e EventKeys) Check(rec *event.Record, leafIndex uint64) (keyID string, err error) {
	return e.CheckBytes(rec.EventBytes, rec.Signatures, leafIndex)
}

// CheckBytes is Check for event bytes as they were given, whether or not they
// are an event: that a signature verifies makes nothing canonical (ATT-05).
func (e EventKeys) CheckBytes(eventBytes []byte, sigs []event.Signature, leafIndex uint64) (keyID string, err error) {
	best := &KeyError{Reason: UnknownKey, LeafIndex: leafIndex}
	if len(sigs) > 0 {
		best.KeyID = sigs[0].KeyID
	}
	var pae []byte
	for _, s := range sigs {
		k := e.byID[s.KeyID]
		if k == nil {
			continue
		}
		if pae == nil {
			pae = event.PAE(event.PayloadType, eventBytes)
		}
		if !event.VerifySignature(k.KeyID, k.PublicKey, pae, s.Sig) {
			if best.Reason == UnknownKey {
				best.Reason, best.KeyID = BadSignature, s.KeyID
			}
			continue
		}
		reason, bound := k.validity(leafIndex)
		if reason == "" {
			return k.KeyID, nil
		}
		if best.Reason == UnknownKey || best.Reason == BadSignature {
			best.Reason, best.KeyID, best.Bound = reason, s.KeyID, bound
		}
	}
	return "", best
}

// ReasonOf returns the reason of an error of Check, "" for other errors.
func ReasonOf(err error) KeyReason {
	var e *KeyError
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
