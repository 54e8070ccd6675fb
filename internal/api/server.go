// Package api serves the ledger over HTTP.
//
// Authentication comes before anything else: without the bearer token only
// /log/, /v1/trust, /v1/policy, /healthz and /readyz answer. Every input is bounded before
// it is read. docs/spec/http.md is the contract.
package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"counterfoil/internal/access"
	"counterfoil/internal/httpstatus"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/query"
)

// Ledger is what the API serves.
type Ledger interface {
	// Begin and Append record; see package intake. They return once the event
	// is on the stream. Refusals for lack of space, and the like, are
	// *Unavailable.
	Begin(ctx context.Context, b *intake.Begin) (*intake.Result, error)
	Append(ctx context.Context, a *intake.Append) (*intake.Result, error)
	// Wait blocks until the event at leafIndex has reached the stage.
	Wait(ctx context.Context, leafIndex uint64, stage string) error
	// DefaultStage is what callers wait for who do not say.
	DefaultStage() string
	// Witnesses reports whether stage witnessed can be reached.
	Witnesses() bool
	// Place tells where a leaf is now; proof and checkpoint only if asked for.
	Place(ctx context.Context, leafIndex uint64, proof bool) (Place, error)
	// Attempt returns the recorded events of an attempt, whatever the lag of
	// the views.
	Attempt(ctx context.Context, id string) ([]*intake.Result, *lifecycle.State, error)
	// Bundle returns the bundle of attempts under the newest checkpoint that
	// witnesses cosigned as their quorum asks, if it covers them, else under the
	// best that does.
	Bundle(ctx context.Context, attempts []string) ([]byte, error)
	// TlogProof returns the .tlog-proof of an event.
	TlogProof(ctx context.Context, eventID string) ([]byte, error)
	// CatchUp waits until the views reflect what is on the stream now, or ctx
	// ends.
	CatchUp(ctx context.Context)
	// Leaves yields published leaves [from, to).
	Leaves(ctx context.Context, from, to uint64, yield func(index uint64, leaf []byte) error) error
	// Published is the size of the newest checkpoint; the channel is closed
	// when there is a newer one.
	Published() (size uint64, changed <-chan struct{})
	// Check verifies a record's signatures, for the event stream.
	Check(rec *event.Record, leaf []byte, leafIndex uint64) error
	Trust() []byte
	// Policy is the tlog-policy text of the log and its witnesses.
	Policy() []byte
	Status(ctx context.Context) Status
	KeyAdmin
	Custodian
	Admitter
	BackupSource
}

// Config holds what a server is made of.
type Config struct {
	Ledger Ledger
	// Views answers lists and look-ups by event id.
	Views *query.Views
	// Archive has the evidence; nil leaves its calls out.
	Archive EvidenceArchive
	// Tokens knows who may call. Required.
	Tokens Identifier
	// PerToken and PerAddress bound how often one token and one remote address
	// ask; nil for no limit.
	PerToken, PerAddress *access.Limiter
	// Hosts are the names, without a port, that the port is reached by. Requests
	// under another are refused, since a page in a browser can give any name the
	// address of this machine; nil admits every name.
	Hosts []string
	// LogDir is served under /log/, restricted to the names of tlog-tiles.
	LogDir string
	// Checkpoint returns the newest signed checkpoint.
	Checkpoint func() ([]byte, error)
	// Witnessed returns the newest checkpoint that meets the quorum; nil without.
	Witnessed func() ([]byte, error)
	// Cluster tells how the nodes of the ledger stand; nil for a ledger alone.
	Cluster func(context.Context) *Cluster
	// RemoveNode takes a node out of the cluster; nil for a ledger alone.
	RemoveNode func(ctx context.Context, name string) (*NodeRemoved, error)
	// Metrics is served under /metrics; nil leaves it out.
	Metrics http.Handler
	// Routed is told of the route of every request; nil leaves it out.
	Routed func(ctx context.Context, route string)
	// Observe is told of every finished request; nil leaves it out.
	Observe func(route string, status int, d time.Duration)
	Now     func() time.Time
	Logger  *slog.Logger
	// WaitLimit bounds how long a call waits for the stream, and then for its
	// stage.
	WaitLimit time.Duration
}

