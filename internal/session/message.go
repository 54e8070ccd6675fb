package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// lax reads what peers have sent, however badly spelled.
var lax = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// line is one parsed line of a recording.
type line struct {
	at         string // in event.TimeLayout
	fromClient bool
	messages   []message
}

// parseLine reads the three members of a line strictly, and the message as it
// is. The messages share the memory of raw.
func parseLine(raw []byte) (*line, error) {
	var at, dir string
	var body []byte
	seen := map[string]bool{}
	err := members(raw, func(name string, value []byte) error {
		if seen[name] {
			return fmt.Errorf("member %q twice", name)
		}
		seen[name] = true
		switch name {
		case "at":
			return json.Unmarshal(value, &at)
		case "dir":
			return json.Unmarshal(value, &dir)
		case "message":
			body = value
			return nil
		}
		return fmt.Errorf("unknown member %q, want at, dir and message", name)
	})
	if err != nil {
		return nil, fmt.Errorf("not a line of a recording: %w", err)
	}
	l := &line{fromClient: dir == "client"}
	if dir != "client" && dir != "server" {
		return nil, fmt.Errorf("dir %q is not client or server", dir)
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || t.UTC().Year() < 0 || t.UTC().Year() > 9999 {
		return nil, fmt.Errorf("at %q is not an RFC 3339 time", at)
	}
	l.at = t.UTC().Truncate(time.Millisecond).Format(event.TimeLayout)
	if body == nil {
		return nil, errors.New("no message")
	}
	if body[0] != '[' {
		m, err := parseMessage(body)
		l.messages = []message{m}
		return l, err
	}
	var batch []jsontext.Value // of protocol versions before 2025-06-18
	if err := json.Unmarshal(body, &batch, lax...); err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	for _, b := range batch {
		m, err := parseMessage(b)
		if err != nil {
			return nil, err
		}
		l.messages = append(l.messages, m)
	}
	return l, nil
}

// members calls f with each member of a JSON object, in order. The values share
// the memory of raw. It refuses what is no object, and bytes after it.
func members(raw []byte, f func(name string, value []byte) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), lax...)
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return errors.New("not a JSON object")
	}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := tok.String()
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		end := dec.InputOffset()
		if err := f(name, raw[end-int64(len(v)):end]); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if len(bytes.TrimSpace(raw[dec.InputOffset():])) > 0 {
		return errors.New("bytes after the JSON object")
	}
	return nil
}

// message is what is read of a JSON-RPC message. A member that came twice has
// its last value, as most peers read it, and the message is marked.
type message struct {
	raw        []byte
	method     string // "" for an answer
	id         string // key of the id, "" if there is none
	params     []byte
	result     []byte
	err        []byte
	duplicates bool
}

func parseMessage(raw []byte) (message, error) {
	m := message{raw: raw}
	seen := map[string]bool{}
	err := members(raw, func(name string, value []byte) error {
		m.duplicates = m.duplicates || seen[name]
		seen[name] = true
		switch name {
		case "method":
			m.method = text(value)
		case "id":
			m.id = idKey(value)
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			if m.err = value; string(value) == "null" {
				m.err = nil
			}
		}
		return nil
	})
	if err != nil {
		return m, fmt.Errorf("message: %w", err)
	}
	return m, nil
}

// answer is the part of an answer that says what came of a call, or all of it
// where that is not clear.
func (m *message) answer() []byte {
	switch {
	case m.duplicates:
		return m.raw
	case m.err != nil:
		return m.err
	}
	return m.result
}

// isAnswer reports whether m answers a request at all.
func (m *message) isAnswer() bool {
	return m.method == "" && m.id != "" && (m.err != nil || m.result != nil)
}

// fields returns the wanted members of an object, none if raw is no object.
// twice is true if the object has any member twice.
func fields(raw []byte, want ...string) (values map[string][]byte, twice bool) {
	values = map[string][]byte{}
	seen := map[string]bool{}
	_ = members(raw, func(name string, value []byte) error { // no object: no members
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

// text returns the string that a JSON value is, "" for any other.
func text(value []byte) string {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s, lax...) != nil {
		return ""
	}
	return s
}

// idKey brings a JSON-RPC id into one spelling: 3 and "3" differ, 3 and 3.0 do
// not. null and what cannot be an id have no key.
func idKey(value []byte) string {
	switch value[0] {
	case '"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if c, err := canon.Private.Canonical(value); err == nil {
			return string(c)
		}
		return string(value)
	}
	return ""
}

// fit returns s where it can be an identifier of an event, the digest of s
// where it cannot, and the word for nothing where s is empty.
func fit(s, nothing string) string {
	if s == "" {
		return nothing
	}
	if event.CheckID("", s) == nil {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// private splits a value into the two ways in which it can travel.
func private(value []byte) (asJSON jsontext.Value, raw []byte) {
	if len(value) == 0 {
		return nil, nil
	}
	if canon.Private.Check(value) == nil {
		return value, nil
	}
	return nil, value
}
