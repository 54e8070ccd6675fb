package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"counterfoil/internal/upgrade"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

func (d *look) path(parts ...string) string {
	return filepath.Join(append([]string{d.cfg.Dir}, parts...)...)
}

// directory reports whether there is anything to look at.
func (d *look) directory() bool {
	st, err := os.Stat(d.cfg.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.not(Fails, "directory", d.cfg.Dir+" is not there", d.cfg.Program+" serve --data "+d.cfg.Dir)
		return false
	case err != nil:
		d.fail("directory", err)
		return false
	case !st.IsDir():
		d.not(Fails, "directory", d.cfg.Dir+" is a file")
		return false
	}
	if _, err := os.Stat(d.path("ledger.json")); err != nil {
		d.not(Fails, "directory", d.cfg.Dir+" is not the data directory of a ledger: ledger.json is missing", "ls "+d.cfg.Dir)
		return false
	}
	d.ok("directory", d.cfg.Dir)
	return true
}

// locked reports whether a process holds the lock. It makes no file.
func locked(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	l := flock.New(path, flock.SetFlag(os.O_RDWR))
	got, err := l.TryLock()
	if err != nil || !got {
		return err == nil
	}
	_ = l.Unlock() // the file is closed with it
	return false
}

// secret are the files that nobody else may read, by pattern.
var secret = []string{".", "token", "*.token", "tokens.json", "keys", "keys/*", "vault", "guard", "stream"}

func (d *look) permissions() {
	var open []string
	for _, pattern := range secret {
		files, _ := filepath.Glob(d.path(pattern)) // the patterns are good
		for _, f := range files {
			if st, err := os.Stat(f); err == nil && st.Mode().Perm()&0o077 != 0 {
				open = append(open, f)
			}
		}
	}
	if len(open) > 0 {
		d.not(Fails, "permissions", "group or others get at "+strings.Join(open, ", "), "chmod go= "+strings.Join(open, " "))
		return
	}
	b, err := os.ReadFile(d.path("token"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.ok("permissions", "secrets are the owner's alone; a token is made at the next start")
	case err != nil:
		d.fail("permissions", err)
	case len(strings.TrimSpace(string(b))) < 32:
		d.not(Fails, "permissions", d.path("token")+" holds fewer than 32 characters", "rm "+d.path("token"), "start the ledger: it makes a new one")
	default:
		d.ok("permissions", "secrets are the owner's alone")
	}
}

// identity is what doctor reads of ledger.json.
type identity struct {
	FormatVersion int    `json:"formatVersion"`
	Origin        string `json:"origin"`
	Tenant        string `json:"tenant"`
	Complete      bool   `json:"complete"`
	TenantKey     string `json:"tenantKey,omitempty"`
}

func (d *look) identity() {
	raw, err := os.ReadFile(d.path("ledger.json"))
	if err == nil {
		err = upgrade.Check(d.cfg.Dir, raw)
	}
	if err == nil {
		err = json.Unmarshal(raw, &d.id)
	}
	if err == nil {
		err = event.CheckOrigin("origin", d.id.Origin)
	}
	if err != nil {
		d.fail("identity", err)
		return
	}
	d.known = true
	detail := fmt.Sprintf("log %s of tenant %s, data format %d", d.id.Origin, d.id.Tenant, d.id.FormatVersion)
	if !d.id.Complete {
		d.not(Warning, "identity", detail+"; its first start did not end", d.cfg.Program+" serve --data "+d.cfg.Dir)
		return
	}
	d.ok("identity", detail)
}

// keys opens no private event key: a helper may have it.
func (d *look) keys() {
	if !d.known {
		return
	}
	k, err := keyring.Open(keyring.Config{Dir: d.path("keys"), Origin: d.id.Origin, ReadOnly: true})
	if err != nil {
		d.fail("keys", err)
		return
	}
	d.vkey, d.tenant = k.LogVerifierKey(), k.TenantFingerprint()
	if d.id.TenantKey != "" && d.id.TenantKey != d.tenant {
		d.not(Fails, "keys", fmt.Sprintf("the tenant's key has fingerprint %s, this ledger was made with %s", d.tenant, d.id.TenantKey),
			"restore "+d.path("keys", keyring.TenantKeyFile)+" from a copy")
		return
	}
	active, all := 0, k.Registry().Entries()
	for _, e := range all {
		if e.Status == keyring.Active {
			active++
		}
	}
	if active == 0 {
		d.not(Fails, "keys", fmt.Sprintf("none of %d event keys may sign", len(all)), d.cfg.Program+" keys generate --help")
		return
	}
	if name, err := keyring.MissingSeed(d.path("keys")); err != nil || name != "" {
		detail := "the seed " + name + " is missing"
		if err != nil {
			detail = err.Error()
		}
		d.not(Warning, "keys", detail+": a helper or another file must have it", d.cfg.Program+" serve --signer exec:… or --event-seed-file …")
		return
	}
	d.ok("keys", fmt.Sprintf("log key of %s, tenant key, %d of %d event keys may sign", d.id.Origin, active, len(all)))
}
