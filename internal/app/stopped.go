package app

import (
	"errors"
	"fmt"

	"counterfoil/ledger/keyring"
)

// openStopped opens what a command needs of a data directory on which no ledger runs:
// its identity, and its keys for reading. hint says what to do where there is no
// ledger; complete refuses one whose first start did not end. The directory is locked until
// unlock.
func openStopped(cfg Config, hint string, complete bool) (_ *Ledger, unlock func() error, err error) {
	if err := cfg.validate(); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	p := paths{cfg.Dir}
	if !exists(p.ledger()) {
		return nil, nil, fmt.Errorf("%s holds no ledger (hint: %s)", cfg.Dir, hint)
	}
	lock, err := lockDir(p)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Unlock())
		}
	}()
	l := &Ledger{cfg: cfg, paths: p, log: cfg.Logger}
	if l.id, err = readIdentity(p, &l.cfg); err != nil {
		return nil, nil, err
	}
	if complete && !l.id.Complete {
		return nil, nil, fmt.Errorf("the ledger in %s is not complete (hint: start it once)", cfg.Dir)
	}
	if l.keys, err = keyring.Open(keyring.Config{Dir: p.keys(), Origin: l.id.Origin, ReadOnly: true}); err != nil {
		return nil, nil, err
	}
	if l.event.trust, err = newTrustFile(l.keys); err != nil {
		return nil, nil, err
	}
	return l, lock.Unlock, nil
}
