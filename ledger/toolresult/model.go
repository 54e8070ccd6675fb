package toolresult

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
)

// Schema is the value of the member schema.
const Schema = "counterfoil.tool-result.v1"

// Labels of what stands in a result (TRS-05). A tool's value is data, whatever
// it says; what is labelled control comes from the catalogue alone.
const (
	UntrustedData  = "untrusted_data"
	TrustedControl = "trusted_control"
)

// Bounds of a result, of all of it (TRS-27).
const (
	MaxBytes = 65536
	MaxDepth = 32
)

// profile is the domain of results: a tool's value may hold what JSON holds.
var profile = canon.Profile{MaxBytes: MaxBytes, MaxDepth: MaxDepth, Floats: true, Noncharacters: true}

// Status says how the call ended (TRS-03).
type Status string

// The three statuses. Unknown is not failed.
const (
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Unknown   Status = "unknown"
)

// Outcome says what is known of the call's effect (TRS-03).
type Outcome string

// The three outcomes. NotStarted is kept for calls that never left: of those
// alone it is known that nothing was done.
const (
	NotStarted     Outcome = "not_started"
	Committed      Outcome = "committed"
	OutcomeUnknown Outcome = "unknown"
)

// Delivery says where the result comes from (TRS-04).
type Delivery string

// The three deliveries. None of the last two executed anything.
const (
	Fresh             Delivery = "fresh"              // from the call itself
	LocalReplay       Delivery = "local_replay"       // from the record of it
	ReceiptReconciled Delivery = "receipt_reconciled" // from a read-back of an authoritative source, on record
)

// ModelResult is what a model is given of a call. It is always lawful; the zero
// value says that nothing is known of the call. It is a value and never changes.
type ModelResult struct {
	row  uint8 // of lawful
	data jsontext.Value
}

// Status says how the call ended.
func (m ModelResult) Status() Status { return lawful[m.row].status }

// Outcome says what is known of its effect.
func (m ModelResult) Outcome() Outcome { return lawful[m.row].outcome }

// Delivery says where the result comes from.
func (m ModelResult) Delivery() Delivery { return lawful[m.row].delivery }

// Code names the error, "" if there is none.
func (m ModelResult) Code() Code { return lawful[m.row].code }

// ClaimBoundary is the code of what the result does not show (package event).
func (m ModelResult) ClaimBoundary() string { return lawful[m.row].boundary }

// Data is the tool's own value in canonical JSON, nil if there is none at hand.
// It is untrusted, and must not be changed.
func (m ModelResult) Data() jsontext.Value { return m.data }

// WithData returns the result with a tool's value, any JSON. It is refused where
// no answer of a tool is known, and where the result would be over MaxBytes or
// MaxDepth. Errors are of type *[Error]. It does not keep value.
func (m ModelResult) WithData(value []byte) (ModelResult, error) {
	if !lawful[m.row].data {
		return m, bad("/data", "a result with status %s and outcome %s has no value", m.Status(), m.Outcome())
	}
	const levels = 2 // of the result, around the value
	p := profile
	p.MaxDepth -= levels
	v, err := p.Canonical(value)
	if err != nil {
		return m, refused("/data/value", err)
	}
	out := ModelResult{row: m.row, data: v}
	if n := len(out.Append(nil)); n > MaxBytes {
		return m, &Error{Path: "/data/value", Detail: "a result of " + strconv.Itoa(n) + " bytes, limit " + strconv.Itoa(MaxBytes),
			Hint: "hand on a part of the value, or a reference to it"}
	}
	return out, nil
}

// Append adds the canonical bytes of the result to dst.
func (m ModelResult) Append(dst []byte) []byte {
	r := lawful[m.row]
	dst = append(dst, `{"data":`...)
	if m.data == nil {
		dst = append(dst, `null`...)
	} else {
		dst = append(dst, `{"label":"`+UntrustedData+`","value":`...)
		dst = append(dst, m.data...)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"error":`...)
	dst = r.code.appendError(dst)
	dst = append(dst, `,"execution":{"delivery":"`+string(r.delivery)+`","outcome":"`+string(r.outcome)+
		`"},"provenance":{"claimBoundary":"`+r.boundary+`"},"schema":"`+Schema+`","status":"`+string(r.status)+`"}`...)
	return dst
}

// MarshalJSON writes the canonical bytes.
func (m ModelResult) MarshalJSON() ([]byte, error) { return m.Append(nil), nil }

// Equal reports whether both have the same bytes.
func (m ModelResult) Equal(o ModelResult) bool { return m.row == o.row && bytes.Equal(m.data, o.data) }
