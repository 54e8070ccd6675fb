package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/intake"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/tiles"
)

// Error is the error document of every answer that is not a success.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Path    string `json:"path,omitempty"`    // JSON pointer into the request
	Hint    string `json:"hint,omitempty"`    // what to do next
	Reason  string `json:"reason,omitempty"`  // why unavailable or unlawful
	EventID string `json:"eventId,omitempty"` // the event that a conflict is with
	Stored  string `json:"stored,omitempty"`  // keyed tag of the stored content
	Offered string `json:"offered,omitempty"` // keyed tag of the offered content
	State   string `json:"state,omitempty"`   // state of the attempt
	// status is the HTTP status.
	status int
	// retryAfter is how many seconds to wait, 0 for the default.
	retryAfter int
}

// Status is the HTTP status of an error.
func (e *Error) Status() int { return e.status }

// RetryAfter is how many seconds to wait before the same request can do better; 0 if
// waiting does not help.
func (e *Error) RetryAfter() int {
	if e.retryAfter == 0 && e.Code == CodeUnavailable {
		return 1
	}
	return e.retryAfter
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Codes of an Error. Append-only.
const (
	CodeInvalid      = "invalid_request"
	CodeUnauthorized = "unauthorized"
	CodeForbidden    = "forbidden"
	CodeNotFound     = "not_found"
	CodeMethod       = "method_not_allowed"
	CodeConflict     = "conflict"
	CodeUnlawful     = "unlawful"
	CodeErased       = "content_erased"
	CodeTooLarge     = "too_large"
	CodeUnavailable  = "unavailable"
	CodeInternal     = "internal"
	CodeRateLimited  = "rate_limited"
)

// ReasonLogDamaged is the reason of an [Error] where a file of the log is not
// what the ledger wrote. Asking again does not help before it is put right.
const ReasonLogDamaged = "log_damaged"

// DamageHint says what to do about a damaged file of the log.
const DamageHint = "see docs/runbooks/damaged.md: put the file back from a mirror or a backup"

// Unavailable is trouble of the ledger: the caller may send the same again, and
// most reasons pass by themselves. unavailableHint knows those that do not.
type Unavailable struct {
	// Reason is a fixed word: disk_full, stream_unavailable, log_unavailable,
	// starting, stopping, log_disagrees, log_set_back, vault_unavailable,
	// key_missing, timeout.
	Reason  string
	Message string
}

func (e *Unavailable) Error() string { return e.Reason + ": " + e.Message }

// unavailableHint says who can do something. What needs an operator does not pass
// while a caller waits, whatever is sent again.
func unavailableHint(reason string) string {
	switch reason {
	case "log_disagrees", "log_set_back":
		return "tell the operator of the ledger: it takes nothing until they have acted (docs/runbooks/README.md)"
	case "vault_unavailable":
		return "tell the operator of the ledger: it must be started again; after that, sending the same again is safe"
	case "not_signer":
		return "send it to the node that signs (--server URL); counterfoil doctor --cluster names it"
	case "key_missing":
		return "tell the operator of the ledger: this attempt takes nothing until its key is restored from a backup of the vault; sending the same again does not help"
	}
	return "send the same again later; it is safe"
}

func invalid(path, hint, message string) *Error {
	return &Error{Code: CodeInvalid, Path: path, Hint: hint, Message: message, status: http.StatusBadRequest}
}

// NewConflict is the error for what cannot be done in the present state.
func NewConflict(message, hint string) *Error {
	return &Error{Code: CodeConflict, Message: message, Hint: hint, status: http.StatusConflict}
}

// NewInvalid is the error for a request that is wrong in itself.
func NewInvalid(path, hint, message string) *Error { return invalid(path, hint, message) }

// NewNotFound is the error for something that is not there.
func NewNotFound(message, hint string) *Error { return notFound(message, hint) }

func notFound(message, hint string) *Error {
	return &Error{Code: CodeNotFound, Message: message, Hint: hint, status: http.StatusNotFound}
}

// toError maps what the ledger answers to the error document. internal is true
// for trouble that the log should hear of.
func toError(err error) (out *Error, internal bool) {
	var (
		api *Error
		req *intake.RequestError
		con *intake.Conflict
		law *intake.Unlawful
		una *Unavailable
		vio *lifecycle.Violation
		dam *tiles.DamageError
	)
	switch {
	case errors.As(err, &api):
		return api, false
	case errors.As(err, &req):
		e := &Error{Code: CodeInvalid, Message: req.Detail, Path: req.Path, Hint: req.Hint, status: http.StatusBadRequest}
		if req.TooLarge {
			e.Code, e.status = CodeTooLarge, http.StatusRequestEntityTooLarge
		}
		return e, false
	case errors.As(err, &con):
		return &Error{Code: CodeConflict, Message: "this source event was recorded with other content; the first stays", EventID: con.EventID,
			Stored: con.Stored, Offered: con.Offered, Hint: "use a new id for a new event; send the first content to get its receipt", status: http.StatusConflict}, false
	case errors.As(err, &law):
		return &Error{Code: CodeUnlawful, Message: law.Violation.Detail, Reason: law.Violation.Code, State: law.State.State, status: http.StatusConflict}, false
	case errors.As(err, &vio):
		return &Error{Code: CodeUnlawful, Message: vio.Detail, Reason: vio.Code, status: http.StatusConflict}, false
	case errors.Is(err, intake.ErrNoAttempt):
		return notFound("no such attempt", "begin it first, or check the ledger that it was begun on"), false
	case errors.Is(err, intake.ErrErased):
		return &Error{Code: CodeErased, Message: "the content of this attempt was erased", status: http.StatusGone}, false
	case errors.As(err, &una):
		return &Error{Code: CodeUnavailable, Message: una.Message, Reason: una.Reason, Hint: unavailableHint(una.Reason), status: http.StatusServiceUnavailable}, true
	case errors.As(err, &dam):
		return &Error{Code: CodeInternal, Message: "the log is damaged: " + dam.Error(), Reason: ReasonLogDamaged, Hint: DamageHint, status: http.StatusInternalServerError}, true
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeUnavailable, Message: "the stage was not reached in time; the event may be recorded", Reason: "timeout",
			Hint: "send the same again to learn; it is safe", status: http.StatusServiceUnavailable}, true
	case errors.Is(err, context.Canceled):
		return &Error{Code: CodeUnavailable, Message: "the request was cancelled", Reason: "stopping", status: http.StatusServiceUnavailable}, false
	}
	return &Error{Code: CodeInternal, Message: "internal error", Hint: "see the ledger's log", status: http.StatusInternalServerError}, true
}

