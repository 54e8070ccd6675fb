package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/jsonrpc"
	"counterfoil/ledger/event"
)

// line is one parsed line of a recording.
type line struct {
	at         string // in event.TimeLayout
	fromClient bool
	messages   []jsonrpc.Message
}

// parseLine reads the three members of a line strictly, and the message as it
// is. The messages share the memory of raw.
func parseLine(raw []byte) (*line, error) {
	var at, dir string
	var body []byte
	seen := map[string]bool{}
	err := jsonrpc.Members(raw, func(name string, value []byte) error {
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
		m, err := jsonrpc.Parse(body)
		l.messages = []jsonrpc.Message{m}
		return l, err
	}
	var batch []jsontext.Value // of protocol versions before 2025-06-18
	if err := json.Unmarshal(body, &batch, jsonrpc.Lax...); err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	for _, b := range batch {
		m, err := jsonrpc.Parse(b)
		if err != nil {
			return nil, err
		}
		l.messages = append(l.messages, m)
	}
	return l, nil
}
