package rule

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"filippo.io/mldsa"

	"counterfoil/ledger/trust"
)

// CosignatureMessage is what a cosignature of type 0x04 signs: the line
// "cosignature/v1", the line "time <seconds since 1970>", and the whole text of
// the checkpoint with its extension lines (tlog-cosignature). It does not name
// the cosigner: a key must belong to one name only.
func CosignatureMessage(timestamp uint64, text string) []byte {
	b := append([]byte("cosignature/v1\ntime "), strconv.FormatUint(timestamp, 10)...)
	b = append(b, '\n')
	return append(b, text...)
}

// TreeMessage is what a cosignature of type 0x06 signs for a whole tree: the 12
// bytes "subtree/v1\n" and NUL, the cosigner's name with its length in one byte,
// the time, the origin with its length in one byte, start 0 and end, and the
// root; numbers of 8 bytes, big-endian (tlog-cosignature). Extension lines are
// not part of it. Name and origin have 1 to 255 bytes.
func TreeMessage(cosigner string, timestamp uint64, c trust.Checkpoint) ([]byte, error) {
	for _, s := range []string{cosigner, c.Origin} {
		if len(s) == 0 || len(s) > trust.MaxKeyNameBytes {
			return nil, fmt.Errorf("a name of %d bytes, want 1 to %d", len(s), trust.MaxKeyNameBytes)
		}
	}
	b := append([]byte("subtree/v1\n\x00"), byte(len(cosigner)))
	b = append(b, cosigner...)
	b = binary.BigEndian.AppendUint64(b, timestamp)
	b = append(b, byte(len(c.Origin)))
	b = append(b, c.Origin...)
	b = binary.BigEndian.AppendUint64(b, 0) // start
	b = binary.BigEndian.AppendUint64(b, c.Size)
	return append(b, c.Root[:]...), nil
}

// Cosignature wraps a signature over [CosignatureMessage], or over [TreeMessage]
// by a key of type 0x06, as the line of a note: the 8 bytes of the time,
// big-endian, then the signature. It verifies what it returns, so that a broken
// signer cannot send out nonsense. The time is 1 to 2^63−1: 0 would say nothing
// about the largest tree seen.
func Cosignature(k trust.VerifierKey, timestamp uint64, text string, sig []byte) (trust.NoteSignature, error) {
	want := ed25519.SignatureSize
	switch k.Type {
	case trust.TypeCosignature:
	case trust.TypeMLDSA44:
		want = mldsa.MLDSA44SignatureSize
	default:
		return trust.NoteSignature{}, fmt.Errorf("cosign as %s: the key is of type %s, want 0x04 or 0x06", k.Name, k.Type)
	}
	if timestamp == 0 || timestamp > math.MaxInt64 {
		return trust.NoteSignature{}, fmt.Errorf("cosign as %s: time %d is not within 1 to 2^63−1", k.Name, timestamp)
	}
	if len(sig) != want {
		return trust.NoteSignature{}, fmt.Errorf("cosign as %s: signature of %d bytes, want %d", k.Name, len(sig), want)
	}
	line := trust.NoteSignature{Name: k.Name, ID: k.ID, Sig: append(binary.BigEndian.AppendUint64(nil, timestamp), sig...)}
	if _, ok := k.Verify(text, line.Sig); !ok {
		return trust.NoteSignature{}, errors.New("cosign as " + k.Name + ": the signer's answer does not verify under its own key")
	}
	return line, nil
}
