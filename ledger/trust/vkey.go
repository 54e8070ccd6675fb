package trust

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"filippo.io/mldsa"
)

// KeyType is the signature type byte of C2SP signed-note.
type KeyType byte

// The signature types that are verified here.
const (
	// TypeEd25519 signs the note text itself.
	TypeEd25519 KeyType = 0x01
	// TypeCosignature is a timestamped Ed25519 cosignature of a checkpoint.
	TypeCosignature KeyType = 0x04
	// TypeMLDSA44 is a timestamped ML-DSA-44 cosignature of a checkpoint. It
	// does not cover extension lines.
	TypeMLDSA44 KeyType = 0x06
)

func (t KeyType) String() string {
	switch t {
	case TypeEd25519:
		return "Ed25519"
	case TypeCosignature:
		return "Ed25519 cosignature"
	case TypeMLDSA44:
		return "ML-DSA-44 cosignature"
	}
	return fmt.Sprintf("signature type 0x%02x", byte(t))
}

// MaxKeyNameBytes bounds key names and origins: the ML-DSA-44 message gives
// their length one byte.
const MaxKeyNameBytes = 255

// ErrVerifierKey is what every refusal of [ParseVerifierKey] wraps.
var ErrVerifierKey = errors.New("malformed verifier key")

// VerifierKey is a public key of a log or witness. Make one with
// NewVerifierKey or ParseVerifierKey; it is not to be changed afterwards.
type VerifierKey struct {
	Name string
	ID   uint32 // first 4 bytes, big-endian, of SHA-256(name ‖ 0x0A ‖ type ‖ public key)
	Type KeyType
	// Public is the public key: 32 bytes, or 1,312 for ML-DSA-44.
	Public []byte

	lattice *mldsa.PublicKey
}

// NewVerifierKey checks the parts of a verifier key and derives its id. It
// keeps a copy of public.
func NewVerifierKey(name string, t KeyType, public []byte) (VerifierKey, error) {
	if err := checkKeyName(name); err != nil {
		return VerifierKey{}, fmt.Errorf("%w: %w", ErrVerifierKey, err)
	}
	if len(name) > MaxKeyNameBytes {
		return VerifierKey{}, fmt.Errorf("%w: name of %d bytes, limit %d", ErrVerifierKey, len(name), MaxKeyNameBytes)
	}
	if strings.ContainsRune(name, 0x7f) { // a note can hold it, a policy cannot
		return VerifierKey{}, fmt.Errorf("%w: name %q holds U+007F", ErrVerifierKey, clip(name))
	}
	k := VerifierKey{Name: name, Type: t, Public: bytes.Clone(public)}
	want := ed25519.PublicKeySize
	switch t {
	case TypeEd25519, TypeCosignature:
	case TypeMLDSA44:
		want = mldsa.MLDSA44PublicKeySize
	default:
		return VerifierKey{}, fmt.Errorf("%w: %s of %s is not one of 0x01, 0x04, 0x06", ErrVerifierKey, t, clip(name))
	}
	if len(public) != want {
		return VerifierKey{}, fmt.Errorf("%w: public key of %s has %d bytes, want %d for %s", ErrVerifierKey, clip(name), len(public), want, t)
	}
	if t == TypeMLDSA44 {
		var err error
		if k.lattice, err = mldsa.NewPublicKey(mldsa.MLDSA44(), k.Public); err != nil {
			return VerifierKey{}, fmt.Errorf("%w: public key of %s: %w", ErrVerifierKey, clip(name), err)
		}
	}
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{'\n', byte(t)})
	h.Write(public)
	k.ID = binary.BigEndian.Uint32(h.Sum(nil))
	return k, nil
}