// Server is an http.Handler.
type Server struct {
	cfg    Config
	mux    *http.ServeMux
	routes []string             // all patterns
	also   map[string]Procedure // by path; complete before the first request

	failures failures

	ending    chan struct{} // closed by EndStreams
	endingOne sync.Once
}

// Procedure is a call of a further protocol on the same port.
type Procedure struct {
	Path string // exact; the table of package access says who may call it
	// Serve answers, also with errors. It returns the HTTP status that its
	// answer amounts to, 0 if that is the one it answered with.
	Serve func(w http.ResponseWriter, r *http.Request) int
	// Refuse answers with an error before anything is read.
	Refuse func(w http.ResponseWriter, r *http.Request, err *Error)
}

// Add adds a procedure, behind the same authentication as everything else. It
// must be called before the first request.
func (s *Server) Add(p Procedure) {
	s.also[p.Path] = p
	s.handle(p.Path, func(w http.ResponseWriter, r *http.Request) error {
		status := p.Serve(w, r)
		if rec, ok := w.(*httpstatus.Recorder); ok && status != 0 {
			rec.Status = status
		}
		return nil
	})
}

// EndStreams ends the event streams, so that a server can stop.
func (s *Server) EndStreams() { s.endingOne.Do(func() { close(s.ending) }) }

// New makes a server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, mux: http.NewServeMux(),
		also: map[string]Procedure{}, ending: make(chan struct{})}
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /v1/attempts":                     s.begin,
		"POST /v1/attempts/{attemptId}/events":  s.append,
		"POST /v1/events:batch":                 s.batch,
		"GET /v1/attempts":                      byQuery(s.Attempts),
		"GET /v1/attempts/{attemptId}":          byID("attemptId", s.Attempt),
		"GET /v1/attempts/{attemptId}/bundle":   s.attemptBundle,
		"GET /v1/bundle":                        s.bundle,
		"GET /v1/receipts":                      byQuery(s.Receipts),
		"GET /v1/receipts/{eventId}":            byID("eventId", s.Receipt),
		"GET /v1/receipts/{eventId}/tlog-proof": s.tlogProof,
		"GET /v1/parked":                        byQuery(s.Parked),
		"GET /v1/events":                        s.events,
		"GET /v1/contracts":                     byQuery(s.Contracts),
		"GET /v1/dispositions":                  byQuery(s.Disposition),
		"GET /v1/reviews":                       byQuery(s.Reviews),
		"GET /v1/trust":                         s.trust,
		"GET /v1/policy":                        s.policy,
		"GET /v1/keys":                          s.keys,
		"POST /v1/keys":                         s.registerKey,
		"POST /v1/keys/rotate":                  s.rotateKey,
		"POST /v1/keys/{keyId}/status":          s.setKeyStatus,
		"GET /v1/status":                        s.status,
		"GET /v1/cluster":                       s.cluster,
		"POST /v1/cluster/nodes/{name}/remove":  s.removeNode,
		"POST /v1/backup":                       s.backup,
		"POST /v1/erasures":                     s.erase,
		"GET /v1/holds":                         s.holds,
		"POST /v1/holds":                        s.addHold,
		"POST /v1/holds/{holdId}/release":       s.releaseHold,
		"POST /v1/retention":                    s.setRetention,
		"GET /healthz":                          s.healthz,
		"GET /readyz":                           s.readyz,
		"GET /log/":                             s.log,
		"/":                                     s.unknown,
	} {
		s.handle(pattern, h)
	}
	if cfg.Archive != nil {
		s.handle("GET /v1/archive/{digest}", s.archiveBody)
		s.handle("POST /v1/rechecks", s.putRecheck)
		s.handle("POST /v1/archive", s.keepBody)
		s.handle("POST /v1/admissions/{attemptId}/receipt", s.sealReceipt)
		s.handle("GET /v1/reviews/{eventId}/vsa", s.reviewSummary)
	}
	if cfg.Metrics != nil {
		s.handle("GET /metrics", func(w http.ResponseWriter, r *http.Request) error {
			cfg.Metrics.ServeHTTP(w, r)
			return nil
		})
	}
	return s
}