// Explain words an error for a caller. Trouble of the ledger itself goes to the
// log, with the call's name; the caller is told no more than what kind it is.
func (s *Server) Explain(call string, err error) *Error {
	e, internal := toError(err)
	if internal {
		if n, ok := s.failures.tell(e.Code+" "+e.Reason, s.cfg.Now()); ok {
			s.cfg.Logger.Error("request failed", "call", call, "error", err, "unsaid", n)
		}
	}
	return e
}

// failures thins out the log: of failures of one kind one a second is told, with
// the number of those that were not. Callers who try again all the time must not
// fill the disk that is full.
type failures struct {
	mu    sync.Mutex
	kinds map[string]*failure
}

type failure struct {
	told   time.Time
	unsaid int
}

func (f *failures) tell(kind string, now time.Time) (unsaid int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kinds[kind]
	if k == nil {
		if f.kinds == nil {
			f.kinds = map[string]*failure{}
		}
		k = &failure{}
		f.kinds[kind] = k // kinds are codes and reasons of ours, so few
	} else if d := now.Sub(k.told); d >= 0 && d < time.Second {
		k.unsaid++
		return 0, false
	}
	unsaid, k.told, k.unsaid = k.unsaid, now, 0
	return unsaid, true
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.Explain(r.Method+" "+r.URL.Path, err)
	if e.RetryAfter() > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter()))
	}
	writeJSON(w, e.status, struct {
		Error *Error `json:"error"`
	}{e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"answer could not be encoded"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client is gone if this fails
}
