package server

import (
	"context"
	"time"

	"counterfoil/witness/rule"
)

// Objection is why a checkpoint that continues the latest one is not cosigned all
// the same.
type Objection struct {
	// Status is 403 if the tree holds what the auditor does not accept, which the
	// log cannot take back, and 503 if it is not known yet.
	Status int
	Detail string        // one line
	Retry  time.Duration // for Retry-After; 0 without one
}

func (o *Objection) Error() string { return o.Detail }

func (o *Objection) answer() answer {
	a := plainly(o.Status, "%s", o.Detail)
	a.retry = o.Retry
	return a
}

// audit asks Config.Audit, outside of the log's turn, since that may take a while.
// Of a request that will be refused anyway nothing is asked; should it be acceptable
// by its turn after all, it counts as not audited.
func (s *Server) audit(ctx context.Context, origin string, req *rule.Request) *Objection {
	if s.cfg.Audit == nil {
		return nil
	}
	now, _ := s.cfg.Store.Latest(origin)
	if rule.Advance(rule.State{Size: now.Checkpoint.Size, Root: now.Checkpoint.Root}, req) != nil {
		return &Objection{Status: 503, Detail: "the tree was not audited", Retry: time.Second}
	}
	return s.cfg.Audit(ctx, origin, req.Note.Append(nil))
}
