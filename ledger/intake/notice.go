package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
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
	a := &Append{AttemptID: attemptID, Lifecycle: event.Outcome, SourceEventID: "applied", OccurredAt: event.FormatTime(in.cfg.Now()), Status: event.StatusSucceeded}
	if err := a.prepare(); err != nil {
		return nil, fmt.Errorf("outcome of a key change: %w", err)
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
