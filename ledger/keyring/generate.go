package keyring

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"counterfoil/internal/durable"
)

// Generated is the public side of what [Generate] made.
type Generated struct {
	LogVerifierKey string
	EventKeyID     string
	EventPublicKey ed25519.PublicKey
}

// Generate makes the directory of keys with new keys for the log called
// origin, and registers the event key as active from leaf 0. random must be
// cryptographically secure; 96 bytes are read from it.
//
// It makes all or nothing: the files are written into a directory beside dir
// (".keys-….new", left behind only by a crash, never used) which is renamed at
// the end. If dir exists the error is an [fs.ErrExist] and nothing is touched:
// keys are never replaced. dir's parent must exist.
func Generate(dir, origin string, random io.Reader) (*Generated, error) {
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("generate keys: %s: %w; hint: keys are never overwritten, choose another directory", dir, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("generate keys: %w", err)
	}
	tmp := filepath.Join(filepath.Dir(dir), ".keys-"+rand.Text()+".new")
	g, err := generateIn(tmp, origin, random)
	if err == nil {
		// From here on a crash loses nothing; before, there are no keys at all.
		err = durable.Rename(tmp, dir)
	}
	if err != nil {
		_ = os.RemoveAll(tmp)
		return nil, fmt.Errorf("generate keys in %s: %w", dir, err)
	}
	return g, nil
}

func generateIn(dir, origin string, random io.Reader) (*Generated, error) {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // whatever the umask took away
		return nil, err
	}
	var logSeed [secretSize]byte
	if _, err := io.ReadFull(random, logSeed[:]); err != nil {
		return nil, fmt.Errorf("read randomness: %w", err)
	}
	skey, vkey, err := noteKeys(origin, logSeed)
	if err != nil {
		return nil, err
	}
	if err := durable.Create(filepath.Join(dir, LogKeyFile), []byte(skey+"\n"), 0o600); err != nil {
		return nil, err
	}
	pub, err := GenerateSeed(filepath.Join(dir, EventKeyFile), random)
	if err != nil {
		return nil, err
	}
	if _, err := writeSecret(filepath.Join(dir, TenantKeyFile), random); err != nil {
		return nil, err
	}
	id := KeyID(pub)
	r := &Registry{}
	if _, _, err := r.Register(id, pub, 0); err != nil {
		return nil, err
	}
	if err := r.Save(filepath.Join(dir, RegistryFile)); err != nil {
		return nil, err
	}
	return &Generated{LogVerifierKey: vkey, EventKeyID: id, EventPublicKey: pub}, nil
}

// GenerateSeed writes the seed of a new event key to path, mode 0600, durably,
// and returns its public key. It registers nothing: the key cannot sign events
// before [Registry.Register]. An existing file is an [fs.ErrExist].
func GenerateSeed(path string, random io.Reader) (ed25519.PublicKey, error) {
	seed, err := writeSecret(path, random)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey), nil
}

func writeSecret(path string, random io.Reader) (b [secretSize]byte, err error) {
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return b, fmt.Errorf("read randomness for %s: %w", path, err)
	}
	return b, durable.Create(path, []byte(secretLine(b)), 0o600)
}
