package app

import (
	"fmt"

	"counterfoil/ledger/keyring"
	"counterfoil/ledger/trust"
)

// trustFile is what a verifier needs to know about this ledger: the log's key
// and the registered event keys.
func trustFile(keys *keyring.Keyring) (*trust.File, error) {
	vkey, err := trust.ParseVerifierKey(keys.LogVerifierKey())
	if err != nil {
		return nil, fmt.Errorf("the log's verifier key: %w", err)
	}
	var list []trust.EventKey
	for _, e := range keys.Registry().Entries() {
		list = append(list, trust.EventKey{KeyID: e.KeyID, PublicKey: e.PublicKey, FromIndex: e.FromIndex, ToIndex: e.ToIndex, RevokedFromIndex: e.RevokedFromIndex})
	}
	set, err := trust.NewEventKeys(list)
	if err != nil {
		return nil, fmt.Errorf("the registered event keys: %w", err)
	}
	f := &trust.File{Log: vkey, EventKeys: set}
	return f, f.Validate()
}
