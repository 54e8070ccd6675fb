package event

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// PayloadType is the DSSE payload type of an event. It is pinned: a signature
// over another type is no signature over an event (ATT-04).
const PayloadType = "application/vnd.counterfoil.event.v1+json"

// b64 is strict: our formats accept one spelling (trailing bits must be zero).
var b64 = base64.StdEncoding.Strict()

// PAE is the DSSE v1 pre-authentication encoding: "DSSEv1", the length and
// bytes of the type, the length and bytes of the payload, separated by single
// spaces, lengths in decimal (ATT-03).
func PAE(payloadType string, payload []byte) []byte {
	b := make([]byte, 0, len("DSSEv1 ")+len(payloadType)+len(payload)+24)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(payloadType)), 10)
	b = append(b, ' ')
	b = append(b, payloadType...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, ' ')
	return append(b, payload...)
}

// KeyID names an Ed25519 public key: "ed25519:" and the hex SHA-256 of its 32
// bytes. It is a hint for finding the key, never a reason to trust it (ATT-09).
func KeyID(pub ed25519.PublicKey) string { return keyIDEd25519 + fingerprint(pub) }

// PrehashKeyID names an Ed25519 public key that signs by Ed25519ph (RFC 8032,
// section 5.1): "ed25519ph:" and the same fingerprint. Its signer needs no more
// than the [Prehash] of what is signed (ATT-32). A key is used in one of the two
// schemes only; its id says in which.
func PrehashKeyID(pub ed25519.PublicKey) string { return keyIDEd25519ph + fingerprint(pub) }

// IsKeyID reports whether id names pub, in either scheme.
func IsKeyID(id string, pub ed25519.PublicKey) bool {
	return id == KeyID(pub) || id == PrehashKeyID(pub)
}

// Prehash is what an Ed25519ph signer is given of a message: its SHA-512.
func Prehash(message []byte) [sha512.Size]byte { return sha512.Sum512(message) }

// VerifySignature reports whether sig is pub's signature over message in the
// scheme that keyID names: Ed25519, or Ed25519ph with an empty context. A key id
// that is not pub's verifies nothing.
func VerifySignature(keyID string, pub ed25519.PublicKey, message, sig []byte) bool {
	if len(pub) != ed25519.PublicKeySize || len(sig) != ed25519.SignatureSize {
		return false
	}
	switch keyID {
	case KeyID(pub):
		return ed25519.Verify(pub, message, sig)
	case PrehashKeyID(pub):
		digest := Prehash(message)
		return ed25519.VerifyWithOptions(pub, digest[:], sig, &ed25519.Options{Hash: crypto.SHA512}) == nil
	}
	return false
}

func fingerprint(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:])
}

const (
	keyIDEd25519   = "ed25519:"
	keyIDEd25519ph = "ed25519ph:"
)

// validKeyID accepts "algorithm:identifier", so that readers carry signatures
// of algorithms that they do not know.
func validKeyID(s string) bool {
	alg, id, ok := strings.Cut(s, ":")
	if !ok || alg == "" || len(alg) > 32 || id == "" || len(id) > 200 {
		return false
	}
	if alg == "ed25519" || alg == "ed25519ph" {
		return len(id) == 2*sha256.Size && lowerHex(id)
	}
	for i := 0; i < len(alg); i++ {
		if c := alg[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	for i := 0; i < len(id); i++ {
		if id[i] <= ' ' || id[i] > '~' || id[i] == '"' || id[i] == '\\' {
			return false
		}
	}
	return true
}

// VerifyWith reports which signature, if any, verifies under pub. Signatures of
// other keys and bad signatures before it do not hide it (ATT-11); −1 is none.
func (r *Record) VerifyWith(pub ed25519.PublicKey) int {
	var pae []byte
	for i, s := range r.Signatures {
		if !IsKeyID(s.KeyID, pub) {
			continue
		}
		if pae == nil {
			pae = PAE(PayloadType, r.EventBytes)
		}
		if VerifySignature(s.KeyID, pub, pae, s.Sig) {
			return i
		}
	}
	return -1
}
