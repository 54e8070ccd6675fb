package keyring

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"counterfoil/internal/durable"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	registrySchema = "counterfoil.key-registry.v1"
	// maxRegistry bounds the file: an entry takes at most 400 bytes.
	maxRegistry = maxKeys*400 + 1024
)

type registryJSON struct {
	Schema string      `json:"schema"`
	Keys   []entryJSON `json:"keys"`
}

type entryJSON struct {
	KeyID            string  `json:"keyId"`
	PublicKey        string  `json:"publicKey"`
	Status           Status  `json:"status"`
	FromIndex        *uint64 `json:"fromIndex"` // required, so that a missing one is seen
	ToIndex          *uint64 `json:"toIndex,omitzero"`
	RevokedFromIndex *uint64 `json:"revokedFromIndex,omitzero"`
}

// LoadRegistry reads a registry file. It must be a regular file, not a link,
// that only its owner can write. The error is an [io/fs.ErrNotExist] if there
// is none.
func LoadRegistry(path string) (*Registry, error) {
	data, err := readGuarded(path, maxRegistry, 0o022)
	if err != nil {
		return nil, fmt.Errorf("key registry: %w", err)
	}
	r, err := parseRegistry(data)
	if err != nil {
		return nil, fmt.Errorf("key registry %s: %w", path, err)
	}
	return r, nil
}

// Save writes the registry durably, replacing the file. The caller keeps other
// writers away; the lock of the data directory does.
func (r *Registry) Save(path string) error {
	data, err := r.encode()
	if err != nil {
		return fmt.Errorf("key registry %s: %w", path, err)
	}
	return durable.WriteFile(path, data, 0o600)
}

func (r *Registry) encode() ([]byte, error) {
	doc := registryJSON{Schema: registrySchema, Keys: make([]entryJSON, len(r.keys))}
	for i, e := range r.keys {
		doc.Keys[i] = entryJSON{
			KeyID:            e.KeyID,
			PublicKey:        base64.StdEncoding.EncodeToString(e.PublicKey),
			Status:           e.Status,
			FromIndex:        &e.FromIndex,
			ToIndex:          e.ToIndex,
			RevokedFromIndex: e.RevokedFromIndex,
		}
	}
	data, err := json.Marshal(doc, jsontext.WithIndent("  "))
	return append(data, '\n'), err
}

func parseRegistry(data []byte) (*Registry, error) {
	var doc registryJSON
	if err := json.Unmarshal(data, &doc, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if doc.Schema != registrySchema {
		return nil, fmt.Errorf("%w: expected schema %q, got %q", ErrMalformed, registrySchema, doc.Schema)
	}
	if len(doc.Keys) > maxKeys {
		return nil, fmt.Errorf("%w: more than %d keys", ErrMalformed, maxKeys)
	}
	r := &Registry{keys: make([]Entry, len(doc.Keys))}
	for i, j := range doc.Keys {
		pub, err := base64.StdEncoding.Strict().DecodeString(j.PublicKey)
		if err != nil || base64.StdEncoding.EncodeToString(pub) != j.PublicKey {
			return nil, fmt.Errorf("%w: public key of %q is not padded standard base64", ErrMalformed, j.KeyID)
		}
		if j.FromIndex == nil {
			return nil, fmt.Errorf("%w: key %q has no fromIndex", ErrMalformed, j.KeyID)
		}
		e := Entry{j.KeyID, pub, j.Status, *j.FromIndex, j.ToIndex, j.RevokedFromIndex}
		if err := e.validate(); err != nil {
			return nil, err
		}
		r.keys[i] = e.clone()
	}
	order := func(a, b Entry) int { return strings.Compare(a.KeyID, b.KeyID) }
	if !slices.IsSortedFunc(r.keys, order) {
		return nil, fmt.Errorf("%w: the keys are not sorted by keyId", ErrMalformed)
	}
	if c := slices.CompactFunc(slices.Clone(r.keys), func(a, b Entry) bool { return a.KeyID == b.KeyID }); len(c) != len(r.keys) {
		return nil, fmt.Errorf("%w: a keyId stands there twice", ErrMalformed)
	}
	// What is left are other spellings of the same: white space, the order of
	// members, null for an absent member, 1e0 for 1.
	if again, err := r.encode(); err != nil || !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: it is not written in the one accepted way; hint: indent by two spaces and end with one newline, as jq does", ErrMalformed)
	}
	return r, nil
}
