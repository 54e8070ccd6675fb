package app

import (
	"context"
	"errors"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/vault"
)

// Begin records a new attempt; see package intake.
func (l *Ledger) Begin(ctx context.Context, b *intake.Begin) (*intake.Result, error) {
	return l.take(ctx, func(ctx context.Context) (*intake.Result, error) { return l.intake.Begin(ctx, b) })
}

// Append records a further event; see package intake.
func (l *Ledger) Append(ctx context.Context, a *intake.Append) (*intake.Result, error) {
	return l.take(ctx, func(ctx context.Context) (*intake.Result, error) { return l.intake.Append(ctx, a) })
}

// take has an event recorded, if events are taken now.
func (l *Ledger) take(ctx context.Context, record func(context.Context) (*intake.Result, error)) (_ *intake.Result, err error) {
	defer func() { l.countRefusal(err) }()
	if err := l.admit(); err != nil {
		return nil, err
	}
	l.taking.Add(1)
	defer l.taking.Add(-1)
	ctx, span := l.trace.Begin(ctx, "intake")
	res, err := record(ctx)
	took(span, res, err)
	return res, l.explain(err)
}

// Attempt returns the recorded events of an attempt.
func (l *Ledger) Attempt(ctx context.Context, id string) ([]*intake.Result, *lifecycle.State, error) {
	rs, st, err := l.intake.Attempt(ctx, id)
	return rs, st, l.explain(err)
}

// Check verifies the signatures of a record.
func (l *Ledger) Check(rec *event.Record, leaf []byte, leafIndex uint64) error {
	return l.check.check(rec, leaf, leafIndex)
}

// explain turns trouble below into words for callers.
func (l *Ledger) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stream.ErrUnavailable), errors.Is(err, intake.ErrUnanswered):
		return errors.Join(&api.Unavailable{Reason: "stream_unavailable", Message: "the stream does not take events now"}, err)
	case errors.Is(err, intake.ErrNotSigned):
		return errors.Join(&api.Unavailable{Reason: "signer_unavailable", Message: "the event could not be signed; nothing was recorded"}, err)
	case errors.Is(err, vault.ErrNoSpace):
		return errors.Join(&api.Unavailable{Reason: reasonDiskFull, Message: "too little disk space to keep the attempt's key and private values"}, err)
	case errors.Is(err, vault.ErrUnavailable):
		return errors.Join(&api.Unavailable{Reason: "stream_unavailable", Message: "the nodes cannot agree on the attempt's key and private values now"}, err)
	case errors.Is(err, vault.ErrFailed):
		l.partFailed("vault", err)
		return errors.Join(&api.Unavailable{Reason: "vault_unavailable", Message: "the vault failed; the ledger ends and must be started again"}, err)
	case errors.Is(err, intake.ErrNoKey):
		return errors.Join(&api.Unavailable{Reason: "key_missing", Message: "the vault has no key of this attempt, so its content cannot be compared"}, err)
	}
	return err
}
