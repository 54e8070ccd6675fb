package intake

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// MaxBodyBytes bounds a begin or append as a caller sends it: 16 MiB of private
// value, once more for base64 or escapes, and the rest.
const MaxBodyBytes = 24 << 20

func checkTime(s string) error {
	if _, ok := event.ParseTime(s); !ok {
		return refuse("/occurredAt", "write it like 2026-07-28T00:00:00.000Z", "missing, or not RFC 3339 in UTC with milliseconds")
	}
	return nil
}

// privateValue brings *v into canonical form, or decodes the raw one.
func privateValue(path string, v *jsontext.Value, rawBase64 string) (raw []byte, err error) {
	if rawBase64 != "" {
		if len(*v) > 0 {
			return nil, refuse(path, "send one of the two", "given as JSON and as raw bytes")
		}
		// The decoder skips line breaks, which would be a second spelling.
		raw, err := base64.StdEncoding.Strict().DecodeString(rawBase64)
		if err != nil || strings.ContainsAny(rawBase64, "\r\n") {
			return nil, refuse(path+"Raw", "use the standard alphabet, padding, no line breaks", "not standard base64 with padding")
		}
		if len(raw) > canon.Private.MaxBytes {
			return nil, tooLarge(path+"Raw", len(raw), canon.Private.MaxBytes)
		}
		return raw, nil
	}
	if len(*v) == 0 {
		return nil, nil
	}
	out, err := canon.Private.Canonical(*v)
	if err != nil {
		var ce *canon.Error
		if errors.As(err, &ce) {
			re := refuse(path+ce.Path, cmp.Or(ce.Hint, hintJSON), "%s: %s", ce.Reason, ce.Detail)
			re.TooLarge = ce.Reason == canon.ReasonTooLarge
			return nil, re
		}
		return nil, err
	}
	*v = out
	return nil, nil
}

func checkID(path, s string) error {
	err := event.CheckID(path, s)
	if err == nil {
		return nil
	}
	var ee *event.Error
	if errors.As(err, &ee) {
		return refuse(path, cmp.Or(ee.Hint, hintID), "%s", ee.Detail)
	}
	return nil
}

// decode reads a request strictly: known members only, each once, valid UTF-8.
// null for an optional public member is the same as leaving it out.
func decode(body []byte, v any) error {
	if len(body) > MaxBodyBytes {
		return tooLarge("", len(body), MaxBodyBytes)
	}
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	// The private profile names the commonest faults better than the decoder.
	var ce *canon.Error
	if cerr := canon.Private.Check(body); errors.As(cerr, &ce) && len(body) <= canon.Private.MaxBytes {
		return refuse(ce.Path, cmp.Or(ce.Hint, hintJSON), "%s: %s", ce.Reason, ce.Detail)
	}
	var se *json.SemanticError
	if errors.As(err, &se) {
		detail := "wrong type"
		if se.Err != nil {
			detail = se.Err.Error()
		}
		return refuse(string(se.JSONPointer), hintMembers, "%s", detail)
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		ce := canon.Syntax(syn)
		return refuse(ce.Path, cmp.Or(ce.Hint, hintJSON), "%s: %s", ce.Reason, ce.Detail)
	}
	return refuse("", hintJSON, "%v", err)
}

// canonicalRequest is what sameness is decided on: the request as it was sent,
// private values included, in canonical form, defaults filled in.
func canonicalRequest(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the request in canonical form: %w", err)
	}
	out := jsontext.Value(b)
	if err := out.Canonicalize(); err != nil {
		return nil, fmt.Errorf("write the request in canonical form: %w", err)
	}
	return out, nil
}
