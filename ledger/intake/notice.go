package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// Notice records a statement of the ledger about itself, once per id; the
// result is nil if it had been recorded before.
func (in *Intake) Notice(ctx context.Context, id string, gap event.Gap) (*Result, error) {
	res, err := in.state(ctx, id, event.Subject{Kind: event.Ledger, ID: in.cfg.Origin}, "gap", gap.Value())
	var again *Conflict
	if errors.As(err, &again) {
		return nil, nil // stated before, at another time
	}
	return res, err
}

// KeyNotice records that the ledger is about to change an event key; KeyApplied,
// once it is done, that it did. A change that was begun and has no outcome was
// perhaps not made: the registry tells.
func (in *Intake) KeyNotice(ctx context.Context, id string, change event.KeyChange) (*Result, error) {
	return in.state(ctx, id, event.Subject{Kind: event.Key, ID: change.KeyID}, "key."+change.Change, change.Value())
}

// KeyApplied records the outcome of a key change.
func (in *Intake) KeyApplied(ctx context.Context, attemptID string) (*Result, error) {
	return in.Applied(ctx, attemptID)
}

// ErasureNotice records that the ledger is about to destroy private values. Without
// its outcome it is not known to be done: the next start finishes it.
func (in *Intake) ErasureNotice(ctx context.Context, id string, x event.Erasure) (*Result, error) {
	return in.state(ctx, id, event.Subject{Kind: event.Ledger, ID: in.cfg.Origin}, "erasure."+x.State, x.Value())
}

// HoldNotice records a legal hold, in force from here on.
func (in *Intake) HoldNotice(ctx context.Context, id string, h event.Hold) (*Result, error) {
	return in.state(ctx, id, event.Subject{Kind: event.Ledger, ID: in.cfg.Origin}, "hold", h.Value())
}

// RetentionNotice records that evidence is about to be kept under another class.
func (in *Intake) RetentionNotice(ctx context.Context, id string, r event.RetentionChange) (*Result, error) {
	return in.state(ctx, id, event.Subject{Kind: event.Ledger, ID: in.cfg.Origin}, "retention", r.Value())
}

// Applied records the outcome of what was announced: it is done.
func (in *Intake) Applied(ctx context.Context, attemptID string) (*Result, error) {
	return in.follow(ctx, &Append{AttemptID: attemptID, Lifecycle: event.Outcome, SourceEventID: "applied", Status: event.StatusSucceeded})
}

// Released records that what was announced is taken back, such as a legal hold.
// outcome is the event id of its outcome.
func (in *Intake) Released(ctx context.Context, attemptID, outcome string) (*Result, error) {
	return in.follow(ctx, &Append{AttemptID: attemptID, Lifecycle: event.Reversal, SourceEventID: "released", Status: event.StatusReversed,
		Refs: map[string]string{lifecycle.RefReverses: outcome}})
}

func (in *Intake) follow(ctx context.Context, a *Append) (*Result, error) {
	a.OccurredAt = event.FormatTime(in.cfg.Now())
	if err := a.prepare(); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", a.Lifecycle, a.AttemptID, err)
	}
	return in.Append(ctx, a)
}

// state records an attempt in which the ledger is the source.
func (in *Intake) state(ctx context.Context, id string, subject event.Subject, action string, statement jsontext.Value) (*Result, error) {
	b := &Begin{
		Source:     BeginSource{RuntimeID: "ledger:" + in.cfg.Origin, AgentID: "ledger", InvocationID: id, Protocol: "counterfoil", Implementation: "counterfoil"},
		OccurredAt: event.FormatTime(in.cfg.Now()),
		Action:     event.Action{Name: action, EffectKind: "ledger_notice", EffectMode: "one_time"},
		Subject:    subject,
		statement:  statement,
	}
	if err := b.prepare(); err != nil {
		return nil, fmt.Errorf("notice %s: %w", id, err)
	}
	return in.Begin(ctx, b)
}
