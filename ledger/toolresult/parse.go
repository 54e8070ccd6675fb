package toolresult

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/excerpt"
)

// Error says which member of a result was refused, and why.
type Error struct {
	// Path is the JSON pointer of the member; "" is the whole document.
	Path string
	// Detail says what was found and what is expected.
	Detail string
	// Hint says what to do instead; it may be empty.
	Hint string
}

func (e *Error) Error() string { return canon.Refusal(e.Path, "tool result", e.Detail, e.Hint) }

func bad(path, format string, args ...any) *Error {
	return &Error{Path: path, Detail: fmt.Sprintf(format, args...)}
}

// refused words an error of package canon, at a path.
func refused(at string, err error) *Error {
	var ce *canon.Error
	if errors.As(err, &ce) {
		return &Error{Path: at + ce.Path, Detail: ce.Reason + ": " + ce.Detail, Hint: ce.Hint}
	}
	return bad(at, "%v", err)
}

// Parse reads a result from its canonical bytes: exactly the six members
// (TRS-02), a lawful combination, the catalogue's words to the letter, and within
// the bounds, which are checked before anything is parsed. Bytes that are not the
// one accepted spelling are refused. Errors are of type *[Error]. The result does
// not alias b.
func Parse(b []byte) (ModelResult, error) {
	if err := profile.Check(b); err != nil {
		return ModelResult{}, refused("", err)
	}
	var doc struct {
		Data       jsontext.Value `json:"data"`
		Error      jsontext.Value `json:"error"`
		Execution  jsontext.Value `json:"execution"`
		Provenance jsontext.Value `json:"provenance"`
		Schema     jsontext.Value `json:"schema"`
		Status     jsontext.Value `json:"status"`
	}
	if err := read(b, "", &doc); err != nil {
		return ModelResult{}, err
	}
	for _, m := range []struct {
		path  string
		value jsontext.Value
	}{{"/data", doc.Data}, {"/error", doc.Error}, {"/execution", doc.Execution}, {"/provenance", doc.Provenance}, {"/schema", doc.Schema}, {"/status", doc.Status}} {
		if m.value == nil {
			return ModelResult{}, &Error{Path: m.path, Detail: "missing", Hint: "a result has all six members; data and error may be null"}
		}
	}
	var schema string
	var status Status
	var execution struct {
		Delivery Delivery `json:"delivery"`
		Outcome  Outcome  `json:"outcome"`
	}
	var provenance struct {
		ClaimBoundary string `json:"claimBoundary"`
	}
	if err := errors.Join(read(doc.Schema, "/schema", &schema), read(doc.Status, "/status", &status),
		read(doc.Execution, "/execution", &execution), read(doc.Provenance, "/provenance", &provenance)); err != nil {
		return ModelResult{}, first(err)
	}
	if schema != Schema {
		return ModelResult{}, bad("/schema", "%s, want %q", clip(schema), Schema)
	}
	code, err := parseError(doc.Error)
	if err != nil {
		return ModelResult{}, err
	}
	m, ok := find(status, execution.Outcome, execution.Delivery, code, provenance.ClaimBoundary)
	if !ok {
		return ModelResult{}, bad("", "status %s, outcome %s, delivery %s, error %s and claim boundary %s do not go together", clip(string(status)),
			clip(string(execution.Outcome)), clip(string(execution.Delivery)), clip(string(code)), clip(provenance.ClaimBoundary))
	}
	if m, err = parseData(m, doc.Data); err != nil {
		return ModelResult{}, err
	}
	if got := m.Append(make([]byte, 0, len(b))); !bytes.Equal(got, b) {
		i := 0
		for i < len(got) && i < len(b) && got[i] == b[i] {
			i++
		}
		return ModelResult{}, bad("", "not in canonical form: differs at byte %d", i)
	}
	return m, nil
}

// parseError reads the member error, of which only the code is free to be chosen.
func parseError(raw jsontext.Value) (Code, error) {
	if raw.Kind() == 'n' {
		return "", nil
	}
	var e struct {
		Code              Code           `json:"code"`
		Label             string         `json:"label"`
		Message           string         `json:"message"`
		Recovery          Recovery       `json:"recovery"`
		RetryAfterSeconds jsontext.Value `json:"retryAfterSeconds"`
	}
	if err := read(raw, "/error", &e); err != nil {
		return "", err
	}
	want, ok := catalogue[e.Code]
	switch {
	case !ok:
		return "", bad("/error/code", "%s is not in the catalogue", clip(string(e.Code)))
	case e.Label != TrustedControl:
		return "", bad("/error/label", "%s, want %q", clip(e.Label), TrustedControl)
	case e.Message != want.message || e.Recovery != want.recovery:
		return "", &Error{Path: "/error", Detail: "message or recovery is not that of " + string(e.Code), Hint: "both are fixed by the code"}
	case !bytes.Equal(e.Code.appendError(nil), raw):
		return "", bad("/error", "not the members of %s in canonical form", e.Code)
	}
	return e.Code, nil
}

// parseData reads the member data.
func parseData(m ModelResult, raw jsontext.Value) (ModelResult, error) {
	if raw.Kind() == 'n' {
		return m, nil
	}
	var d struct {
		Label string         `json:"label"`
		Value jsontext.Value `json:"value"`
	}
	if err := read(raw, "/data", &d); err != nil {
		return m, err
	}
	if d.Label != UntrustedData {
		return m, bad("/data/label", "%s, want %q", clip(d.Label), UntrustedData)
	}
	if d.Value == nil {
		return m, bad("/data/value", "missing")
	}
	return m.WithData(d.Value)
}

// read decodes strictly: an object with known members only, no wrong types.
func read(b []byte, path string, v any) error {
	err := json.Unmarshal(b, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var se *json.SemanticError
	if !errors.As(err, &se) {
		return bad(path, "%v", err)
	}
	at := path + string(se.JSONPointer)
	if errors.Is(se.Err, json.ErrUnknownName) {
		return &Error{Path: at, Detail: "unknown member", Hint: "ids, digests and all else that names evidence belong to the audit"}
	}
	return bad(at, "wrong type")
}

// first returns the first of joined errors.
func first(err error) error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()[0]
	}
	return err
}

// clip quotes a text in a message, shortened.
func clip(s string) string { return fmt.Sprintf("%q", excerpt.Cut(s, 64)) }
