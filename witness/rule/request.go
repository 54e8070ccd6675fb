package rule

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"counterfoil/ledger/trust"
)

const (
	// MaxProofHashes is the largest number of consistency proof lines: a client
	// must not send more (tlog-witness).
	MaxProofHashes = 63
	// MaxRequestBytes bounds the body of add-checkpoint. A note may carry
	// trust.MaxNoteSignatures lines; that many of ML-DSA-44 take about 330 KB.
	MaxRequestBytes = 512 << 10
	// HashSize is the size of a node hash, in bytes.
	HashSize = 32
)

// ErrSyntax is what every refusal of [ParseRequest] wraps.
var ErrSyntax = errors.New("malformed add-checkpoint request")

var b64 = base64.StdEncoding.Strict()

// Request is the body of add-checkpoint:
//
//	old <size>\n
//	<base64 hash>\n     0 to MaxProofHashes times
//	\n
//	<checkpoint, a signed note, verbatim>
//
// Nothing in it is to be believed before [Authenticate].
type Request struct {
	// Old is the size of the checkpoint that the proof starts from.
	Old uint64
	// Proof is the consistency proof from Old to the checkpoint's size.
	Proof [][]byte
	// Note is the checkpoint as a signed note.
	Note *trust.Note
	// Checkpoint is the parsed text of Note.
	Checkpoint trust.Checkpoint
}

// ParseRequest reads a request. It accepts exactly what Append writes: every
// second spelling (leading zeros, base64 with trailing bits or line breaks, CR
// LF, blanks) is refused.
func ParseRequest(b []byte) (*Request, error) {
	if len(b) > MaxRequestBytes {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrSyntax, len(b), MaxRequestBytes)
	}
	head, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%w: no old size line", ErrSyntax)
	}
	r := new(Request)
	digits, ok := strings.CutPrefix(string(head), "old ")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
		return nil, fmt.Errorf("%w: line 1 is not \"old \" and a decimal number without leading zeros", ErrSyntax)
	}
	r.Old = n
	for line := 2; ; line++ {
		var text []byte
		if text, rest, ok = bytes.Cut(rest, []byte("\n")); !ok {
			return nil, fmt.Errorf("%w: no blank line between proof and checkpoint", ErrSyntax)
		}
		if len(text) == 0 {
			break
		}
		if len(r.Proof) == MaxProofHashes {
			return nil, fmt.Errorf("%w: more than %d proof lines", ErrSyntax, MaxProofHashes)
		}
		hash, err := decodeHash(string(text))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrSyntax, line, err)
		}
		r.Proof = append(r.Proof, hash)
	}
	if r.Note, err = trust.ParseNote(rest); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	if r.Checkpoint, err = trust.ParseCheckpoint(r.Note.Text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	if !bytes.Equal(r.Append(nil), b) {
		return nil, fmt.Errorf("%w: it is not in the one spelling of a request", ErrSyntax)
	}
	return r, nil
}

// Append adds the bytes of the request to dst.
func (r *Request) Append(dst []byte) []byte {
	dst = append(dst, "old "...)
	dst = strconv.AppendUint(dst, r.Old, 10)
	dst = append(dst, '\n')
	for _, h := range r.Proof {
		dst = b64.AppendEncode(dst, h)
		dst = append(dst, '\n')
	}
	dst = append(dst, '\n')
	return r.Note.Append(dst)
}

func decodeHash(s string) ([]byte, error) {
	if len(s) != base64.StdEncoding.EncodedLen(HashSize) {
		return nil, fmt.Errorf("%d characters are not the base64 of %d bytes", len(s), HashSize)
	}
	b, err := b64.DecodeString(s)
	if err != nil || len(b) != HashSize {
		return nil, fmt.Errorf("not the base64 of %d bytes", HashSize)
	}
	return b, nil
}
