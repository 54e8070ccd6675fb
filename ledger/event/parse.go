package event

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
)

// Error says which member of an event or record was refused, and why.
type Error struct {
	// Path is the JSON pointer of the member; "" is the whole document.
	Path string
	// Detail says what was found and what is expected.
	Detail string
	// Hint says what to do instead; it may be empty.
	Hint string
}

func (e *Error) Error() string { return canon.Refusal(e.Path, "event", e.Detail, e.Hint) }

func bad(path, format string, args ...any) *Error {
	return &Error{Path: path, Detail: fmt.Sprintf(format, args...)}
}

// Parse reads an event from its canonical bytes and validates it. Bytes that
// are not the one accepted spelling are refused. The result does not alias b.
func Parse(b []byte) (*Event, error) {
	if len(b) > MaxEventBytes {
		return nil, bad("", "%d bytes, limit %d", len(b), MaxEventBytes)
	}
	e := new(Event)
	if err := unmarshal(b, e); err != nil {
		return nil, err
	}
	// Members first: they are named in the error, a missing one too, where
	// the comparison of bytes only knows an offset.
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if got := e.Append(make([]byte, 0, len(b)+64)); !bytes.Equal(got, b) {
		return nil, notCanonical(got, b)
	}
	return e, nil
}

func notCanonical(want, got []byte) *Error {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	return bad("", "not in canonical form: differs at byte %d", i)
}

// unmarshal decodes strictly: no unknown or duplicate members, no invalid
// UTF-8, no trailing bytes.
func unmarshal(b []byte, v any) error {
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		var se *json.SemanticError
		if errors.As(err, &se) {
			detail := "wrong type"
			if se.Err != nil {
				detail = se.Err.Error()
			}
			return bad(string(se.JSONPointer), "%s", detail)
		}
		if err := canon.Restricted.Check(b); err != nil {
			var ce *canon.Error
			if errors.As(err, &ce) {
				return &Error{Path: ce.Path, Detail: ce.Reason + ": " + ce.Detail, Hint: ce.Hint}
			}
		}
		return bad("", "%v", err)
	}
	return nil
}

// Signature is one signature over the pre-authentication encoding of an event.
type Signature struct {
	KeyID string `json:"keyId"`
	Sig   []byte `json:"sig"` // standard base64 with padding in JSON
}

// Record is an event with its signatures.
type Record struct {
	Event *Event
	// EventBytes are the canonical bytes that the signatures cover and that
	// the digest is taken of.
	EventBytes []byte
	// SignatureBytes are the canonical bytes of the array of signatures.
	SignatureBytes []byte
	Signatures     []Signature

	digest Digest // of EventBytes, if known
	known  bool
}

// Digest is the digest of the event.
func (r *Record) Digest() Digest {
	if r.known {
		return r.digest
	}
	return DigestOf(r.EventBytes)
}

// Sealed returns the record with its digest computed once; EventBytes must not
// change afterwards.
func (r *Record) Sealed() *Record {
	r.digest, r.known = DigestOf(r.EventBytes), true
	return r
}

const (
	leafHead = `{"event":`
	leafMid  = `,"signatures":`
)

// AppendLeaf adds the leaf bytes of an event and its signatures to dst, both
// given as canonical bytes.
func AppendLeaf(dst, eventBytes, signatureBytes []byte) []byte {
	dst = append(dst, leafHead...)
	dst = append(dst, eventBytes...)
	dst = append(dst, leafMid...)
	dst = append(dst, signatureBytes...)
	return append(dst, '}')
}

// AppendSignatures adds the canonical bytes of an array of signatures to dst.
func AppendSignatures(dst []byte, sigs []Signature) []byte {
	sep := byte('[')
	for _, s := range sigs {
		dst = append(dst, sep)
		dst = append(dst, `{"keyId":`...)
		dst = quote(dst, s.KeyID)
		dst = append(dst, `,"sig":"`...)
		dst = b64.AppendEncode(dst, s.Sig)
		dst = append(dst, `"}`...)
		sep = ','
	}
	if sep == '[' {
		dst = append(dst, '[')
	}
	return append(dst, ']')
}

