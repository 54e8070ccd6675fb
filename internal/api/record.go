package api

import (
	"context"
	"net/http"
	"strconv"

	"counterfoil/ledger/intake"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// begin serves POST /v1/attempts.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) error {
	b, err := body(w, r, intake.MaxBodyBytes)
	if err != nil {
		return err
	}
	rc, created, err := s.Begin(r.Context(), b, r.URL.Query().Get("wait"))
	return answer(w, rc, created, err)
}

// Begin records a begin, given as the body of POST /v1/attempts, and waits for
// a stage, "" for the default. created is false if it had been recorded before.
func (s *Server) Begin(ctx context.Context, body []byte, wait string) (rc *Receipt, created bool, err error) {
	stage, err := s.stage(wait)
	if err != nil {
		return nil, false, err
	}
	req, err := intake.ParseBegin(body)
	if err != nil {
		return nil, false, err
	}
	reach, cancel := context.WithTimeout(ctx, s.cfg.WaitLimit)
	defer cancel()
	res, err := s.cfg.Ledger.Begin(reach, req)
	if err != nil {
		return nil, false, err
	}
	rc, err = s.receiptOf(ctx, res, stage)
	return rc, res.New, err
}

// append serves POST /v1/attempts/{attemptId}/events.
func (s *Server) append(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("attemptId")
	if err := checkAttemptID(id); err != nil {
		return err
	}
	b, err := body(w, r, intake.MaxBodyBytes)
	if err != nil {
		return err
	}
	rc, created, err := s.Append(r.Context(), b, id, r.URL.Query().Get("wait"))
	return answer(w, rc, created, err)
}

// Append records a further event, given as the body of POST
// /v1/attempts/{attemptId}/events; else as Begin.
func (s *Server) Append(ctx context.Context, body []byte, attemptID, wait string) (rc *Receipt, created bool, err error) {
	stage, err := s.stage(wait)
	if err != nil {
		return nil, false, err
	}
	if err := checkAttemptID(attemptID); err != nil {
		return nil, false, err
	}
	req, err := intake.ParseAppend(body, attemptID)
	if err != nil {
		return nil, false, err
	}
	reach, cancel := context.WithTimeout(ctx, s.cfg.WaitLimit)
	defer cancel()
	res, err := s.cfg.Ledger.Append(reach, req)
	if err != nil {
		return nil, false, err
	}
	rc, err = s.receiptOf(ctx, res, stage)
	return rc, res.New, err
}

// answer writes the receipt: 201 for a new event, 200 for one that had been
// recorded before.
func answer(w http.ResponseWriter, rc *Receipt, created bool, err error) error {
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(status)
	buf := answers.Get().(*[]byte)
	*buf = append(rc.Append((*buf)[:0]), '\n')
	_, _ = w.Write(*buf) // the client is gone if this fails
	answers.Put(buf)
	return nil
}

var contentJSON = []string{"application/json"}

func (s *Server) receiptOf(ctx context.Context, res *intake.Result, stage string) (*Receipt, error) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.WaitLimit)
	defer cancel()
	if err := s.cfg.Ledger.Wait(wait, res.LeafIndex(), stage); err != nil {
		return nil, err
	}
	place, err := s.cfg.Ledger.Place(ctx, res.LeafIndex(), proves(stage))
	if err != nil {
		return nil, err
	}
	return NewReceipt(res.Rec, place, res.Openings), nil
}
