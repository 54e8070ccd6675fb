package record

import (
	"context"
	"errors"
	"fmt"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// Begun is what became of a call's attempt.
type Begun struct {
	// Attempt is the recorded attempt, nil if there is none.
	Attempt *Attempt
	// Err says why the call must not leave. If it is nil and there is no
	// Attempt, the call passes without evidence, and is counted.
	Err error
}

// Begin records attempts, in their order, and returns when they are durable
// leaves. It waits at most as long as patience lasts. Calls of which the attempt
// is not known to be durable are recorded later, when the ledger answers again:
// as not started where they must not leave.
func (r *Recorder) Begin(ctx context.Context, calls []Call) []Begun {
	out := make([]Begun, len(calls))
	bodies := make([]*client.Begin, len(calls))
	maybe := make([]bool, len(calls))
	limited, cancel := r.patience(ctx)
	defer cancel()
	last := -1 // of those that were accepted
	for i := range calls {
		bodies[i] = r.begin(&calls[i])
		stage := client.Accepted
		if i == len(calls)-1 {
			stage = client.Logged
		}
		var a *Attempt
		a, maybe[i], out[i].Err = r.send(limited, bodies[i], stage)
		if out[i].Attempt = a; a != nil {
			last = i
		}
	}
	if last >= 0 && last < len(calls)-1 {
		// The last one was refused: what came before it waits by itself.
		if _, _, err := r.send(limited, bodies[last], client.Logged); err != nil {
			for i := range out {
				if out[i].Err == nil {
					out[i], maybe[i] = Begun{Err: err}, true
				}
			}
		}
	}
	r.settle(calls, bodies, out, maybe)
	return out
}

// send begins one attempt.
func (r *Recorder) send(ctx context.Context, b *client.Begin, stage client.Stage) (a *Attempt, maybe bool, err error) {
	maybe, err = r.insist(ctx, func(ctx context.Context) error {
		ans, err := r.cfg.Ledger.Begin(ctx, b, stage)
		if err == nil {
			a = &Attempt{ID: ans.Value.AttemptID, newest: ans.Value.EventID}
		}
		return err
	})
	if err != nil {
		return nil, maybe, fmt.Errorf("record the attempt: %w", err)
	}
	return a, false, nil
}

// settle decides what happens to calls without evidence.
func (r *Recorder) settle(calls []Call, bodies []*client.Begin, out []Begun, maybe []bool) {
	var without int64
	for i := range out {
		if out[i].Err != nil {
			without++
		}
	}
	if without == 0 {
		return
	}
	passed := false
	if r.cfg.FailOpen {
		// The gap is on the disk before any of the calls leaves.
		err := r.gap.add(r.cfg.Now(), without)
		if passed = err == nil; !passed {
			r.cfg.Log.Error("calls without evidence cannot be counted, so they do not pass", "error", err.Error())
		}
	}
	for i := range out {
		switch {
		case out[i].Err == nil:
		case passed:
			out[i].Err = nil
			if maybe[i] { // the attempt may be on record: it must not stay open
				r.Lane().whole(bodies[i], event.StatusUnknown, "evidence_gap", r.cfg.Now(), len(calls[i].Input))
			}
		default:
			r.refuse(bodies[i], len(calls[i].Input), maybe[i])
		}
	}
}

// errRefused marks a lane that is full.
var errRefused = errors.New("too many refused calls wait for the ledger")

// refuse records, later, that a call was asked for and never left.
func (r *Recorder) refuse(b *client.Begin, size int, maybe bool) {
	if r.extra.len() >= maxRefused && !maybe {
		r.cfg.Log.Warn("a refused call will not be on record", "tool", b.Action.Name, "error", errRefused.Error())
		return
	}
	r.extra.whole(b, event.StatusNotStarted, "not_dispatched", r.cfg.Now(), size)
}
