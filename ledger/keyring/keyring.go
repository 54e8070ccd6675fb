// Package keyring is the private side of signing: the keys of the ledger on
// disk, the registry that says which event keys may sign, and the signers.
// A verifier never imports it.
//
// # The directory of keys (0700, every file 0600)
//
//	log.key        the note signer key of the log, one line:
//	               PRIVATE+KEY+<origin>+<8 hex digits>+<base64 of 01 and the Ed25519 seed>
//	event.key      the Ed25519 seed of the event signer, 32 bytes, one line of
//	               standard base64 with padding
//	tenant.key     the tenant's secret, 32 bytes, written the same way
//	event-….key    the seeds of later event keys, named by the first 16 hex digits
//	               of their fingerprint
//	registry.json  the registered event keys; see [Registry]
//	signer         the id of the event key that signs, one line; without the file
//	               it is that of event.key
//
// Every file ends with exactly one newline and has one accepted spelling.
// [Generate] makes the first three and the registry at once. log.key, event.key
// and event-….key are signing seeds and never part of a backup (requirement
// DUR-05): [IsSeedFile] knows them. Without tenant.key nothing in the vault can
// be opened again.
//
// # Fail closed
//
// [Open] gives a keyring only if everything holds; there is no unsigned mode
// and no second-best key. A key file is opened without following a symbolic
// link, and the file that was opened, not its path, must be regular with no
// permission for group and others (ATT-15). The event key must be registered
// with the same public key and be active (ATT-16). Opening never registers
// anything (ATT-17). All problems are reported together.
//
// Private keys, seeds and secrets are never printed: the types that hold them
// redact themselves under every fmt verb, in slog and in JSON, and no error
// quotes a key file.
package keyring

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"

	"golang.org/x/mod/sumdb/note"
)

// Names of the files in the directory of keys.
const (
	LogKeyFile    = "log.key"
	EventKeyFile  = "event.key"
	TenantKeyFile = "tenant.key"
	RegistryFile  = "registry.json"
)

var (
	// ErrConfig: the configuration contradicts itself.
	ErrConfig = errors.New("unusable key configuration")
	// ErrInsecure: a key file is a symbolic link, no regular file, or open to
	// group or others.
	ErrInsecure = errors.New("key file is not safely kept")
	// ErrMalformed: a key file or the registry is not written in its one
	// accepted way.
	ErrMalformed = errors.New("malformed key file")
	// ErrMismatch: a key is not the one that its name, id or origin promises.
	ErrMismatch = errors.New("key mismatch")
	// ErrNotRegistered: the event key is not in the registry.
	ErrNotRegistered = errors.New("event key is not registered")
	// ErrNotActive: the event key is registered but retired, revoked or
	// disabled.
	ErrNotActive = errors.New("event key is not active")
)

// Config says where the keys are.
type Config struct {
	// Dir is the directory of keys. Required.
	Dir string
	// Origin is the name of the log; log.key must carry it. Required.
	Origin string

	// EventKeyID and EventSeedFile choose an event key other than
	// Dir/event.key: the id ("ed25519:…") that it must have and the path of
	// its seed, in the format of event.key. One of the two without the other
	// is an error (ATT-14). The registry is Dir/registry.json all the same.
	EventKeyID    string
	EventSeedFile string
	// External signs events in place of a seed file: a helper program, a key
	// service. EventKeyID must name its key. It is always wrapped by [Verified].
	External Signer

	// ReadOnly opens no event key: the keyring has no [Keyring.Event], and serves
	// to read what the ledger wrote.
	ReadOnly bool
	// VerifySignatures checks every event signature before it is given out,
	// at about 100 µs each. Signers outside the process are always checked;
	// see [Verified]. For the key in the process the default is one check at
	// load time: key and public half belong together from then on, and only
	// failing hardware could still make a wrong signature.
	VerifySignatures bool
}

// IsSeedFile reports whether a file of the directory of keys holds a signing
// seed, which a backup leaves out.
func IsSeedFile(name string) bool {
	return name == LogKeyFile || name == EventKeyFile || strings.HasPrefix(name, seedPrefix)
}

func (c Config) validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, fmt.Errorf("%w: no directory of keys", ErrConfig))
	}
	if c.Origin == "" {
		errs = append(errs, fmt.Errorf("%w: no log origin", ErrConfig))
	}
	switch {
	case c.External != nil && c.EventSeedFile != "":
		errs = append(errs, fmt.Errorf("%w: an external signer and an event seed file; hint: give one of them", ErrConfig))
	case c.External != nil && c.EventKeyID == "":
		errs = append(errs, fmt.Errorf("%w: an external signer without the id of its key; hint: give both", ErrConfig))
	case c.External != nil:
	case (c.EventKeyID == "") != (c.EventSeedFile == ""):
		given, missing := "event key id", "event seed file"
		if c.EventKeyID == "" {
			given, missing = missing, given
		}
		errs = append(errs, fmt.Errorf("%w: %s without %s; hint: give both, or neither to use %s",
			ErrConfig, given, missing, filepath.Join(c.Dir, EventKeyFile)))
	}
	return errors.Join(errs...)
}