// ParseRecord reads a leaf. It checks form only; see Record.Verify for the
// signatures. The result aliases leaf.
func ParseRecord(leaf []byte) (*Record, error) {
	if len(leaf) > MaxLeafBytes {
		return nil, bad("", "leaf of %d bytes, limit %d", len(leaf), MaxLeafBytes)
	}
	var raw struct {
		Event      jsontext.Value `json:"event"`
		Signatures jsontext.Value `json:"signatures"`
	}
	if err := unmarshal(leaf, &raw); err != nil {
		return nil, err
	}
	// Splice instead of trusting the decoder's copies: the leaf has exactly
	// one spelling, so its parts have fixed places.
	ne, ns := len(raw.Event), len(raw.Signatures)
	if ne == 0 || ns == 0 || len(leaf) != len(leafHead)+ne+len(leafMid)+ns+1 ||
		string(leaf[:len(leafHead)]) != leafHead || string(leaf[len(leafHead)+ne:len(leafHead)+ne+len(leafMid)]) != leafMid {
		return nil, bad("", `leaf is not {"event":…,"signatures":…} in canonical form`)
	}
	return NewRecord(leaf[len(leafHead):len(leafHead)+ne], leaf[len(leafHead)+ne+len(leafMid):len(leaf)-1])
}

// NewRecord puts a record together from the canonical bytes of its parts, as a
// bundle carries them. The result aliases both.
func NewRecord(eventBytes, signatureBytes []byte) (*Record, error) {
	e, err := Parse(eventBytes)
	if err != nil {
		return nil, prefix("/event", err)
	}
	sigs, err := parseSignatures(signatureBytes)
	if err != nil {
		return nil, prefix("/signatures", err)
	}
	if n := len(leafHead) + len(eventBytes) + len(leafMid) + len(signatureBytes) + 1; n > MaxLeafBytes {
		return nil, bad("", "leaf of %d bytes, limit %d", n, MaxLeafBytes)
	}
	return (&Record{Event: e, EventBytes: eventBytes, SignatureBytes: signatureBytes, Signatures: sigs}).Sealed(), nil
}

func parseSignatures(b []byte) ([]Signature, error) {
	var raw []struct {
		KeyID string `json:"keyId"`
		Sig   string `json:"sig"`
	}
	if len(b) > MaxLeafBytes {
		return nil, bad("", "%d bytes, limit %d", len(b), MaxLeafBytes)
	}
	if err := unmarshal(b, &raw); err != nil {
		return nil, err
	}
	if len(raw) == 0 || len(raw) > MaxSignatures {
		return nil, bad("", "%d signatures, want 1 to %d", len(raw), MaxSignatures)
	}
	sigs := make([]Signature, len(raw))
	for i, r := range raw {
		if !validKeyID(r.KeyID) {
			return nil, bad(fmt.Sprintf("/%d/keyId", i), `%q is not "algorithm:identifier"`, r.KeyID)
		}
		sig, err := b64.DecodeString(r.Sig)
		if err != nil || len(sig) == 0 || len(sig) > MaxSigBytes {
			return nil, bad(fmt.Sprintf("/%d/sig", i), "not 1 to %d bytes in standard base64 with padding", MaxSigBytes)
		}
		sigs[i] = Signature{KeyID: r.KeyID, Sig: sig}
	}
	if got := AppendSignatures(make([]byte, 0, len(b)), sigs); !bytes.Equal(got, b) {
		return nil, notCanonical(got, b)
	}
	return sigs, nil
}

func prefix(path string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{Path: path + e.Path, Detail: e.Detail, Hint: e.Hint}
	}
	return err
}
