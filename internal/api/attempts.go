package api

import (
	"context"
	"net/http"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// AttemptSchema is the schemaVersion of an Attempt.
const AttemptSchema = "counterfoil.attempt.v1"

// maxBundleAttempts bounds the attempts of one exported bundle.
const maxBundleAttempts = 10_000

// Attempt is the state and history of one attempt.
type Attempt struct {
	SchemaVersion  string        `json:"schemaVersion"`
	AttemptID      string        `json:"attemptId"`
	State          string        `json:"state"`
	Outcome        string        `json:"outcome,omitempty"`
	Reconciliation string        `json:"reconciliation,omitempty"`
	Reversal       string        `json:"reversal,omitempty"`
	Review         string        `json:"review,omitempty"`
	InDoubt        bool          `json:"inDoubt,omitzero"`
	Corrected      bool          `json:"corrected,omitzero"`
	Revision       int64         `json:"revision"`
	Subject        event.Subject `json:"subject"`
	Action         event.Action  `json:"action"`
	Source         ReceiptSource `json:"source"`
	Stage          string        `json:"stage"`    // the lowest stage of its events
	TreeSize       uint64        `json:"treeSize"` // of the newest checkpoint
	Receipts       []*Receipt    `json:"receipts"`
}

// Attempt returns an attempt with all its receipts. What was acknowledged is there
// at once, whatever the lag of the views.
func (s *Server) Attempt(ctx context.Context, id string) (*Attempt, error) {
	if err := checkAttemptID(id); err != nil {
		return nil, err
	}
	events, state, err := s.cfg.Ledger.Attempt(ctx, id)
	if err != nil {
		return nil, err
	}
	size, _ := s.cfg.Ledger.Published()
	first := events[0].Rec.Event
	a := newAttempt(id, state, first, size)
	for _, res := range events {
		place, err := s.cfg.Ledger.Place(ctx, res.LeafIndex(), false)
		if err != nil {
			return nil, err
		}
		a.Stage = place.Stage // the newest event is never ahead of an older one
		a.Receipts = append(a.Receipts, NewReceipt(res.Rec, place, nil))
	}
	return a, nil
}

func newAttempt(id string, state *lifecycle.State, first *event.Event, treeSize uint64) *Attempt {
	sum := state.Summary()
	return &Attempt{
		SchemaVersion: AttemptSchema, AttemptID: id, State: sum.State, Outcome: sum.Outcome, Reconciliation: sum.Reconciliation,
		Reversal: sum.Reversal, Review: sum.Review, InDoubt: sum.InDoubt, Corrected: sum.Corrected, Revision: state.Revision(),
		Subject: first.Subject, Action: first.Action, TreeSize: treeSize,
		Source: ReceiptSource{RuntimeID: first.Source.RuntimeID, AgentID: first.Source.AgentID, InvocationID: first.Source.InvocationID,
			Protocol: first.Source.Protocol, Implementation: first.Source.Implementation},
	}
}

func (s *Server) attemptBundle(w http.ResponseWriter, r *http.Request) error {
	return s.writeBundle(w, r, []string{r.PathValue("attemptId")})
}

func (s *Server) bundle(w http.ResponseWriter, r *http.Request) error {
	return s.writeBundle(w, r, r.URL.Query()["attempt"])
}

// checkAttemptID refuses what cannot be an attempt's id.
func checkAttemptID(id string) error {
	if _, ok := event.ShardOfAttempt(id); !ok {
		return notFound("no such attempt", `an attempt id is "att_" and 32 lower-case hex digits`)
	}
	return nil
}

// Bundle returns the bundle of 1 to 10,000 attempts.
func (s *Server) Bundle(ctx context.Context, ids []string) ([]byte, error) {
	if len(ids) == 0 || len(ids) > maxBundleAttempts {
		return nil, invalid("", "name each attempt once", "want 1 to "+itoa(maxBundleAttempts)+" attempts, got "+itoa(int64(len(ids))))
	}
	for _, id := range ids {
		if err := checkAttemptID(id); err != nil {
			return nil, err
		}
	}
	return s.cfg.Ledger.Bundle(ctx, ids)
}

func (s *Server) writeBundle(w http.ResponseWriter, r *http.Request, ids []string) error {
	b, err := s.Bundle(r.Context(), ids)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the client is gone if this fails
	return nil
}

// TlogProof returns the .tlog-proof of an event.
func (s *Server) TlogProof(ctx context.Context, eventID string) ([]byte, error) {
	return s.cfg.Ledger.TlogProof(ctx, eventID)
}

func (s *Server) tlogProof(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := s.find(r.Context(), r.PathValue("eventId")); err != nil {
		return err // the views may still be on their way to what was just acknowledged
	}
	b, err := s.TlogProof(r.Context(), r.PathValue("eventId"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(b) // the client is gone if this fails
	return nil
}
