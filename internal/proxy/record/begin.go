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
			a.refs = calls[i].Refs
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
	refused := false
	for i := range out {
		refused = refused || out[i].Err != nil
		if calls[i].Denied == nil && (out[i].Err != nil || calls[i].Unasked) {
			without++
		}
	}
	if without == 0 && !refused {
		return
	}
	passed := false
	if r.cfg.FailOpen && without > 0 {
		// The gap is on the disk before any of the calls leaves.
		err := r.gap.add(r.cfg.Now(), without)
		if passed = err == nil; !passed {
			r.cfg.Log.Error("calls without evidence cannot be counted, so they do not pass", "error", err.Error())
		}
	}
	for i := range out {
		switch {
		case out[i].Err == nil:
			if calls[i].Unasked && !passed {
				out[i].Err = errUncounted
			}
		case passed && calls[i].Denied == nil:
			out[i].Err = nil
			if maybe[i] { // the attempt may be on record: it must not stay open
				r.Lane().whole(bodies[i], ending{event.StatusUnknown, []string{"evidence_gap"}, calls[i].Refs, r.cfg.Now()}, len(calls[i].Input))
			}
		default:
			r.refuse(bodies[i], &calls[i], maybe[i])
		}
	}
}

// errUncounted says that a call that nobody decided on cannot be counted.
var errUncounted = errors.New("a call without an answer of the ledger cannot be counted")

// Refuse records calls that do not leave, later and beside the traffic.
func (r *Recorder) Refuse(calls []Call) {
	for i := range calls {
		r.refuse(r.begin(&calls[i]), &calls[i], false)
	}
}

// errRefused marks a lane that is full.
var errRefused = errors.New("too many refused calls wait for the ledger")

// refuse records, later, that a call was asked for and never left.
func (r *Recorder) refuse(b *client.Begin, c *Call, maybe bool) {
	if r.extra.len() >= maxRefused && !maybe {
		r.cfg.Log.Warn("a refused call will not be on record", "tool", b.Action.Name, "error", errRefused.Error())
		return
	}
	reasons := c.Denied
	if reasons == nil {
		reasons = []string{"not_dispatched"}
	}
	r.extra.whole(b, ending{event.StatusNotStarted, reasons, c.Refs, r.cfg.Now()}, len(c.Input))
}
