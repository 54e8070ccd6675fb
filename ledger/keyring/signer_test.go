package keyring_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"sync"
	"testing"

	"counterfoil/ledger/keyring"
)

// outside is a signer that may lie.
type outside struct {
	id  string
	pub ed25519.PublicKey
	key ed25519.PrivateKey
	// sign replaces the honest answer when set.
	sign func(pae []byte) ([]byte, error)
}

func (o *outside) KeyID() string             { return o.id }
func (o *outside) Public() ed25519.PublicKey { return o.pub }
func (o *outside) Sign(pae []byte) ([]byte, error) {
	if o.sign != nil {
		return o.sign(pae)
	}
	return ed25519.Sign(o.key, pae), nil
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &outside{id: keyring.KeyID(pub), pub: pub, key: key}
}

func TestATT33_LyingSignersAreCaught(t *testing.T) {
	msg := []byte("DSSEv1 7 payload 5 event")
	boom := errors.New("service unavailable")
	for name, tc := range map[string]struct {
		lie  func(o, other *outside)
		want error
	}{
		"honest": {func(o, _ *outside) {}, nil},
		"nothing": {func(o, _ *outside) {
			o.sign = func([]byte) ([]byte, error) { return nil, nil }
		}, keyring.ErrBadSignature},
		"zeros": {func(o, _ *outside) {
			o.sign = func([]byte) ([]byte, error) { return make([]byte, 64), nil }
		}, keyring.ErrBadSignature},
		"short": {func(o, _ *outside) {
			o.sign = func(p []byte) ([]byte, error) { return ed25519.Sign(o.key, p)[:63], nil }
		}, keyring.ErrBadSignature},
		"trailing byte": {func(o, _ *outside) {
			o.sign = func(p []byte) ([]byte, error) { return append(ed25519.Sign(o.key, p), 0), nil }
		}, keyring.ErrBadSignature},
		"one bit": {func(o, _ *outside) {
			o.sign = func(p []byte) ([]byte, error) {
				s := ed25519.Sign(o.key, p)
				s[40] ^= 1
				return s, nil
			}
		}, keyring.ErrBadSignature},
		"other message": {func(o, _ *outside) {
			o.sign = func(p []byte) ([]byte, error) { return ed25519.Sign(o.key, append(p, 'x')), nil }
		}, keyring.ErrBadSignature},
		"message changed in place": {func(o, _ *outside) {
			o.sign = func(p []byte) ([]byte, error) {
				p[0] ^= 1
				return ed25519.Sign(o.key, p), nil
			}
		}, keyring.ErrBadSignature},
		"other key": {func(o, other *outside) {
			o.sign = func(p []byte) ([]byte, error) { return ed25519.Sign(other.key, p), nil }
		}, keyring.ErrBadSignature},
		"key exchanged while signing": {func(o, other *outside) {
			o.sign = func(p []byte) ([]byte, error) {
				copy(o.pub, other.pub)
				o.id = other.id
				return ed25519.Sign(other.key, p), nil
			}
		}, keyring.ErrBadSignature},
		"other id":      {func(o, other *outside) { o.id = other.id }, keyring.ErrMismatch},
		"no public key": {func(o, _ *outside) { o.pub = nil }, keyring.ErrMismatch},
		"its own error": {func(o, _ *outside) {
			o.sign = func(p []byte) ([]byte, error) { return ed25519.Sign(o.key, p), boom }
		}, boom},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t)
			pub := bytes.Clone(o.pub)
			tc.lie(o, newOutside(t))
			given := bytes.Clone(msg)
			sig, err := keyring.Verified(o).Sign(given)
			if !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if !bytes.Equal(given, msg) {
				t.Error("the signer changed the caller's bytes")
			}
			if tc.want != nil && sig != nil {
				t.Error("a signature was given out with the error")
			}
			if tc.want == nil && !ed25519.Verify(pub, msg, sig) {
				t.Error("signature does not verify")
			}
		})
	}
}

func TestATT33_SignatureCannotChangeAfterwards(t *testing.T) {
	o := newOutside(t)
	var kept []byte
	o.sign = func(p []byte) ([]byte, error) {
		kept = ed25519.Sign(o.key, p)
		return kept, nil
	}
	msg := []byte("m")
	sig, err := keyring.Verified(o).Sign(msg)
	if err != nil {
		t.Fatal(err)
	}
	clear(kept)
	if !ed25519.Verify(o.pub, msg, sig) {
		t.Error("the signer changed a signature that was verified")
	}
}

func TestSignersAreConcurrent(t *testing.T) {
	dir, _ := generate(t)
	cfg := config(dir)
	cfg.VerifySignatures = true
	k, err := keyring.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			msg := bytes.Repeat([]byte{byte(i)}, 100)
			for range 20 {
				sig, err := k.Event().Sign(msg)
				if err != nil || !ed25519.Verify(k.Event().Public(), msg, sig) {
					t.Errorf("goroutine %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestCallerCannotChangeTheKey(t *testing.T) {
	dir, g := generate(t)
	k, err := keyring.Open(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	clear(k.Event().Public())
	clear(k.TenantKey().Bytes())
	if !k.Event().Public().Equal(g.EventPublicKey) || k.TenantKey().Array() == [32]byte{} {
		t.Error("a returned slice is the key itself")
	}
}
