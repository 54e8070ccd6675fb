// Package jsonrpc reads JSON-RPC 2.0 messages as peers have sent them, without
// ever writing them again: a [Message] points into the bytes that it was read
// from, so whoever passes a message on passes those bytes on.
//
// Reading is lax on purpose. A member that came twice, a number that no double
// holds or a string with half a surrogate is read, and marked where it makes the
// meaning unclear: what one peer refuses another may carry out.
package jsonrpc

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is what is read of a JSON-RPC message. Its slices share the memory
// that it was read from. Of a member that came twice it has the last value, as
// most peers read it, and Duplicates is set.
type Message struct {
	Raw        []byte // the whole object
	Method     string // "" for an answer
	ID         []byte // the id as it was spelled, nil if there is none
	Key        string // key of the id, "" if there is none: see IDKey
	Params     []byte
	Result     []byte
	Err        []byte // nil for null
	Duplicates bool   // the object has a member twice

	// other are methods under another spelling of the member's name, and
	// earlier values of it: some peers would take them.
	other []string
}

// Parse reads one message. It refuses what is no JSON object, and bytes after
// it.
func Parse(raw []byte) (Message, error) {
	m := Message{Raw: raw}
	seen := map[string]bool{}
	err := Members(raw, func(name string, value []byte) error {
		m.take(name, value, seen)
		return nil
	})
	if err != nil {
		return m, fmt.Errorf("message: %w", err)
	}
	return m, nil
}

func (m *Message) take(name string, value []byte, seen map[string]bool) {
	m.Duplicates = m.Duplicates || seen[name]
	seen[name] = true
	switch name {
	case "method":
		if m.Method != "" {
			m.other = append(m.other, m.Method)
		}
		m.Method = Text(value)
	case "id":
		m.ID, m.Key = value, IDKey(value)
	case "params":
		m.Params = value
	case "result":
		m.Result = value
	case "error":
		if m.Err = value; string(value) == "null" {
			m.Err = nil
		}
	default:
		if strings.EqualFold(name, "method") {
			m.other = append(m.other, Text(value))
		}
	}
}

// IsAnswer reports whether m answers a request at all.
func (m *Message) IsAnswer() bool {
	return m.Method == "" && m.Key != "" && (m.Err != nil || m.Result != nil)
}

// Answer is the part of an answer that says what came of a request, or all of
// it where that is not clear.
func (m *Message) Answer() []byte {
	switch {
	case m.Duplicates:
		return m.Raw
	case m.Err != nil:
		return m.Err
	}
	return m.Result
}

// MayBe reports whether any peer could take m for a message of this method: it
// is the value of a member "method", the last or not, in any case of letters.
func (m *Message) MayBe(method string) bool {
	if m.Method == method {
		return true
	}
	for _, o := range m.other {
		if o == method {
			return true
		}
	}
	return false
}

// Clear reports whether every peer reads the method of m alike.
func (m *Message) Clear() bool { return len(m.other) == 0 }

// ParseAll reads what stands on one line or in one body: a message, a batch, or
// several of them behind one another, as peers take them that read values and
// not lines. White space alone is no message. batch is true if any of them
// stands in an array. On an error the messages before it are returned too.
func ParseAll(raw []byte) (messages []Message, batch bool, err error) {
	for {
		raw = bytes.TrimLeft(raw, " \t\r\n")
		if len(raw) == 0 {
			return messages, batch, nil
		}
		if raw[0] != '[' {
			n, err := one(raw, &messages)
			if err != nil {
				return messages, batch, err
			}
			raw = raw[n:]
			continue
		}
		batch = true
		n, err := elements(raw, func(element []byte) error {
			_, err := one(element, &messages)
			return err
		})
		if err != nil {
			return messages, batch, fmt.Errorf("batch: %w", err)
		}
		raw = raw[n:]
	}
}

// one reads the message at the start of raw and returns where it ends.
func one(raw []byte, messages *[]Message) (int64, error) {
	var m Message
	seen := map[string]bool{}
	end, err := object(raw, func(name string, value []byte) error {
		m.take(name, value, seen)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("message: %w", err)
	}
	m.Raw = raw[:end]
	*messages = append(*messages, m)
	return end, nil
}

// elements calls f with each element of the array at the start of raw and
// returns where it ends.
func elements(raw []byte, f func(element []byte) error) (int64, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), Lax...)
	if _, err := dec.ReadToken(); err != nil {
		return 0, err
	}
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return 0, err
		}
		end := dec.InputOffset()
		if err := f(raw[end-int64(len(v)) : end]); err != nil {
			return 0, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return 0, err
	}
	return dec.InputOffset(), nil
}
