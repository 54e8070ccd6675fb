package rule

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

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

// Cosignature wraps an Ed25519 signature over [CosignatureMessage] as the line
// of a note: the 8 bytes of the time, big-endian, then the signature. It
// verifies what it returns, so that a broken signer cannot send out nonsense.
// The time is 1 to 2^63−1: 0 would say nothing about the largest tree seen.
func Cosignature(k trust.VerifierKey, timestamp uint64, text string, sig []byte) (trust.NoteSignature, error) {
	if k.Type != trust.TypeCosignature {
		return trust.NoteSignature{}, fmt.Errorf("cosign as %s: the key is of type %s, want 0x04", k.Name, k.Type)
	}
	if timestamp == 0 || timestamp > math.MaxInt64 {
		return trust.NoteSignature{}, fmt.Errorf("cosign as %s: time %d is not within 1 to 2^63−1", k.Name, timestamp)
	}
	if len(sig) != ed25519.SignatureSize {
		return trust.NoteSignature{}, fmt.Errorf("cosign as %s: signature of %d bytes, want %d", k.Name, len(sig), ed25519.SignatureSize)
	}
	line := trust.NoteSignature{Name: k.Name, ID: k.ID, Sig: append(binary.BigEndian.AppendUint64(nil, timestamp), sig...)}
	if _, ok := k.Verify(text, line.Sig); !ok {
		return trust.NoteSignature{}, errors.New("cosign as " + k.Name + ": the signer's answer does not verify under its own key")
	}
	return line, nil
}