// Keyring holds the keys of one ledger. It is immutable and safe for
// concurrent use. It does not see later changes of the files.
type Keyring struct {
	event     Signer
	log       note.Signer
	logVKey   string
	tenant    Secret
	vaultSeal Secret
	registry  *Registry
}

// Open reads and checks the keys. See the package comment for what it insists
// on. It writes nothing.
func Open(cfg Config) (*Keyring, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	k := &Keyring{}
	var errs [4]error
	errs[0] = checkDir(cfg.Dir)
	errs[1] = k.openEvent(cfg)
	k.log, k.logVKey, errs[2] = readLogKey(filepath.Join(cfg.Dir, LogKeyFile), cfg.Origin)
	k.tenant, errs[3] = readSecret(filepath.Join(cfg.Dir, TenantKeyFile))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	seal, err := hkdf.Key(sha256.New, k.tenant.Bytes(), nil, "counterfoil.vault-seal.v1", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the vault's seal key: %w", err)
	}
	k.vaultSeal = NewSecret([32]byte(seal))
	return k, nil
}

func (k *Keyring) openEvent(cfg Config) error {
	if cfg.ReadOnly {
		var err error
		k.registry, err = LoadRegistry(filepath.Join(cfg.Dir, RegistryFile))
		return err
	}
	signer, err := cfg.signer()
	if err != nil {
		return err
	}
	id := signer.KeyID()
	k.registry, err = LoadRegistry(filepath.Join(cfg.Dir, RegistryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("event key %s: %w: there is no registry: %w", id, ErrNotRegistered, err)
	} else if err != nil {
		return err
	}
	if err := k.registry.mayName(id, signer.Public()); err != nil {
		return err
	}
	k.event = signer
	return nil
}

// signer opens the event key that was asked for.
func (c Config) signer() (Signer, error) {
	if c.External != nil {
		if id := c.External.KeyID(); id != c.EventKeyID {
			return nil, fmt.Errorf("external signer: %w: expected key %s, it has %s", ErrMismatch, c.EventKeyID, id)
		}
		return Verified(c.External), nil
	}
	path, id := c.EventSeedFile, c.EventKeyID
	if path == "" {
		var err error
		if path, id, err = chosen(c.Dir); err != nil {
			return nil, err
		}
	}
	return openSeed(path, id, c.VerifySignatures)
}

// openSeed opens the event key in a seed file; id is the one that it must have,
// "" for any.
func openSeed(path, id string, verify bool) (Signer, error) {
	seed, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	local, err := newLocalSigner(seed)
	if err != nil {
		return nil, fmt.Errorf("event key %s: %w", path, err)
	}
	if id != "" && id != local.KeyID() {
		return nil, fmt.Errorf("event key %s: %w: expected id %s, got %s", path, ErrMismatch, id, local.KeyID())
	}
	if verify {
		return Verified(local), nil
	}
	return local, nil
}

// mayName reports why the key may not sign, or nil.
func (r *Registry) mayName(id string, pub ed25519.PublicKey) error {
	e, ok := r.Lookup(id)
	if !ok {
		return fmt.Errorf("event key %s: %w; hint: register it first, loading a key never does", id, ErrNotRegistered)
	}
	if !pub.Equal(e.PublicKey) {
		return fmt.Errorf("event key %s: %w: the registry holds another public key", id, ErrMismatch)
	}
	if e.Status != Active {
		return fmt.Errorf("event key %s: %w: it is %s; hint: register a new key and configure it", id, ErrNotActive, e.Status)
	}
	return nil
}

// Event is the signer of events.
func (k *Keyring) Event() Signer { return k.event }

// Log is the signer of checkpoints. Only the log's guard may hold it.
func (k *Keyring) Log() note.Signer { return k.log }

// LogVerifierKey is the public half of the log's key, "<origin>+<hash>+<base64>".
func (k *Keyring) LogVerifierKey() string { return k.logVKey }

// TenantKey is the secret from which the tags of the tenant are derived.
func (k *Keyring) TenantKey() Secret { return k.tenant }

// TenantFingerprint names the tenant's key in public; see [commit.Fingerprint].
func (k *Keyring) TenantFingerprint() string { return commit.Fingerprint(k.tenant.Bytes()) }

// VaultSealKey is the key that seals the vault:
// HKDF-SHA256(tenant key, no salt, "counterfoil.vault-seal.v1").
func (k *Keyring) VaultSealKey() Secret { return k.vaultSeal }

// Registry is the registry as it was when the keyring was opened.
func (k *Keyring) Registry() *Registry { return k.registry.Clone() }

// KeyID names an Ed25519 public key: "ed25519:" and the hex SHA-256 of its 32
// bytes.
func KeyID(pub ed25519.PublicKey) string { return event.KeyID(pub) }
