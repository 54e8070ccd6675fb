package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"counterfoil/internal/durable"
	"counterfoil/ledger/keyring"
)

// maxKeyFile bounds a file of DIR/keys: a registry of all keys is the largest.
const maxKeyFile = 1 << 20

// PrepareNodes makes data directories for further nodes of the ledger in cfg.Dir:
// its identity, its keys and its tokens, and nothing else. If cfg.Dir holds no
// ledger it becomes the directory of the first node. Each of out must not exist or
// be empty. What is in them are the ledger's secrets: they go to their machines the
// way that secrets go. After an error the directories that were made are incomplete
// and are to be deleted.
func PrepareNodes(cfg Config, out []string) (origin string, err error) {
	if err := cfg.validate(); err != nil {
		return "", fmt.Errorf("configuration: %w", err)
	}
	for _, dir := range out {
		if !isEmpty(dir) {
			return "", fmt.Errorf("%s is not empty (hint: a node's directory is made anew)", dir)
		}
	}
	p := paths{cfg.Dir}
	id, err := preparedIdentity(p, &cfg)
	if err != nil {
		return "", err
	}
	files := []string{filepath.Base(p.ledger())}
	for _, f := range []string{p.token(), p.consumerToken()} {
		if _, err := secretFile(f, cfg.Random); err != nil {
			return "", err
		}
		files = append(files, filepath.Base(f))
	}
	keys, err := os.ReadDir(p.keys())
	if err != nil {
		return "", fmt.Errorf("read the keys: %w", err)
	}
	for _, k := range keys {
		files = append(files, filepath.Join(filepath.Base(p.keys()), k.Name()))
	}
	for _, dir := range out {
		to := paths{dir}
		if err := durable.MkdirAll(to.keys(), 0o700); err != nil {
			return "", fmt.Errorf("prepare a node: %w", err)
		}
		for _, f := range files {
			if err := copySecret(filepath.Join(cfg.Dir, f), filepath.Join(dir, f)); err != nil {
				return "", fmt.Errorf("prepare a node: %w", err)
			}
		}
	}
	return id.Origin, nil
}

// preparedIdentity reads who the ledger is, or makes a new one that has its keys and
// nothing else yet, but the note that this node may found the ledger: the others
// never begin one, so that a node without a log does not take a lost register for a
// new ledger.
func preparedIdentity(p paths, cfg *Config) (id *identity, err error) {
	if exists(p.ledger()) {
		id, err := readIdentity(p, cfg)
		if err == nil && !id.Complete {
			err = fmt.Errorf("the ledger in %s is not complete (hint: start it once)", p.dir)
		}
		return id, err
	}
	lock, err := lockDir(p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if id, err = startIdentity(p, cfg); err != nil {
		return nil, err
	}
	if _, err := keyring.Generate(p.keys(), id.Origin, cfg.Random); err != nil {
		return nil, err
	}
	keys, err := keyring.Open(keyring.Config{Dir: p.keys(), Origin: id.Origin})
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(p.founding(), nil, 0o600); err != nil {
		return nil, fmt.Errorf("prepare a node: %w", err)
	}
	id.Complete, id.TenantKey = true, keys.TenantFingerprint()
	return id, id.write(p)
}

// copySecret copies a small file, for its owner alone.
func copySecret(from, to string) error {
	b, err := durable.ReadFile(from, maxKeyFile)
	if err != nil {
		return err
	}
	return durable.WriteFile(to, b, 0o600)
}

// vacant reports whether a data directory has a ledger's identity and keys and
// nothing that a ledger keeps: such a node of a cluster gets everything from the
// others.
func (p paths) vacant() (bool, error) {
	for _, dir := range []string{p.log(), p.guard(), p.vault(), p.index(), p.views()} {
		switch entries, err := os.ReadDir(dir); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		case len(entries) > 0:
			return false, nil
		}
	}
	return true, nil
}
