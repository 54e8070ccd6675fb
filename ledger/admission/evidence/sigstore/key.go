package sigstore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Key is a public key that is believed.
type Key struct {
	// ID is the hint by which a bundle names the key. The hint chooses a key and
	// proves nothing.
	ID string
	// Public is an ECDSA, RSA (at least 2048 bits) or Ed25519 key.
	Public crypto.PublicKey
	// NotBefore and NotAfter bound the times at which it may have signed; zero
	// means no bound.
	NotBefore, NotAfter time.Time
	// Unlogged accepts signatures that no transparency log has. A key with a
	// bound still needs a timestamp.
	Unlogged bool
}

// minRSA is the shortest RSA key that is believed.
const minRSA = 2048

// ParsePublicKey reads a SubjectPublicKeyInfo in DER.
func ParsePublicKey(der []byte) (crypto.PublicKey, error) {
	k, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	switch k := k.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return k, nil
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return nil, fmt.Errorf("an RSA key of %d bits, want at least %d", k.N.BitLen(), minRSA)
		}
		return k, nil
	}
	return nil, fmt.Errorf("a key of type %T, want ECDSA, RSA or Ed25519", k)
}

// ParsePEMKey reads one public key in PEM. Its id is the hint that Sigstore's
// tools write: the base64 of the SHA-256 of its DER.
func ParsePEMKey(b []byte) (Key, error) {
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "PUBLIC KEY" {
		return Key{}, errors.New(`no PEM block "PUBLIC KEY"`)
	}
	if next, _ := pem.Decode(rest); next != nil {
		return Key{}, errors.New("more than one PEM block, expected one key")
	}
	public, err := ParsePublicKey(block.Bytes)
	if err != nil {
		return Key{}, err
	}
	sum := sha256.Sum256(block.Bytes)
	return Key{ID: base64.StdEncoding.EncodeToString(sum[:]), Public: public}, nil
}