// parameters are the query parameters of the calls under /v1/ that have none, or
// one each; lists and the event stream check their own. One that is not known
// would be ignored, and with a misspelt wait the stage that was asked for.
var parameters = map[string][]string{
	"GET /v1/archive/{digest}":                {},
	"POST /v1/rechecks":                       {"owner", "class", "kind", "days", "sensitive"},
	"POST /v1/archive":                        {"owner", "role", "class", "kind", "days", "sensitive"},
	"POST /v1/admissions/{attemptId}/receipt": {},
	"GET /v1/reviews/{eventId}/vsa":           {},
	"POST /v1/attempts":                       {"wait"},
	"POST /v1/attempts/{attemptId}/events":    {"wait"},
	"POST /v1/events:batch":                   {"wait"},
	"GET /v1/attempts/{attemptId}":            {},
	"GET /v1/attempts/{attemptId}/bundle":     {},
	"GET /v1/bundle":                          {"attempt"},
	"GET /v1/receipts/{eventId}":              {},
	"GET /v1/receipts/{eventId}/tlog-proof":   {},
	"GET /v1/status":                          {},
	"GET /v1/cluster":                         {},
	"POST /v1/cluster/nodes/{name}/remove":    {},
	"GET /v1/keys":                            {},
	"POST /v1/keys":                           {},
	"POST /v1/keys/rotate":                    {},
	"POST /v1/backup":                         {},
	"POST /v1/erasures":                       {},
	"GET /v1/holds":                           {},
	"POST /v1/holds":                          {},
	"POST /v1/holds/{holdId}/release":         {},
	"POST /v1/retention":                      {},
	"POST /v1/keys/{keyId}/status":            {},
}

// Routes are the patterns of everything that is served.
func (s *Server) Routes() []string { return slices.Clone(s.routes) }

func (s *Server) handle(pattern string, h func(http.ResponseWriter, *http.Request) error) {
	s.routes = append(s.routes, pattern)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.Routed != nil {
			s.cfg.Routed(r.Context(), pattern)
		}
		start, rec := s.cfg.Now(), httpstatus.Record(w)
		err := error(nil)
		if names, checked := parameters[pattern]; checked {
			err = known(r.URL.Query(), names...)
		}
		if refusal := s.permit(r, pattern); refusal != nil {
			s.refuse(rec, r, refusal)
			err = nil
		} else if err == nil {
			err = h(rec, r)
		}
		broken := errors.Is(err, errBroken)
		if err != nil && !broken {
			s.fail(rec, r, err)
		}
		if s.cfg.Observe != nil {
			s.cfg.Observe(pattern, rec.Status, s.cfg.Now().Sub(start))
		}
		if broken {
			panic(http.ErrAbortHandler)
		}
	})
}

func (s *Server) unknown(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		probe := r.Clone(r.Context())
		probe.Method = m
		if _, pattern := s.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		return notFound("no such resource", "the paths are in docs/spec/http.md")
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return &Error{Code: CodeMethod, Message: r.Method + " is not served here", Hint: "use " + strings.Join(allowed, " or "), status: http.StatusMethodNotAllowed}
}

// body reads a bounded request body.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	buf, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, bodyTooLarge(limit)
	}
	if err != nil {
		return nil, invalid("", "", "the body could not be read: "+err.Error())
	}
	return buf, nil
}

// readAll reads with the announced length as a hint, which is within the limit.
func readAll(r io.Reader, hint int64) ([]byte, error) {
	if hint < 0 {
		return io.ReadAll(r)
	}
	buf := make([]byte, hint)
	n, err := io.ReadFull(r, buf)
	return buf[:n], err
}

func bodyTooLarge(limit int64) *Error {
	return &Error{Code: CodeTooLarge, Message: "the body is over " + itoa(limit) + " bytes", status: http.StatusRequestEntityTooLarge,
		Hint: "private values may have up to 16 MiB each; send a digest instead of the whole value"}
}

// stage reads the wait parameter.
func (s *Server) stage(v string) (string, error) {
	switch v {
	case "":
		return s.cfg.Ledger.DefaultStage(), nil
	case StageAccepted, StageLogged, StagePublished:
		return v, nil
	case StageWitnessed:
		if !s.cfg.Ledger.Witnesses() {
			return "", invalid("", "wait for published, or run the ledger with --witness-policy", "this ledger asks no quorum of witnesses")
		}
		return v, nil
	default:
		return "", invalid("", "use accepted, logged, published or witnessed", "unknown stage in wait")
	}
}

// proves reports whether an event of that stage has a proof to show.
func proves(stage string) bool { return stage == StagePublished || stage == StageWitnessed }
