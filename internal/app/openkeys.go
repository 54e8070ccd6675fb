package app

import (
	"context"
	"fmt"

	"counterfoil/ledger/keyring"
)

// openKeys makes the keys of a new ledger, opens them and what others sign with, and
// refuses another tenant's.
func (l *Ledger) openKeys(ctx context.Context) error {
	if !l.id.Complete && !exists(l.paths.keys()) {
		if _, err := keyring.Generate(l.paths.keys(), l.id.Origin, l.cfg.Random); err != nil {
			return err
		}
	}
	cfg := keyring.Config{Dir: l.paths.keys(), Origin: l.id.Origin, EventKeyID: l.cfg.EventKeyID, EventSeedFile: l.cfg.EventSeedFile}
	if l.cfg.Signer != nil {
		helper, err := keyring.StartHelper(ctx, *l.cfg.Signer)
		if err != nil {
			return err
		}
		l.onClose(bounded("signer", helper.Close))
		cfg.External = helper
	}
	keys, err := keyring.Open(cfg)
	if err != nil {
		return err
	}
	if l.id.TenantKey != "" && l.id.TenantKey != keys.TenantFingerprint() {
		return fmt.Errorf("the tenant's key has fingerprint %s, this ledger was made with %s (hint: restore keys/%s)",
			keys.TenantFingerprint(), l.id.TenantKey, keyring.TenantKeyFile)
	}
	l.keys = keys
	l.event.registry, l.event.signer = keys.Registry(), keys.Event()
	if l.event.trust, err = newTrustFile(keys); err != nil {
		return err
	}
	l.check = newChecker(l.event.trust.EventKeys)
	return nil
}