// ParseVerifierKey reads name+id+base64(type ‖ public key), the id as 8
// lower-case hex digits, and refuses an id that is not the key's own. String
// gives the same text back.
func ParseVerifierKey(s string) (VerifierKey, error) {
	parts := strings.SplitN(s, "+", 3) // base64 may hold more plus signs
	if len(parts) != 3 {
		return VerifierKey{}, fmt.Errorf("%w: %q is not name+id+base64", ErrVerifierKey, clip(s))
	}
	if len(parts[2]) > b64.EncodedLen(1+mldsa.MLDSA44PublicKeySize) {
		return VerifierKey{}, fmt.Errorf("%w: key of %s is too long", ErrVerifierKey, clip(parts[0]))
	}
	raw, err := decode64(parts[2])
	if err != nil {
		return VerifierKey{}, fmt.Errorf("%w: key of %s: %w", ErrVerifierKey, clip(parts[0]), err)
	}
	if len(raw) == 0 {
		return VerifierKey{}, fmt.Errorf("%w: key of %s is empty", ErrVerifierKey, clip(parts[0]))
	}
	k, err := NewVerifierKey(parts[0], KeyType(raw[0]), raw[1:])
	if err != nil {
		return VerifierKey{}, err
	}
	if want := fmt.Sprintf("%08x", k.ID); parts[1] != want {
		return VerifierKey{}, fmt.Errorf("%w: id of %s is %q, but the key has %s", ErrVerifierKey, clip(parts[0]), clip(parts[1]), want)
	}
	return k, nil
}

// String is the form that ParseVerifierKey reads.
func (k VerifierKey) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.Name, k.ID, b64.EncodeToString(append([]byte{byte(k.Type)}, k.Public...)))
}

// SameKey reports whether two verifier keys wrap one public key, whatever
// their names and types.
func (k VerifierKey) SameKey(other VerifierKey) bool { return bytes.Equal(k.Public, other.Public) }

// Cosigns reports whether the key is of a type that witnesses sign with.
func (k VerifierKey) Cosigns() bool { return k.Type == TypeCosignature || k.Type == TypeMLDSA44 }

// Logs reports whether the key is of a type that logs sign with.
func (k VerifierKey) Logs() bool { return k.Type == TypeEd25519 || k.Type == TypeMLDSA44 }

const timestampBytes = 8

// Verify checks one signature (without its key id) over a note text.
// Cosignatures state a time in seconds since 1970, at most 2^63−1, and are only
// good for a text that is a checkpoint if they are of type TypeMLDSA44.
// Source: C2SP signed-note and tlog-cosignature.
func (k VerifierKey) Verify(text string, sig []byte) (timestamp uint64, ok bool) {
	switch k.Type {
	case TypeEd25519:
		return 0, len(k.Public) == ed25519.PublicKeySize && ed25519.Verify(k.Public, []byte(text), sig)
	case TypeCosignature:
		if len(k.Public) != ed25519.PublicKeySize || len(sig) != timestampBytes+ed25519.SignatureSize {
			return 0, false
		}
	case TypeMLDSA44:
		if k.lattice == nil || len(sig) != timestampBytes+mldsa.MLDSA44SignatureSize {
			return 0, false
		}
	default:
		return 0, false
	}
	timestamp = binary.BigEndian.Uint64(sig)
	if timestamp > math.MaxInt64 {
		return 0, false
	}
	if k.Type == TypeCosignature {
		msg := append([]byte("cosignature/v1\ntime "), strconv.FormatUint(timestamp, 10)...)
		msg = append(msg, '\n')
		msg = append(msg, text...)
		return timestamp, ed25519.Verify(k.Public, msg, sig[timestampBytes:])
	}
	c, err := ParseCheckpoint(text)
	if err != nil || len(c.Origin) > MaxKeyNameBytes {
		return 0, false
	}
	return timestamp, mldsa.Verify(k.lattice, cosignedTree(k.Name, timestamp, c), sig[timestampBytes:], nil) == nil
}

// cosignedTree is the message of an ML-DSA-44 cosignature over a whole tree.
func cosignedTree(cosigner string, timestamp uint64, c Checkpoint) []byte {
	b := append([]byte("subtree/v1\n\x00"), byte(len(cosigner)))
	b = append(b, cosigner...)
	b = binary.BigEndian.AppendUint64(b, timestamp)
	b = append(b, byte(len(c.Origin)))
	b = append(b, c.Origin...)
	b = binary.BigEndian.AppendUint64(b, 0) // start of the subtree
	b = binary.BigEndian.AppendUint64(b, c.Size)
	return append(b, c.Root[:]...)
}
