package api

import (
	"context"
	"net/http"
	"strconv"

	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// begin serves POST /v1/attempts.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) error {
	stage, err := s.stage(r)
	if err != nil {
		return err
	}
	b, err := body(w, r, intake.MaxBodyBytes)
	if err != nil {
		return err
	}
	req, err := intake.ParseBegin(b)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.WaitLimit)
	defer cancel()
	res, err := s.cfg.Ledger.Begin(ctx, req)
	if err != nil {
		return err
	}
	return s.answer(w, r, res, stage)
}

// append serves POST /v1/attempts/{attemptId}/events.
func (s *Server) append(w http.ResponseWriter, r *http.Request) error {
	stage, err := s.stage(r)
	if err != nil {
		return err
	}
	id := r.PathValue("attemptId")
	if _, ok := event.ShardOfAttempt(id); !ok {
		return notFound("no such attempt", `an attempt id is "att_" and 32 lower-case hex digits`)
	}
	b, err := body(w, r, intake.MaxBodyBytes)
	if err != nil {
		return err
	}
	req, err := intake.ParseAppend(b, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.WaitLimit)
	defer cancel()
	res, err := s.cfg.Ledger.Append(ctx, req)
	if err != nil {
		return err
	}
	return s.answer(w, r, res, stage)
}

// answer waits for the stage and writes the receipt: 201 for a new event, 200
// for one that had been recorded before.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, res *intake.Result, stage string) error {
	rc, err := s.receiptOf(r.Context(), res, stage)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if res.New {
		status = http.StatusCreated
	}
	writeJSON(w, status, rc)
	return nil
}

func (s *Server) receiptOf(ctx context.Context, res *intake.Result, stage string) (*Receipt, error) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.WaitLimit)
	defer cancel()
	if err := s.cfg.Ledger.Wait(wait, res.LeafIndex(), stage); err != nil {
		return nil, err
	}
	place, err := s.cfg.Ledger.Place(ctx, res.LeafIndex(), stage == StagePublished)
	if err != nil {
		return nil, err
	}
	return NewReceipt(res.Rec, place, res.Openings), nil
}
