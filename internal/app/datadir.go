package app

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"counterfoil/internal/durable"
	"counterfoil/internal/upgrade"
	"counterfoil/ledger/event"
)

// identity is DIR/ledger.json: what is chosen once.
type identity struct {
	FormatVersion int    `json:"formatVersion"`
	Origin        string `json:"origin"`
	Tenant        string `json:"tenant"`
	// Complete turns true when keys, guard and log are in place. Until then a
	// start goes on with the creation; after it, nothing is ever created anew.
	Complete bool `json:"complete"`
	// TenantKey is the fingerprint of the tenant's key.
	TenantKey string `json:"tenantKey,omitempty"`
}

// ErrInUse: another process has the data directory.
var ErrInUse = errors.New("the data directory is in use")

// lockDir takes the data directory for this process. The lock ends with it.
func lockDir(p paths) (*flock.Flock, error) {
	if err := durable.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	l := flock.New(p.lock(), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s (hint: stop the other ledger, or choose another --data)", ErrInUse, p.dir)
	}
	return l, nil
}

// readIdentity reads or starts DIR/ledger.json.
func readIdentity(p paths, cfg *Config) (*identity, error) {
	raw, err := os.ReadFile(p.ledger())
	if errors.Is(err, fs.ErrNotExist) {
		return startIdentity(p, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("read the ledger's identity: %w", err)
	}
	if err := upgrade.Check(p.dir, raw); err != nil {
		return nil, err
	}
	id := new(identity)
	if err := json.Unmarshal(raw, id, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", p.ledger(), err)
	}
	if cfg.Origin != "" && cfg.Origin != id.Origin {
		return nil, fmt.Errorf("this ledger's origin is %q, not %q: it is chosen once", id.Origin, cfg.Origin)
	}
	if cfg.Tenant != "default" && cfg.Tenant != id.Tenant {
		return nil, fmt.Errorf("this ledger's tenant is %q, not %q: it is chosen once", id.Tenant, cfg.Tenant)
	}
	return id, event.CheckOrigin("origin", id.Origin)
}

func startIdentity(p paths, cfg *Config) (*identity, error) {
	for _, d := range []string{p.keys(), p.guard(), p.log(), p.stream(), p.vault()} {
		if exists(d) {
			return nil, fmt.Errorf("%s is there but %s is not: %w (hint: restore it from a backup; nothing is created over it)", d, p.ledger(), errPartMissing)
		}
	}
	id := &identity{FormatVersion: upgrade.Format, Origin: cfg.Origin, Tenant: cfg.Tenant}
	if id.Origin == "" {
		var b [8]byte
		if _, err := io.ReadFull(cfg.Random, b[:]); err != nil {
			return nil, fmt.Errorf("choose an origin: %w", err)
		}
		id.Origin = "counterfoil.local/" + hex.EncodeToString(b[:])
	}
	return id, id.write(p)
}

func (id *identity) write(p paths) error {
	b, err := json.Marshal(id, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if err := durable.WriteFile(p.ledger(), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the ledger's identity: %w", err)
	}
	return nil
}

// secretFile reads a token of 32 random bytes in hex, made at first use.
func secretFile(path string, random io.Reader) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var b [32]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("make %s: %w", path, err)
		}
		raw = []byte(hex.EncodeToString(b[:]) + "\n")
		if err := durable.WriteFile(path, raw, 0o600); err != nil {
			return "", fmt.Errorf("make %s: %w", path, err)
		}
	} else if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	token := strings.TrimSpace(string(raw))
	if len(token) < 32 {
		return "", fmt.Errorf("%s holds fewer than 32 characters (hint: delete it to get a new one at the next start)", path)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o077 != 0 {
		return "", errors.Join(err, fmt.Errorf("%s is open to group or others (hint: chmod 600)", path))
	}
	return token, nil
}
