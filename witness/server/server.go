package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
	"counterfoil/witness/state"
)

const (
	// maxInFlight bounds the requests that are answered at once, and so the
	// memory of their bodies: 128 MiB.
	maxInFlight = 256
	// SizeType is the content type of the size in a 409 (tlog-witness).
	SizeType = "text/x.tlog.size"
	textType = "text/plain; charset=utf-8"
)

// Config is what a server needs.
type Config struct {
	Store *state.Store
	// Key is the key that the state belongs to.
	Key *Key
	// More are keys of other types that cosign beside it, each with a line of
	// its own; all of one time.
	More []*Key
	// Audit, if set, is asked about every signed checkpoint that could be cosigned,
	// beside others; nil lets it through. It bounds its own time.
	Audit func(ctx context.Context, origin string, note []byte) *Objection
	// Now gives the time of cosignatures and of limits.
	Now    func() time.Time
	Logger *slog.Logger
}

// Server answers, under one prefix:
//
//	POST /add-checkpoint                        tlog-witness
//	GET  /<hex SHA-256(origin)>/checkpoint      the latest checkpoint that was cosigned
//	GET  /healthz  /readyz  /metrics
//
// It is an http.Handler, safe for concurrent use.
type Server struct {
	cfg      Config
	mux      *http.ServeMux
	limit    limiter
	slots    chan struct{}
	draining atomic.Bool
	metrics  metrics
}

// New makes a server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, mux: http.NewServeMux(), slots: make(chan struct{}, maxInFlight), limit: limiter{buckets: map[string]*bucket{}}}
	s.mux.HandleFunc("POST /add-checkpoint", s.addCheckpoint)
	s.mux.HandleFunc("GET /{hash}/checkpoint", s.latest)
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /readyz", s.readyz)
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.mux.ServeHTTP(w, r)
}

// Drain makes readyz say no, before the listener is closed.
func (s *Server) Drain() { s.draining.Store(true) }

// answer is what add-checkpoint says.
type answer struct {
	status      int
	contentType string
	body        string
	retry       time.Duration // for Retry-After; 0 without one
}

func plainly(status int, format string, args ...any) answer {
	return answer{status: status, contentType: textType, body: fmt.Sprintf(format, args...) + "\n"}
}

func (s *Server) addCheckpoint(w http.ResponseWriter, r *http.Request) {
	a := s.admit(w, r)
	s.metrics.count(a.status)
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", "no-store")
	if a.retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((a.retry+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body) // the client is gone
}

func (s *Server) admit(w http.ResponseWriter, r *http.Request) answer {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		a := plainly(http.StatusServiceUnavailable, "too many requests at once")
		a.retry = time.Second
		return a
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, rule.MaxRequestBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return plainly(http.StatusRequestEntityTooLarge, "body over %d bytes", rule.MaxRequestBytes)
	case err != nil:
		return plainly(http.StatusBadRequest, "the body did not arrive whole")
	}
	return s.decide(r.Context(), body)
}

