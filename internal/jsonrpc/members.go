package jsonrpc

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
)

// Lax are options to read what peers have sent, however badly spelled.
var Lax = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Members calls f with each member of a JSON object, in order. The values share
// the memory of raw. It refuses what is no object, and bytes after it.
func Members(raw []byte, f func(name string, value []byte) error) error {
	end, err := object(raw, f)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(raw[end:])) > 0 {
		return errors.New("bytes after the JSON object")
	}
	return nil
}

// object is Members for an object that other bytes may follow, from end on.
func object(raw []byte, f func(name string, value []byte) error) (end int64, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), Lax...)
	tok, err := dec.ReadToken()
	if err != nil {
		return 0, err
	}
	if tok.Kind() != '{' {
		return 0, errors.New("not a JSON object")
	}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return 0, err
		}
		name := tok.String()
		v, err := dec.ReadValue()
		if err != nil {
			return 0, err
		}
		end := dec.InputOffset()
		if err := f(name, raw[end-int64(len(v)):end]); err != nil {
			return 0, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return 0, err
	}
	return dec.InputOffset(), nil
}

// Fields returns the wanted members of an object, none if raw is no object. Of
// a member that came twice it is the last value. twice is true if the object has
// any member twice.
func Fields(raw []byte, want ...string) (values map[string][]byte, twice bool) {
	values = map[string][]byte{}
	seen := map[string]bool{}
	_ = Members(raw, func(name string, value []byte) error { // no object: no members
		twice = twice || seen[name]
		seen[name] = true
		for _, w := range want {
			if w == name {
				values[name] = value
			}
		}
		return nil
	})
	return values, twice
}

// Text returns the string that a JSON value is, "" for any other.
func Text(value []byte) string {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s, Lax...) != nil {
		return ""
	}
	return s
}

// IDKey brings a JSON-RPC id into one spelling: 3 and "3" differ, 3 and 3.0 do
// not. null and what cannot be an id have no key.
func IDKey(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if c, err := canon.Private.Canonical(value); err == nil {
			return string(c)
		}
		return string(value)
	}
	return ""
}
