package admission

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
	"counterfoil/ledger/excerpt"
)

// MaxRecordBytes bounds the canonical bytes of one record: room for MaxFindings
// findings with their signers.
const MaxRecordBytes = 256 << 10

// profile is the domain of records: package canon's restricted domain with the
// bound of a record.
var profile = canon.Profile{MaxBytes: MaxRecordBytes, MaxDepth: canon.Restricted.MaxDepth}

// Record is one of the five records of an admission, or a [SpanningSet].
type Record interface {
	// Validate checks every member by itself. Errors are of type *[Error].
	Validate() error
}

// Error says which member of a record was refused, and why.
type Error struct {
	// Path is the JSON pointer of the member; "" is the whole document.
	Path string
	// Detail says what was found and what is expected.
	Detail string
	// Hint says what to do instead; it may be empty.
	Hint string
}

func (e *Error) Error() string { return canon.Refusal(e.Path, "record", e.Detail, e.Hint) }

func bad(path, format string, args ...any) *Error {
	return &Error{Path: path, Detail: fmt.Sprintf(format, args...)}
}

// Encode validates a record and returns its canonical bytes.
func Encode(r Record) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return encode(r)
}

// Name validates a record and returns its canonical bytes and their digest.
func Name(r Record) (digest string, canonical []byte, err error) {
	if canonical, err = Encode(r); err != nil {
		return "", nil, err
	}
	return Digest(canonical), canonical, nil
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, bad("", "%v", err)
	}
	b, err = profile.Canonical(b)
	if ce := (*canon.Error)(nil); errors.As(err, &ce) {
		return nil, &Error{Path: ce.Path, Detail: ce.Reason + ": " + ce.Detail, Hint: ce.Hint}
	}
	return b, err
}

// parse reads a record from its canonical bytes. Bytes that are not the one
// accepted spelling are refused.
func parse[T any, P interface {
	*T
	Record
}](b []byte) (P, error) {
	r := P(new(T))
	if err := decode(b, r); err != nil {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	got, err := encode(r)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(got, b) {
		return nil, bad("", "not the one accepted spelling: members that say nothing are left out, and the rest is canonical JSON")
	}
	return r, nil
}

// decode is strict: no unknown or duplicate members, no trailing bytes.
func decode(b []byte, v any) error {
	if len(b) > MaxRecordBytes {
		return bad("", "%d bytes, limit %d", len(b), MaxRecordBytes)
	}
	if err := profile.Check(b); err != nil {
		if ce := (*canon.Error)(nil); errors.As(err, &ce) {
			return &Error{Path: ce.Path, Detail: ce.Reason + ": " + ce.Detail, Hint: ce.Hint}
		}
		return bad("", "%v", err)
	}
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		if se := (*json.SemanticError)(nil); errors.As(err, &se) {
			detail := "wrong type"
			if se.Err != nil {
				detail = se.Err.Error()
			}
			return bad(string(se.JSONPointer), "%s", detail)
		}
		return bad("", "%v", err)
	}
	return nil
}

// The checks that members share.

func checkSchema(got, want string) error {
	if got != want {
		return bad("/schema", "is %q, want %q", clip(got), want)
	}
	return nil
}

func checkDigest(path, s string) error {
	if !ValidDigest(s) {
		return bad(path, "is %q, want sha256: and 64 lower-case hex digits", clip(s))
	}
	return nil
}

func checkOptionalDigest(path, s string) error {
	if s == "" {
		return nil
	}
	return checkDigest(path, s)
}

func checkTime(path, s string) error {
	if _, ok := event.ParseTime(s); !ok {
		return bad(path, "is %q, want a time like 2026-01-31T12:00:00.000Z", clip(s))
	}
	return nil
}

func checkOptionalTime(path, s string) error {
	if s == "" {
		return nil
	}
	return checkTime(path, s)
}

// checkText wants 1 to most bytes of UTF-8 without control characters.
func checkText(path, s string, most int) error {
	if s == "" {
		return bad(path, "is missing")
	}
	return checkOptionalText(path, s, most)
}

func checkOptionalText(path, s string, most int) error {
	if len(s) > most {
		return bad(path, "%d bytes, limit %d", len(s), most)
	}
	if !utf8.ValidString(s) {
		return bad(path, "is not UTF-8")
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return bad(path, "has control character 0x%02x", s[i])
		}
	}
	return nil
}

// checkToken wants a lower_snake word of at most 64 bytes.
func checkToken(path, s string) error {
	if !isToken(s) {
		return bad(path, "is %q, want 1 to 64 of a-z, 0-9, _ and -, a letter first", clip(s))
	}
	return nil
}

func isToken(s string) bool {
	if s == "" || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// clip shortens what is quoted in a message.
func clip(s string) string { return excerpt.Cut(s, 80) }

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
