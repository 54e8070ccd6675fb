package keyring

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"

	"counterfoil/ledger/event"
)

// ErrBadSignature: a signer returned something that is not its signature.
var ErrBadSignature = errors.New("signer returned a wrong signature")

// Signer signs events. Implementations are safe for concurrent use.
type Signer interface {
	// KeyID is the id of Public: [KeyID], or [event.PrehashKeyID] if it signs
	// by Ed25519ph.
	KeyID() string
	// Public is the public key. The caller does not change it.
	Public() ed25519.PublicKey
	// Sign returns the 64-byte signature over pae, the DSSE pre-authentication
	// encoding of an event, in the scheme that the key id names. It neither changes nor keeps
	// pae. On an error nothing was signed as far as the caller is concerned;
	// nothing is retried here.
	Sign(pae []byte) ([]byte, error)
}

// Verified wraps a signer whose answers are not to be trusted: a helper
// program, a key service, hardware. Every signature is verified under the
// public key that the signer named when it was wrapped before it is given out
// (ATT-33); otherwise the error is [ErrBadSignature], or [ErrMismatch] if key
// id and public key do not belong together. The signer works on copies, so it
// cannot change what is verified, before or afterwards.
func Verified(s Signer) Signer {
	return &verified{inner: s, id: s.KeyID(), pub: bytes.Clone(s.Public())}
}

type verified struct {
	inner Signer
	id    string
	pub   ed25519.PublicKey
}

func (v *verified) KeyID() string             { return v.id }
func (v *verified) Public() ed25519.PublicKey { return bytes.Clone(v.pub) }

func (v *verified) Sign(pae []byte) ([]byte, error) {
	if len(v.pub) != ed25519.PublicKeySize || !event.IsKeyID(v.id, v.pub) {
		return nil, fmt.Errorf("sign with %s: %w: the signer's public key has another id", v.id, ErrMismatch)
	}
	theirs, err := v.inner.Sign(bytes.Clone(pae))
	if err != nil {
		return nil, fmt.Errorf("sign with %s: %w", v.id, err)
	}
	sig := bytes.Clone(theirs)
	if !event.VerifySignature(v.id, v.pub, pae, sig) {
		return nil, fmt.Errorf("sign with %s: %w: %d bytes that do not verify", v.id, ErrBadSignature, len(sig))
	}
	return sig, nil
}

// localSigner signs with a key in this process, which lies in a closure for the
// same reason as in [Secret].
type localSigner struct {
	id   string
	pub  ed25519.PublicKey
	sign func(msg []byte) []byte
}

// selfTest cannot be taken for the encoding of an event, which begins with
// "DSSEv1 ".
const selfTest = "counterfoil.keyring.self-test.v1"

// newLocalSigner checks the pair once, which is why [Config.VerifySignatures]
// may stay off.
func newLocalSigner(seed Secret) (*localSigner, error) {
	key := ed25519.NewKeyFromSeed(seed.Bytes())
	s := &localSigner{
		pub:  key.Public().(ed25519.PublicKey),
		sign: func(msg []byte) []byte { return ed25519.Sign(key, msg) },
	}
	s.id = KeyID(s.pub)
	if _, err := Verified(s).Sign([]byte(selfTest)); err != nil {
		return nil, fmt.Errorf("self-test: %w", err)
	}
	return s, nil
}

func (s *localSigner) KeyID() string                   { return s.id }
func (s *localSigner) Public() ed25519.PublicKey       { return bytes.Clone(s.pub) }
func (s *localSigner) Sign(pae []byte) ([]byte, error) { return s.sign(pae), nil }
