package server

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"filippo.io/mldsa"

	"counterfoil/internal/durable"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

// ErrKeyFile is what every refusal of [LoadKey] wraps, unless the file cannot be
// opened at all.
var ErrKeyFile = errors.New("key file refused")

// maxKeyFile bounds the file: a name of 255 bytes leaves room.
const maxKeyFile = 1 << 10

// Key is a witness's key. It prints as its public half.
type Key struct {
	public trust.VerifierKey
	sign   func(timestamp uint64, text string) ([]byte, error) // a closure: it is never printed
}

// Verifier is the public half.
func (k *Key) Verifier() trust.VerifierKey { return k.public }

func (k *Key) String() string               { return "key{" + k.public.String() + "}" }
func (k *Key) GoString() string             { return k.String() }
func (k *Key) Format(f fmt.State, _ rune)   { fmt.Fprint(f, k.String()) }
func (k *Key) LogValue() slog.Value         { return slog.StringValue(k.String()) }
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Cosign signs the text of a checkpoint at a time in seconds since 1970.
func (k *Key) Cosign(timestamp uint64, text string) (trust.NoteSignature, error) {
	sig, err := k.sign(timestamp, text)
	if err != nil {
		return trust.NoteSignature{}, fmt.Errorf("cosign as %s: %w", k.public.Name, err)
	}
	return rule.Cosignature(k.public, timestamp, text, sig)
}

// The file is one line, PRIVATE+KEY+<name>+<id>+<base64(type ‖ seed)>, where id
// is that of the verifier key and type 0x04 or 0x06: what other programs of the
// protocol read and write too. A seed has 32 bytes for both types.
const (
	keyPrefix = "PRIVATE+KEY+"
	seedSize  = 32
)

func keyText(k trust.VerifierKey, seed []byte) string {
	return fmt.Sprintf("%s%s+%08x+%s\n", keyPrefix, k.Name, k.ID, base64.StdEncoding.EncodeToString(append([]byte{byte(k.Type)}, seed...)))
}

func keyOf(name string, t trust.KeyType, seed []byte) (*Key, error) {
	switch t {
	case trust.TypeCosignature:
		private := ed25519.NewKeyFromSeed(seed)
		public, err := trust.NewVerifierKey(name, t, private.Public().(ed25519.PublicKey))
		if err != nil {
			return nil, err
		}
		return &Key{public: public, sign: func(timestamp uint64, text string) ([]byte, error) {
			return ed25519.Sign(private, rule.CosignatureMessage(timestamp, text)), nil
		}}, nil
	case trust.TypeMLDSA44:
		private, err := mldsa.NewPrivateKey(mldsa.MLDSA44(), seed)
		if err != nil {
			return nil, err
		}
		public, err := trust.NewVerifierKey(name, t, private.PublicKey().Bytes())
		if err != nil {
			return nil, err
		}
		return &Key{public: public, sign: func(timestamp uint64, text string) ([]byte, error) {
			c, err := trust.ParseCheckpoint(text)
			if err != nil {
				return nil, err
			}
			msg, err := rule.TreeMessage(name, timestamp, c)
			if err != nil {
				return nil, err
			}
			return private.Sign(nil, msg, nil)
		}}, nil
	}
	return nil, fmt.Errorf("no witness signs with a key of type %s", t)
}

// GenerateKey makes an Ed25519 key; see [GenerateKeyOf].
func GenerateKey(path, name string, random io.Reader) (*Key, error) {
	return GenerateKeyOf(trust.TypeCosignature, path, name, random)
}

// GenerateKeyOf makes a key of type 0x04 or 0x06 and stores it at path with mode
// 0600, durably. A file that exists is never replaced: the error is then an
// fs.ErrExist.
func GenerateKeyOf(t trust.KeyType, path, name string, random io.Reader) (*Key, error) {
	seed := make([]byte, seedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("draw a key: %w", err)
	}
	k, err := keyOf(name, t, seed)
	if err != nil {
		return nil, err
	}
	if err := durable.Create(path, []byte(keyText(k.public, seed)), 0o600); err != nil {
		return nil, fmt.Errorf("store the key: %w", err)
	}
	return k, nil
}

// LoadKey reads a key file in its one spelling. It refuses symbolic links, what
// is no regular file, and files that group or others can reach. No error quotes
// the content.
func LoadKey(path string) (*Key, error) {
	// O_NONBLOCK: opening a named pipe must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a symbolic link (hint: give the path of the file itself)", ErrKeyFile, path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open key file: %w (hint: make one with keygen)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open key file: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat key file: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrKeyFile, path)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o, which gives group or others access (hint: chmod 600 %s)", ErrKeyFile, path, fi.Mode().Perm(), path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	bad := fmt.Errorf("%w: %s is not one line %s<name>+<id>+<base64> of a cosigning key (hint: make one with keygen)", ErrKeyFile, path, keyPrefix)
	rest, ok := strings.CutPrefix(string(b), keyPrefix)
	parts := strings.SplitN(strings.TrimSuffix(rest, "\n"), "+", 3) // base64 may hold more pluses
	if !ok || len(b) > maxKeyFile || len(parts) != 3 {
		return nil, bad
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) != 1+seedSize {
		return nil, bad
	}
	k, err := keyOf(parts[0], trust.KeyType(raw[0]), raw[1:])
	if err != nil || keyText(k.public, raw[1:]) != string(b) {
		return nil, bad
	}
	return k, nil
}
