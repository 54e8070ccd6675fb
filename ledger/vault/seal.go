package vault

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
)

// Kinds of rows: the first byte of a row's name.
const (
	rowMeta    byte = 'm'
	rowKey     byte = 'k'
	rowBody    byte = 'b'
	rowChunk   byte = 'c'
	rowPending byte = 'p'
	rowObject  byte = 'o'
	rowPiece   byte = 'd'
	rowRef     byte = 'a' // of an owner to an object
	rowBackRef byte = 'r' // of an object to its owners
	rowLoose   byte = 'q'
	rowIndex   byte = 's' // of the log's messages, see change.go
	rowShared  byte = 'x' // where this vault is in the log, see attach.go
)

// nameSize is the length of the names made of ids.
const nameSize = sha256.Size

// attemptName stands for an attempt id in the names of rows.
type attemptName [nameSize]byte

// objectName stands for the digest of an object in the names of rows.
type objectName [nameSize]byte

const (
	sealVersion  = 1
	sealOverhead = 1 + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
)

// sealer names and seals rows.
type sealer struct {
	nameKey     []byte
	rows        cipher.AEAD // seals k rows
	bodyRoot    []byte      // seals, with the attempt's key, b and c rows
	fingerprint []byte      // derived, so that it tells nothing of the other keys
	random      io.Reader
}

func newSealer(sealKey [32]byte, random io.Reader) (*sealer, error) {
	s := &sealer{random: random}
	var rows []byte
	for _, k := range []struct {
		label string
		key   *[]byte
	}{
		{"counterfoil.vault.names.v1", &s.nameKey},
		{"counterfoil.vault.rows.v1", &rows},
		{"counterfoil.vault.bodies.v1", &s.bodyRoot},
		{"counterfoil.vault.fingerprint.v1", &s.fingerprint},
	} {
		key, err := hkdf.Key(sha256.New, sealKey[:], nil, k.label, 32)
		if err != nil {
			return nil, fmt.Errorf("derive keys: %w", err)
		}
		*k.key = key
	}
	var err error
	s.rows, err = chacha20poly1305.NewX(rows)
	return s, err
}

// bodies seals the bodies of one attempt.
func (s *sealer) bodies(attemptKey [KeySize]byte) (cipher.AEAD, error) {
	return chacha20poly1305.NewX(mac(s.bodyRoot, "counterfoil.vault.body.v1", string(attemptKey[:])))
}

func (s *sealer) attempt(id string) attemptName {
	return attemptName(mac(s.nameKey, "attempt", id))
}

// body names a body within its attempt. The id goes in again: equal slots of
// two attempts have different names.
func (s *sealer) body(a attemptName, slot, name string) []byte {
	return append(row(rowBody, a), mac(s.nameKey, "body", string(a[:]), slot, name)...)
}

// object names a body by its digest. Without the seal key nobody can tell
// whether the vault has it, and two vaults have no name in common.
func (s *sealer) object(digest [sha256.Size]byte) objectName {
	return objectName(mac(s.nameKey, "object", string(digest[:])))
}

// pieces seals the pieces of one object.
func (s *sealer) pieces(key [KeySize]byte) (cipher.AEAD, error) {
	return chacha20poly1305.NewX(mac(s.bodyRoot, "counterfoil.vault.object.v1", string(key[:])))
}

func row(kind byte, a attemptName) []byte {
	return append([]byte{kind}, a[:]...)
}

func chunkRow(a attemptName, id [bodyIDSize]byte, number int) []byte {
	return binary.BigEndian.AppendUint32(append(row(rowChunk, a), id[:]...), uint32(number))
}

// mac is HMAC-SHA256 over the parts, each after its length as 8 bytes.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		io.WriteString(h, p)
	}
	return h.Sum(nil)
}

// lock seals the content of a row: version ‖ nonce ‖ ciphertext. The row's name
// is bound to it.
func (s *sealer) lock(aead cipher.AEAD, name, content []byte) ([]byte, error) {
	out := make([]byte, 1+chacha20poly1305.NonceSizeX, sealOverhead+len(content))
	out[0] = sealVersion
	nonce := out[1:]
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return nil, fmt.Errorf("read randomness: %w", err)
	}
	return aead.Seal(out, nonce, content, associated(name)), nil
}

// unlock is the reverse of lock; the error is [ErrCorrupt].
func (s *sealer) unlock(aead cipher.AEAD, name, sealed []byte) ([]byte, error) {
	if len(sealed) < sealOverhead || sealed[0] != sealVersion {
		return nil, fmt.Errorf("%w: a row of kind %q is not sealed in a known way", ErrCorrupt, name[0])
	}
	nonce, ct := sealed[1:1+chacha20poly1305.NonceSizeX], sealed[1+chacha20poly1305.NonceSizeX:]
	content, err := aead.Open(nil, nonce, ct, associated(name))
	if err != nil {
		return nil, fmt.Errorf("%w: a row of kind %q does not open", ErrCorrupt, name[0])
	}
	return content, nil
}

func associated(name []byte) []byte {
	return append([]byte("counterfoil.vault.row.v1\x00"), name...)
}
