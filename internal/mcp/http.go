package mcp

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
)

// Paths on the ledger's port.
const (
	Path         = "/mcp"
	MetadataPath = "/.well-known/oauth-protected-resource/mcp"
)

// idleSession is how long a session may go without a request.
const idleSession = time.Hour

// Mount adds /mcp, behind the authentication of everything else, and the
// metadata of RFC 9728, which says how to authenticate, to a ledger's port.
// Sessions speak the revisions up to 2025-11-25; requests of later ones have no
// session.
func (s *Server) Mount(to *api.Server) {
	s.mounted.Store(true)
	same := func(*http.Request) *sdk.Server { return s.sdk }
	sessions := sdk.NewStreamableHTTPHandler(same, &sdk.StreamableHTTPOptions{Logger: quieter(s.cfg.Logger), SessionTimeout: idleSession,
		EventStore: sdk.NewMemoryEventStore(nil)}) // 10 MiB: a stream that broke off goes on where it was
	single := sdk.NewStreamableHTTPHandler(same, &sdk.StreamableHTTPOptions{Logger: quieter(s.cfg.Logger), Stateless: true, PropagateRequestCancellation: true})
	oneByOne, inSessions := withCaller(single), withCaller(sessions)
	to.Add(api.Procedure{
		Path: Path,
		Serve: func(w http.ResponseWriter, r *http.Request) int {
			m, ok := s.admit(w, r)
			switch {
			case !ok:
			case cmp.Or(r.Header.Get("Mcp-Protocol-Version"), m.revision) >= newRevision, m.revision >= newRevision:
				oneByOne.ServeHTTP(w, r)
			default:
				inSessions.ServeHTTP(w, r)
			}
			return 0
		},
		Refuse: func(w http.ResponseWriter, r *http.Request, e *api.Error) {
			if e.Code != api.CodeUnauthorized {
				writeJSON(w, e.Status(), toolError{e})
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="counterfoil", resource_metadata="`+s.base(r)+MetadataPath+`"`)
			writeJSON(w, e.Status(), toolError{e})
		},
	})
	to.Add(api.Procedure{
		Path: MetadataPath,
		Serve: func(w http.ResponseWriter, r *http.Request) int {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				w.Header().Set("Allow", "GET")
				writeJSON(w, http.StatusMethodNotAllowed, toolError{&api.Error{Code: api.CodeMethod, Message: r.Method + " is not served here", Hint: "use GET"}})
				return 0
			}
			w.Header().Set("Access-Control-Allow-Origin", "*") // it is public, and clients in browsers look for it
			writeJSON(w, http.StatusOK, struct {
				Resource string   `json:"resource"`
				Methods  []string `json:"bearer_methods_supported"`
				Name     string   `json:"resource_name"`
			}{s.base(r) + Path, []string{"header"}, "Counterfoil evidence ledger"})
			return 0
		},
	})
}

// base is the base URL that clients know the port by.
func (s *Server) base(r *http.Request) string {
	if s.cfg.ExternalURL != "" {
		return s.cfg.ExternalURL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// admit puts the body of a request through the guard, and gives it back to the
// request if it passes. Otherwise the answer is written.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (*message, bool) {
	// A stream stays open as long as the client likes: the deadline for reading
	// requests would end it.
	rc := http.NewResponseController(w)
	if r.Method != http.MethodPost {
		_ = rc.SetReadDeadline(time.Time{}) // where it cannot be set, the client connects again
		return &message{}, true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSeen))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		m := tooLong(body)
		writeRaw(w, http.StatusRequestEntityTooLarge, m.refusal)
		return nil, false
	case err != nil:
		writeJSON(w, http.StatusBadRequest, toolError{invalid("", "", "the body could not be read")})
		return nil, false
	}
	_ = rc.SetReadDeadline(time.Time{})
	m := guard(bytes.Trim(body, " \t\r\n"))
	if m.refusal != nil {
		status := http.StatusBadRequest
		if m.id != nil {
			status = http.StatusOK // it is the answer to a request
		}
		writeRaw(w, status, m.refusal)
		return nil, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return m, true
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"answer could not be encoded"}}`)
	}
	writeRaw(w, status, b)
}

func writeRaw(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client is gone if this fails
}
