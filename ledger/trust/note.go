package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a signed note. A checkpoint with 100 ML-DSA-44 cosignatures takes
// about 330 KB.
const (
	MaxNoteBytes          = 1 << 20
	MaxNoteSignatures     = 100 // the specification asks for at least 16
	maxNoteSignatureBytes = 8 << 10
)

// ErrNote is what every refusal of [ParseNote] wraps.
var ErrNote = errors.New("malformed signed note")

// Note is a text with signatures, as C2SP signed-note defines it. Nothing in a
// note is to be believed before a signature by a trusted key was verified.
type Note struct {
	// Text is what is signed. It ends in a newline.
	Text string
	// Signatures are the signature lines in their order, of known and unknown
	// keys alike.
	Signatures []NoteSignature
}

// NoteSignature is one signature line: "— <name> <base64(id ‖ sig)>\n".
type NoteSignature struct {
	Name string
	ID   uint32
	Sig  []byte // without the 4 bytes of the id; at least 1 byte
}

const (
	noteBreak = "\n\n"
	sigPrefix = "— " // U+2014 U+0020
)

// ParseNote reads a signed note: text, a blank line (the last one of the note),
// then 1 to MaxNoteSignatures signature lines. It refuses notes over
// MaxNoteBytes, invalid UTF-8, control characters below U+0020 other than
// newline, and every second spelling (base64 without padding or with trailing
// bits, missing last newline). Of each accepted note, Append gives the same
// bytes back. It verifies nothing.
func ParseNote(b []byte) (*Note, error) {
	if len(b) > MaxNoteBytes {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrNote, len(b), MaxNoteBytes)
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%w: invalid UTF-8", ErrNote)
	}
	s := string(b)
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' && s[i] != '\n' {
			return nil, fmt.Errorf("%w: control character 0x%02x at byte %d", ErrNote, s[i], i)
		}
	}
	at := strings.LastIndex(s, noteBreak)
	if at < 0 {
		return nil, fmt.Errorf("%w: no blank line between text and signatures", ErrNote)
	}
	text, lines := s[:at+1], s[at+len(noteBreak):]
	if lines == "" {
		return nil, fmt.Errorf("%w: no signature line", ErrNote)
	}
	if !strings.HasSuffix(lines, "\n") {
		return nil, fmt.Errorf("%w: last line does not end in a newline", ErrNote)
	}
	n := &Note{Text: text}
	for line := range strings.SplitSeq(strings.TrimSuffix(lines, "\n"), "\n") {
		if len(n.Signatures) == MaxNoteSignatures {
			return nil, fmt.Errorf("%w: more than %d signature lines", ErrNote, MaxNoteSignatures)
		}
		sig, err := parseSignatureLine(line)
		if err != nil {
			return nil, fmt.Errorf("%w: signature line %d: %w", ErrNote, len(n.Signatures)+1, err)
		}
		n.Signatures = append(n.Signatures, sig)
	}
	return n, nil
}

func parseSignatureLine(line string) (NoteSignature, error) {
	rest, ok := strings.CutPrefix(line, sigPrefix)
	if !ok {
		return NoteSignature{}, errors.New("does not begin with an em dash and a space")
	}
	name, encoded, ok := strings.Cut(rest, " ")
	if !ok {
		return NoteSignature{}, errors.New("is not name, space, base64")
	}
	if err := checkKeyName(name); err != nil {
		return NoteSignature{}, err
	}
	if len(encoded) > b64.EncodedLen(4+maxNoteSignatureBytes) {
		return NoteSignature{}, fmt.Errorf("signature over %d bytes", maxNoteSignatureBytes)
	}
	raw, err := decode64(encoded)
	if err != nil {
		return NoteSignature{}, err
	}
	if len(raw) < 5 {
		return NoteSignature{}, fmt.Errorf("%d bytes are no key id and signature", len(raw))
	}
	return NoteSignature{Name: name, ID: binary.BigEndian.Uint32(raw), Sig: raw[4:]}, nil
}

// checkKeyName applies the signed-note rule: not empty, no Unicode space, no
// plus sign; and what a note cannot hold.
func checkKeyName(name string) error {
	if name == "" {
		return errors.New("key name is empty")
	}
	if !utf8.ValidString(name) {
		return errors.New("key name is invalid UTF-8")
	}
	for _, r := range name {
		if r < ' ' || r == '+' || unicode.IsSpace(r) {
			return fmt.Errorf("key name %q holds %U", clip(name), r)
		}
	}
	return nil
}

// Append adds the bytes of the note to dst: the form that ParseNote reads.
func (n *Note) Append(dst []byte) []byte {
	dst = append(dst, n.Text...)
	dst = append(dst, '\n')
	for _, s := range n.Signatures {
		dst = s.Append(dst)
	}
	return dst
}

// Append adds the signature line with its newline to dst.
func (s NoteSignature) Append(dst []byte) []byte {
	dst = append(dst, sigPrefix...)
	dst = append(dst, s.Name...)
	dst = append(dst, ' ')
	raw := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(s.Sig)), s.ID)
	dst = b64.AppendEncode(dst, append(raw, s.Sig...))
	return append(dst, '\n')
}

// ErrNoteSignature: a line that names a known key by name and id does not
// verify under it. The whole note is then to be refused.
var ErrNoteSignature = errors.New("signature does not verify")

// Verified says what [Note.VerifyBy] found.
type Verified struct {
	// Lines is how many lines the key signed; 0 if it did not sign.
	Lines int
	// Timestamp is the largest time, in seconds since 1970, that a cosignature
	// of the key states. It is 0 for plain signatures, and for cosignatures that
	// say nothing about the largest tree seen.
	Timestamp uint64
}

// VerifyBy verifies every line of the note that names k by name and id, also
// repeated ones. A line of k that does not verify is an error that wraps
// ErrNoteSignature; lines of other keys are ignored, even if they share k's
// name or id alone. A key that did not sign is no error: see Verified.Lines.
func (n *Note) VerifyBy(k VerifierKey) (Verified, error) {
	var v Verified
	for i, s := range n.Signatures {
		if s.ID != k.ID || s.Name != k.Name {
			continue
		}
		timestamp, ok := k.Verify(n.Text, s.Sig)
		if !ok {
			return Verified{}, fmt.Errorf("signature line %d of %s (id %08x, %s): %w", i+1, k.Name, k.ID, k.Type, ErrNoteSignature)
		}
		v.Lines++
		v.Timestamp = max(v.Timestamp, timestamp)
	}
	return v, nil
}
