package keyring

import (
	"encoding/json"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is 32 bytes that are not printed. They lie in a closure: where a
// Secret stands in an unexported field fmt cannot call its methods, and it
// follows a pointer there under some verbs, but never a function. The zero
// Secret has no bytes.
type Secret struct{ get func() [32]byte }

// NewSecret holds a copy of b.
func NewSecret(b [32]byte) Secret { return Secret{func() [32]byte { return b }} }

// Bytes is a copy of the secret, nil for the zero Secret.
func (s Secret) Bytes() []byte {
	if s.get == nil {
		return nil
	}
	b := s.get()
	return b[:]
}

// Array is a copy of the secret, all zeros for the zero Secret.
func (s Secret) Array() [32]byte {
	if s.get == nil {
		return [32]byte{}
	}
	return s.get()
}

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) Format(f fmt.State, _ rune)   { fmt.Fprint(f, redacted) }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// describe is what is shown of a keyring: public halves only.
func (k *Keyring) describe() string {
	return fmt.Sprintf("keyring{event %s, log %s, tenant %s}", k.event.KeyID(), k.logVKey, k.TenantFingerprint())
}

func (k *Keyring) String() string               { return k.describe() }
func (k *Keyring) GoString() string             { return k.describe() }
func (k *Keyring) Format(f fmt.State, _ rune)   { fmt.Fprint(f, k.describe()) }
func (k *Keyring) LogValue() slog.Value         { return slog.StringValue(k.describe()) }
func (k *Keyring) MarshalJSON() ([]byte, error) { return json.Marshal(k.describe()) }

func (s *localSigner) describe() string { return "signer{" + s.id + "}" }

func (s *localSigner) String() string               { return s.describe() }
func (s *localSigner) GoString() string             { return s.describe() }
func (s *localSigner) Format(f fmt.State, _ rune)   { fmt.Fprint(f, s.describe()) }
func (s *localSigner) LogValue() slog.Value         { return slog.StringValue(s.describe()) }
func (s *localSigner) MarshalJSON() ([]byte, error) { return json.Marshal(s.describe()) }
