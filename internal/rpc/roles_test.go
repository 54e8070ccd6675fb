package rpc_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	"counterfoil/internal/access"
	v1 "counterfoil/proto/counterfoil/v1"
)

// A refusal for the role reaches the client of every protocol as permission_denied,
// with its hint; a stream is refused before its first message.
func TestEVI05_RolesOverEveryProtocol(t *testing.T) {
	l := startLedger(t)
	tokens := filepath.Join(l.Ready.Data, access.File)
	add := func(name string, r access.Roles) string {
		token, err := access.Add(tokens, name, r, time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	writer, auditor := add("w", access.Writer), add("a", access.Auditor)
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			denied := func(what string, err error) {
				t.Helper()
				if d := wantError(t, err, connect.CodePermissionDenied, "forbidden"); d.GetHint() == "" {
					t.Errorf("%s: no hint", what)
				}
			}
			w, a := l.client(t, writer, p.h2c, p.opts...), l.client(t, auditor, p.h2c, p.opts...)
			_, err := a.Begin(t.Context(), &v1.BeginRequest{})
			denied("an auditor begins", err)
			_, err = w.ListAttempts(t.Context(), &v1.ListAttemptsRequest{})
			denied("a writer lists", err)
			if _, err := a.ListAttempts(t.Context(), &v1.ListAttemptsRequest{}); err != nil {
				t.Errorf("an auditor lists: %v", err)
			}
			if _, err := w.GetStatus(t.Context(), &v1.GetStatusRequest{}); err != nil {
				t.Errorf("a writer asks for the status: %v", err)
			}
			_, err = w.Begin(t.Context(), &v1.BeginRequest{})
			if connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("a writer begins with nothing: %v", err)
			}
			stream, err := w.StreamEvents(t.Context(), &v1.StreamEventsRequest{})
			if err == nil {
				if stream.Receive() {
					t.Error("a writer follows the events")
				}
				err = stream.Err()
				_ = stream.Close()
			}
			denied("a writer follows the events", err)
		})
	}
}
