package commit

import (
	"crypto/subtle"
	"errors"
	"fmt"
)

// Encoding says how the bytes of a value came about. It is not part of the
// commitment: the bytes are hashed as they are.
type Encoding string

const (
	// JCS: the value is canonical JSON (RFC 8785).
	JCS Encoding = "jcs"
	// Raw: the value is the caller's bytes, untouched.
	Raw Encoding = "raw"
)

// Valid reports whether e is one of the two encodings.
func (e Encoding) Valid() bool { return e == JCS || e == Raw }

var (
	// ErrMismatch: the opening does not belong to the commitment.
	ErrMismatch = errors.New("opening does not match the commitment")
	// ErrEncoding: the encoding is neither "jcs" nor "raw".
	ErrEncoding = errors.New("unknown encoding")
)

// Opening is what a commitment hides. It is private.
type Opening struct {
	Name     string
	Encoding Encoding
	Salt     Salt
	Value    []byte // at most 16 MiB where the ledger accepts it
}

// Verify checks that digest commits to exactly this opening: same name, salt
// and value bytes. It returns nil, [ErrEncoding] or [ErrMismatch]. It does not
// parse the value: that bytes called "jcs" are canonical JSON is for the reader
// of the value to check.
func Verify(o Opening, digest [Size]byte) error {
	if !o.Encoding.Valid() {
		return fmt.Errorf("%w %q of the value %q: expected %q or %q",
			ErrEncoding, abbreviate(string(o.Encoding)), abbreviate(o.Name), JCS, Raw)
	}
	got := Commitment(o.Name, o.Salt, o.Value)
	if subtle.ConstantTimeCompare(got[:], digest[:]) != 1 {
		return fmt.Errorf("%w: value %q, expected %s, got %s",
			ErrMismatch, abbreviate(o.Name), FormatDigest(digest), FormatDigest(got))
	}
	return nil
}

// Format keeps salt and value out of anything printed, whatever the verb.
func (o Opening) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "opening{name %q, encoding %q, %d bytes, redacted}", abbreviate(o.Name), abbreviate(string(o.Encoding)), len(o.Value))
}

// Format keeps the salt out of anything printed, whatever the verb.
func (Salt) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[redacted salt]") }
