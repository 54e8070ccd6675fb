package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/event"
)

// Schemas of erasures and legal holds.
const (
	ErasureSchema   = "counterfoil.erasure.v1"
	HoldsSchema     = "counterfoil.holds.v1"
	RetentionSchema = "counterfoil.retention.v1"
)

// MaxErase bounds the attempts that one call erases, and those that it names.
const MaxErase = 4096

// EraseRequest says what to erase.
type EraseRequest struct {
	// Attempts are attempt ids; empty if Subject is given.
	Attempts []string `json:"attempts"`
	// Subject erases every attempt about it that has begun.
	Subject *event.Subject `json:"subject"`
	// State is what to leave: redacted or purged; purged if it is empty.
	State   string `json:"state"`
	Confirm bool   `json:"confirm"`
}

// Erasure is what an erasure did, and what it did not do.
type Erasure struct {
	SchemaVersion string `json:"schemaVersion"`
	State         string `json:"state"`    // redacted or purged
	Affected      int    `json:"affected"` // attempts whose state changed
	Already       int    `json:"already"`  // attempts that were there, or beyond
	// Open counts the affected attempts that have no outcome. After a purge they
	// can have none any more.
	Open int `json:"open"`
	// Notices are the events that say so.
	Notices []Notice `json:"notices"`
	// More says that the subject has further attempts: do the same again.
	More bool `json:"more"`
	// Verdict is always incomplete: no ledger knows every copy.
	Verdict    string   `json:"verdict"`
	Kept       []Remark `json:"kept"`       // what is still here, on purpose
	NotCovered []Remark `json:"notCovered"` // what this ledger cannot reach
}

// Notice is an attempt in which the ledger says what it did.
type Notice struct {
	AttemptID string `json:"attemptId"`
	LeafIndex uint64 `json:"leafIndex"` // of the announcement
	DoneIndex uint64 `json:"doneIndex"` // of the outcome
}

// Remark is a fixed code with its text.
type Remark struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Hold is a legal hold.
type Hold struct {
	HoldID    string         `json:"holdId"` // attempt id of its notice
	Attempt   string         `json:"attempt,omitempty"`
	Subject   *event.Subject `json:"subject,omitempty"`
	Since     string         `json:"since"` // RFC 3339, of the ledger's clock
	LeafIndex uint64         `json:"leafIndex"`
	InForce   bool           `json:"inForce"`
}

// Holds are the legal holds in force.
type Holds struct {
	SchemaVersion string `json:"schemaVersion"`
	Holds         []Hold `json:"holds"` // oldest first
}

// RetentionRequest puts the evidence of an attempt under another class.
type RetentionRequest struct {
	Attempt string `json:"attempt"`
	Class   string `json:"class"`
	Kind    string `json:"kind"`
	Days    int64  `json:"days"`
}

// Retention says what a change of retention did.
type Retention struct {
	SchemaVersion string `json:"schemaVersion"`
	Attempt       string `json:"attempt"`
	Changed       int    `json:"changed"` // pieces of evidence
	Notice        Notice `json:"notice"`
}

// Custodian erases, holds and retains. Everything that it does is an event.
type Custodian interface {
	Erase(ctx context.Context, r EraseRequest) (*Erasure, error)
	AddHold(ctx context.Context, h event.Hold) (*Hold, error)
	ReleaseHold(ctx context.Context, holdID string) (*Hold, error)
	Holds(ctx context.Context) Holds
	SetRetention(ctx context.Context, r RetentionRequest) (*Retention, error)
}

// ReasonHeld is the reason of what a legal hold refuses.
const ReasonHeld = "legal_hold"

// NewHeld is the error for what a legal hold is on.
func NewHeld(attemptID, holdID string) *Error {
	return &Error{Code: CodeConflict, Reason: ReasonHeld, status: http.StatusConflict,
		Message: fmt.Sprintf("a legal hold is on attempt %s: hold %s; nothing was erased", attemptID, holdID),
		Hint:    "counterfoil hold list shows the holds; release it first, if it is over"}
}

// NewUnconfirmed is the error for an erasure that nobody confirmed.
func NewUnconfirmed(n int, state string) *Error {
	attempts := "attempts"
	if n == 1 {
		attempts = "attempt"
	}
	return &Error{Code: CodeInvalid, Path: "/confirm", Reason: "confirmation_required", status: http.StatusBadRequest,
		Message: fmt.Sprintf("%d %s would be %s, and nothing brings that back", n, attempts, state),
		Hint:    `say "confirm": true, or --confirm`}
}

// maxEraseBody bounds the body of an erasure: MaxErase ids.
const maxEraseBody = 256 << 10

// erase serves POST /v1/erasures.
func (s *Server) erase(w http.ResponseWriter, r *http.Request) error {
	var req EraseRequest
	if err := decodeBody(w, r, maxEraseBody, &req); err != nil {
		return err
	}
	return carried(s, w, r, http.StatusOK, func(ctx context.Context) (*Erasure, error) { return s.cfg.Ledger.Erase(ctx, req) })
}

// addHold serves POST /v1/holds.
func (s *Server) addHold(w http.ResponseWriter, r *http.Request) error {
	var h event.Hold
	if err := decodeBody(w, r, maxKeyBody, &h); err != nil {
		return err
	}
	return carried(s, w, r, http.StatusCreated, func(ctx context.Context) (*Hold, error) { return s.cfg.Ledger.AddHold(ctx, h) })
}

// releaseHold serves POST /v1/holds/{holdId}/release.
func (s *Server) releaseHold(w http.ResponseWriter, r *http.Request) error {
	return carried(s, w, r, http.StatusOK, func(ctx context.Context) (*Hold, error) {
		return s.cfg.Ledger.ReleaseHold(ctx, r.PathValue("holdId"))
	})
}

// holds serves GET /v1/holds.
func (s *Server) holds(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, s.cfg.Ledger.Holds(r.Context()))
	return nil
}

// setRetention serves POST /v1/retention.
func (s *Server) setRetention(w http.ResponseWriter, r *http.Request) error {
	var req RetentionRequest
	if err := decodeBody(w, r, maxKeyBody, &req); err != nil {
		return err
	}
	return carried(s, w, r, http.StatusOK, func(ctx context.Context) (*Retention, error) { return s.cfg.Ledger.SetRetention(ctx, req) })
}

// carried does what was asked to its end, whether or not the caller waits.
func carried[T any](s *Server, w http.ResponseWriter, r *http.Request, status int, do func(context.Context) (T, error)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.cfg.WaitLimit)
	defer cancel()
	out, err := do(ctx)
	if err != nil {
		return err
	}
	writeJSON(w, status, out)
	return nil
}

func decodeBody(w http.ResponseWriter, r *http.Request, most int64, v any) error {
	b, err := body(w, r, most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return invalid("", "the members are in docs/spec/http.md", "not the body of this call: "+err.Error())
	}
	return nil
}
