package rig

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"counterfoil/internal/bench/report"
)

// OverHTTP is the ledger in a process of its own, called over HTTP: begin and
// outcome in turn, each answered at stage logged.
func (r *Rig) OverHTTP() System {
	return System{Name: "ledger over HTTP", Open: func(ctx context.Context, dir string, clients int) (Recorder, error) {
		l, err := r.Serve(ctx, dir)
		if err != nil {
			return nil, err
		}
		return Singles(l, clients), nil
	}}
}

// InBatches is the ledger over HTTP with BatchEvents begins a call.
func (r *Rig) InBatches() System {
	return System{Name: "ledger over HTTP, batches of " + report.Count(BatchEvents), Open: func(ctx context.Context, dir string, _ int) (Recorder, error) {
		l, err := r.Serve(ctx, dir)
		if err != nil {
			return nil, err
		}
		return Batches(l), nil
	}}
}

// Singles records event by event in a ledger that runs. Close stops it.
func Singles(l *Ledger, clients int) Recorder {
	return &singles{recorder{l}, make([]string, clients)}
}

// Batches records batch by batch in a ledger that runs. Close stops it.
func Batches(l *Ledger) Recorder { return &batches{recorder{l}} }

type recorder struct{ *Ledger }

func (r recorder) Close() error { return r.Stop() }

type singles struct {
	recorder
	open []string // by client, the attempt that waits for its outcome
}

func (s *singles) Record(ctx context.Context, client int) (int, error) {
	if id := s.open[client]; id != "" {
		s.open[client] = ""
		_, err := s.Post(ctx, "/v1/attempts/"+id+"/events", OutcomeBody(id), http.StatusCreated)
		return 1, err
	}
	b, err := s.Post(ctx, "/v1/attempts", BeginBody(), http.StatusCreated)
	if err == nil {
		s.open[client], err = attemptOf(b)
	}
	return 1, err
}

type batches struct{ recorder }

func (b *batches) Record(ctx context.Context, _ int) (int, error) {
	return b.Batch(ctx, BatchEvents)
}

// Batch records a batch of begins, all of which must be new.
func (l *Ledger) Batch(ctx context.Context, events int) (int, error) {
	out, err := l.Post(ctx, "/v1/events:batch", BatchBody(events), http.StatusOK)
	if n := bytes.Count(out, []byte(`"status":201`)); err == nil && n != events {
		err = fmt.Errorf("%d of %d events recorded: %.300s", n, events, out)
	}
	return events, err
}
