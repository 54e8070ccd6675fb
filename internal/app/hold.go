package app

import (
	"context"
	"fmt"
	"slices"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
)

// AddHold puts a legal hold on an attempt, or on all attempts about a subject,
// those to come included. It is in force when its notice is on the stream.
func (l *Ledger) AddHold(ctx context.Context, h event.Hold) (*api.Hold, error) {
	if err := l.admit(); err != nil {
		return nil, err
	}
	if (h.Attempt == "") == (h.Subject == nil) {
		return nil, api.NewInvalid("", "give attempt or subject", "a hold is on an attempt or on a subject, one of the two")
	}
	if h.Attempt != "" {
		if _, err := l.target(ctx, h.Attempt); err != nil {
			return nil, err
		}
	} else if err := checkSubject(*h.Subject); err != nil {
		return nil, err
	}
	done, err := l.beginChange(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, have := range l.custody.inForce() {
		if have.Attempt == h.Attempt && (h.Subject == nil || have.Subject != nil && *have.Subject == *h.Subject) {
			return &have, nil // it is there
		}
	}
	v := h.Value()
	res, err := l.announce(ctx, "hold", v, func(id string) (*intake.Result, error) { return l.intake.HoldNotice(ctx, id, h) })
	if err != nil {
		return nil, err
	}
	out := holdOf(res.Rec.Event, h, res.Seq)
	l.custody.add(out)
	l.log.Info("a legal hold is in force", "hold", out.HoldID)
	if err := l.custody.step("hold announced"); err != nil {
		return nil, err
	}
	if _, err := l.confirm(ctx, out.HoldID); err != nil {
		return nil, err
	}
	return &out, nil
}

// ReleaseHold ends a legal hold. One that was released stays so.
func (l *Ledger) ReleaseHold(ctx context.Context, holdID string) (*api.Hold, error) {
	if err := l.admit(); err != nil {
		return nil, err
	}
	done, err := l.beginChange(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	none := api.NewNotFound("no such hold", "counterfoil hold list shows the holds")
	if _, ok := event.ShardOfAttempt(holdID); !ok {
		return nil, none
	}
	// The index may be behind its own outcome.
	if err := l.index.WaitFor(ctx, l.stream.LastSeen()); err != nil {
		return nil, err
	}
	events, st, err := l.intake.Attempt(ctx, holdID)
	if err != nil {
		return nil, l.explain(err)
	}
	h, ok := events[0].Rec.Event.Hold()
	if !ok {
		return nil, none
	}
	out := holdOf(events[0].Rec.Event, h, events[0].Seq)
	out.InForce = false
	if st.Summary().Reversal == event.StatusReversed {
		return &out, nil
	}
	i := slices.IndexFunc(events, func(r *intake.Result) bool { return r.Rec.Event.Lifecycle == event.Outcome })
	if i < 0 {
		return nil, fmt.Errorf("hold %s has no outcome", holdID) // beginChange gives it one
	}
	l.custody.unknown = true
	res, err := l.intake.Released(ctx, holdID, events[i].Rec.Digest().EventID())
	if err != nil {
		return nil, l.explain(fmt.Errorf("release hold %s: %w", holdID, err))
	}
	if err := l.Wait(ctx, res.LeafIndex(), api.StageLogged); err != nil {
		return nil, l.explain(err)
	}
	// Only now: a release that is not in the log did not happen.
	l.custody.remove(holdID)
	l.custody.unknown = false
	l.log.Info("a legal hold was released", "hold", holdID)
	return &out, nil
}

// Holds lists the legal holds in force.
func (l *Ledger) Holds(context.Context) api.Holds {
	return api.Holds{SchemaVersion: api.HoldsSchema, Holds: l.custody.inForce()}
}

func holdOf(e *event.Event, h event.Hold, seq uint64) api.Hold {
	return api.Hold{HoldID: e.AttemptID, Attempt: h.Attempt, Subject: h.Subject, Since: e.CapturedAt, LeafIndex: seq - 1, InForce: true}
}

func (c *custody) add(h api.Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = append(c.holds, h)
}

func (c *custody) set(holds []api.Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = holds
}

func (c *custody) remove(holdID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = slices.DeleteFunc(c.holds, func(h api.Hold) bool { return h.HoldID == holdID })
}

func (c *custody) inForce() []api.Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]api.Hold{}, c.holds...)
}

// holding returns the hold that is on an attempt, if there is one.
func (c *custody) holding(t target) (holdID string, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.holds {
		if h.Attempt == t.id || h.Subject != nil && *h.Subject == t.subject {
			return h.HoldID, true
		}
	}
	return "", false
}
