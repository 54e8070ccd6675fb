package api

import (
	"context"
	"net/http"
)

// Status is what doctor, /healthz and /readyz show.
type Status struct {
	SchemaVersion string  `json:"schemaVersion"`
	Origin        string  `json:"origin"`
	Tenant        string  `json:"tenant"`
	Version       string  `json:"version"`
	Durability    string  `json:"durability"`
	StreamLast    uint64  `json:"streamLast"`    // last sequence of the stream
	LogSize       uint64  `json:"logSize"`       // durable leaves
	PublishedSize uint64  `json:"publishedSize"` // of the newest checkpoint
	WitnessedSize uint64  `json:"witnessedSize"` // of the newest checkpoint that meets the quorum of witnesses; 0 without one
	ViewSize      uint64  `json:"viewSize"`      // that the views reflect
	Parked        uint64  `json:"parked"`        // leaves that do not count
	Ready         bool    `json:"ready"`
	Checks        []Check `json:"checks"`
}

// StatusSchema is the schemaVersion of a Status.
const StatusSchema = "counterfoil.status.v1"

// Check is one named condition of readiness. A storage check says that the
// ledger cannot keep evidence; that is never a judgement on evidence (DUR-06).
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, s.Status(r.Context()))
	return nil
}

// healthz says that the process lives.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"status": "live"})
	return nil
}

// readyz says whether the ledger takes events now, and names what is in the way.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	st := s.Status(r.Context())
	code := http.StatusOK
	if !st.Ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, struct {
		Ready  bool    `json:"ready"`
		Checks []Check `json:"checks"`
	}{st.Ready, st.Checks})
	return nil
}

func (s *Server) trust(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.Trust()) // the client is gone if this fails
	return nil
}

// policy serves GET /v1/policy.
func (s *Server) policy(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(s.cfg.Ledger.Policy()) // the client is gone if this fails
	return nil
}

// Trust returns the trust file and a line feed.
func (s *Server) Trust() []byte { return s.cfg.Ledger.Trust() }

// Status says what the ledger knows of itself.
func (s *Server) Status(ctx context.Context) Status { return s.cfg.Ledger.Status(ctx) }
