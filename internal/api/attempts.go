package api

import (
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

// attempt serves GET /v1/attempts/{attemptId}: what was acknowledged is there
// at once, whatever the lag of the views.
func (s *Server) attempt(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("attemptId")
	if _, ok := event.ShardOfAttempt(id); !ok {
		return notFound("no such attempt", `an attempt id is "att_" and 32 lower-case hex digits`)
	}
	events, state, err := s.cfg.Ledger.Attempt(r.Context(), id)
	if err != nil {
		return err
	}
	size, _ := s.cfg.Ledger.Published()
	first := events[0].Rec.Event
	a := newAttempt(id, state, first, size)
	for _, res := range events {
		place, err := s.cfg.Ledger.Place(r.Context(), res.LeafIndex(), false)
		if err != nil {
			return err
		}
		a.Stage = place.Stage // the newest event is never ahead of an older one
		a.Receipts = append(a.Receipts, NewReceipt(res.Rec, place, nil))
	}
	writeJSON(w, http.StatusOK, a)
	return nil
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
	ids := r.URL.Query()["attempt"]
	if len(ids) == 0 || len(ids) > maxBundleAttempts {
		return invalid("", "name each attempt in a query parameter attempt", "want 1 to "+itoa(maxBundleAttempts)+" attempts, got "+itoa(int64(len(ids))))
	}
	return s.writeBundle(w, r, ids)
}

func (s *Server) writeBundle(w http.ResponseWriter, r *http.Request, ids []string) error {
	for _, id := range ids {
		if _, ok := event.ShardOfAttempt(id); !ok {
			return notFound("no such attempt", `an attempt id is "att_" and 32 lower-case hex digits`)
		}
	}
	b, err := s.cfg.Ledger.Bundle(r.Context(), ids)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the client is gone if this fails
	return nil
}

func (s *Server) tlogProof(w http.ResponseWriter, r *http.Request) error {
	b, err := s.cfg.Ledger.TlogProof(r.Context(), r.PathValue("eventId"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(b) // the client is gone if this fails
	return nil
}