// decide answers the body of a request.
func (s *Server) decide(ctx context.Context, body []byte) answer {
	req, err := rule.ParseRequest(body)
	if err != nil {
		return s.refused(plainly(rule.StatusSyntax, "%v", err), "")
	}
	origin := req.Checkpoint.Origin
	var keys []trust.VerifierKey
	log, ok := s.cfg.Store.Log(origin)
	if ok {
		keys = append(keys, log.Key)
	}
	lines, refusal := rule.Authenticate(keys, req)
	if refusal != nil {
		return s.refused(plainly(refusal.Status, "%s", refusal.Detail), origin)
	}
	// Only what the log signed counts against it.
	if wait, ok := s.limit.allow(origin, log.QPD, s.cfg.Now()); !ok {
		a := plainly(http.StatusTooManyRequests, "more than %d requests a day", log.QPD)
		a.retry = wait
		return s.refused(a, origin)
	}
	objection := s.audit(ctx, origin, req)
	var cosigned []trust.NoteSignature
	var before state.Latest
	err = s.cfg.Store.Update(ctx, origin, func(now state.Latest) (after state.Latest, err error) {
		before = now
		if refusal := rule.Advance(rule.State{Size: now.Checkpoint.Size, Root: now.Checkpoint.Root}, req); refusal != nil {
			return after, refusal
		}
		if objection != nil {
			return after, objection
		}
		// A clock that went back must not make the larger tree the earlier one.
		timestamp := max(uint64(max(s.cfg.Now().Unix(), 1)), now.Timestamp)
		if cosigned, err = s.cosign(timestamp, req.Note.Text); err != nil {
			return after, err
		}
		n := trust.Note{Text: req.Note.Text, Signatures: append(lines[:len(lines):len(lines)], cosigned...)}
		return state.Latest{Checkpoint: req.Checkpoint, Note: string(n.Append(nil)), Timestamp: timestamp}, nil
	})
	switch {
	case err == nil:
		// The new state is durable: from here on the signatures may be shown.
		s.cfg.Logger.Debug("cosigned", "origin", origin, "old", req.Old, "size", req.Checkpoint.Size)
		var body []byte
		for _, line := range cosigned {
			body = line.Append(body)
		}
		return answer{status: http.StatusOK, contentType: textType, body: string(body)}
	case errors.As(err, &refusal):
		if refusal.Evidence != "" {
			s.keep(refusal.Evidence, before, req, lines)
		}
		if refusal.Status == rule.StatusConflict {
			return s.refused(answer{status: rule.StatusConflict, contentType: SizeType, body: strconv.FormatUint(refusal.Size, 10) + "\n"}, origin)
		}
		return s.refused(plainly(refusal.Status, "%s", refusal.Detail), origin)
	case errors.As(err, &objection):
		return s.refused(objection.answer(), origin)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return plainly(http.StatusServiceUnavailable, "the request ended before its turn")
	case errors.Is(err, state.ErrStopped):
		s.cfg.Logger.Error("not stored", "origin", origin, "size", req.Checkpoint.Size, "why", err.Error())
		a := plainly(http.StatusServiceUnavailable, "the witness cannot store its state")
		a.retry = time.Minute
		return a
	default: // a fault of this program or of its key
		s.cfg.Logger.Error("not cosigned", "origin", origin, "size", req.Checkpoint.Size, "why", err.Error())
		return plainly(http.StatusInternalServerError, "the witness could not cosign")
	}
}

// cosign makes a line with each key.
func (s *Server) cosign(timestamp uint64, text string) (lines []trust.NoteSignature, err error) {
	for _, k := range append([]*Key{s.cfg.Key}, s.cfg.More...) {
		line, err := k.Cosign(timestamp, text)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func (s *Server) refused(a answer, origin string) answer {
	if len(origin) > 255 {
		origin = origin[:255]
	}
	s.cfg.Logger.Info("refused", "status", a.status, "origin", origin, "answer", a.body[:min(len(a.body), 300)])
	return a
}

// keep stores a validly signed checkpoint that does not fit. The answer does not
// depend on it.
func (s *Server) keep(kind rule.Kind, before state.Latest, req *rule.Request, lines []trust.NoteSignature) {
	e := rule.NewEvidence(kind, before.Note, req, lines, s.cfg.Key.Verifier(), s.cfg.Now())
	kept, err := s.cfg.Store.Keep(e)
	if err != nil {
		s.cfg.Logger.Error("evidence not kept", "origin", e.Origin, "kind", string(kind), "why", err.Error())
		return
	}
	if !kept {
		return
	}
	level := slog.LevelWarn
	if kind.Conclusive() {
		level = slog.LevelError
	}
	s.cfg.Logger.Log(context.Background(), level, "a signed checkpoint disagrees with one that was cosigned", "origin", e.Origin,
		"kind", string(kind), "cosignedSize", before.Checkpoint.Size, "offeredSize", req.Checkpoint.Size, "evidence", e.ID())
}

func (s *Server) latest(w http.ResponseWriter, r *http.Request) {
	l, ok := s.cfg.Store.LatestByHash(r.PathValue("hash"))
	if !ok {
		http.Error(w, "no checkpoint of this log was cosigned", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", textType)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = io.WriteString(w, l.Note)
}
