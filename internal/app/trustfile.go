package app

import (
	"fmt"

	"counterfoil/ledger/keyring"
	"counterfoil/ledger/trust"
)

// newTrustFile is what a verifier needs to know about this ledger: the log's key
// and the registered event keys.
func newTrustFile(keys *keyring.Keyring) (*trust.File, error) {
	vkey, err := trust.ParseVerifierKey(keys.LogVerifierKey())
	if err != nil {
		return nil, fmt.Errorf("the log's verifier key: %w", err)
	}
	set, err := eventKeysOf(keys.Registry())
	if err != nil {
		return nil, err
	}
	f := &trust.File{Log: vkey, EventKeys: set}
	return f, f.Validate()
}

// eventKeysOf are the registered event keys as a verifier knows them.
func eventKeysOf(r *keyring.Registry) (trust.EventKeys, error) {
	var list []trust.EventKey
	for _, e := range r.Entries() {
		list = append(list, trust.EventKey{KeyID: e.KeyID, PublicKey: e.PublicKey, FromIndex: e.FromIndex, ToIndex: e.ToIndex, RevokedFromIndex: e.RevokedFromIndex})
	}
	set, err := trust.NewEventKeys(list)
	if err != nil {
		return set, fmt.Errorf("the registered event keys: %w", err)
	}
	return set, nil
}
