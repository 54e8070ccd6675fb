package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"counterfoil/internal/api"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/vault"
)

// SetRetention puts the evidence of an attempt under another retention class. It
// is an event, by which a review run is triggered (ARC-16).
func (l *Ledger) SetRetention(ctx context.Context, r api.RetentionRequest) (*api.Retention, error) {
	if err := l.admit(); err != nil {
		return nil, err
	}
	if _, err := l.target(ctx, r.Attempt); err != nil {
		return nil, err
	}
	change := event.RetentionChange(r)
	l.custody.change.Lock()
	defer l.custody.change.Unlock()
	// What would be refused is not announced.
	if err := l.Archive().CheckRetention(change.Attempt, retentionOf(change)); err != nil {
		return nil, explainArchive(err)
	}
	res, err := l.announce(ctx, "retention", change.Value(), func(id string) (*intake.Result, error) { return l.intake.RetentionNotice(ctx, id, change) })
	if err != nil {
		return nil, err
	}
	if err := l.custody.step("retention announced"); err != nil {
		return nil, err
	}
	n, err := l.Archive().SetRetention(ctx, change.Attempt, retentionOf(change))
	if err != nil {
		return nil, l.explain(err)
	}
	id := res.Rec.Event.AttemptID
	done, err := l.confirm(ctx, id)
	if err != nil {
		return nil, err
	}
	return &api.Retention{SchemaVersion: api.RetentionSchema, Attempt: r.Attempt, Changed: n,
		Notice: api.Notice{AttemptID: id, LeafIndex: res.LeafIndex(), DoneIndex: done}}, nil
}

func retentionOf(r event.RetentionChange) archive.Retention {
	return archive.Retention{Class: r.Class, Kind: r.Kind, Days: int(r.Days)}
}

// retain does what a change of retention says. Evidence that is gone needs none.
func (l *Ledger) retain(ctx context.Context, r event.RetentionChange) error {
	_, err := l.Archive().SetRetention(ctx, r.Attempt, retentionOf(r))
	if errors.Is(err, vault.ErrErased) || errors.Is(err, vault.ErrRedacted) || errors.Is(err, vault.ErrNotFound) {
		return nil
	}
	return err
}

// lastOf keeps the newest change of each attempt.
func lastOf(all []event.RetentionChange) map[string]event.RetentionChange {
	out := map[string]event.RetentionChange{}
	for _, r := range all {
		out[r.Attempt] = r
	}
	return out
}

// expireEvery is how often evidence is looked through for what is over.
const expireEvery = time.Hour

// startExpiry begins to end retentions, once the legal holds are known.
func (l *Ledger) startExpiry(context.Context) error {
	l.background("evidence", func() error { l.expire(l.run); return nil })
	return nil
}

// expire ends the retention of evidence, until ctx ends. Trouble is told and tried
// again: what is kept for too long is a fault, and no reason to stop.
func (l *Ledger) expire(ctx context.Context) {
	t := time.NewTicker(expireEvery)
	defer t.Stop()
	for {
		if _, err := l.ExpireEvidence(ctx, l.cfg.Now()); err != nil && ctx.Err() == nil {
			l.log.Error("the retention of evidence could not be ended", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// ExpireEvidence ends the retention of evidence that is over at a time.
func (l *Ledger) ExpireEvidence(ctx context.Context, now time.Time) (archive.Ended, error) {
	l.custody.change.Lock() // a hold that was answered holds
	defer l.custody.change.Unlock()
	var failed error
	done, err := l.Archive().Expire(ctx, now, func(owner string) bool {
		t, err := l.target(ctx, owner)
		if err != nil {
			// An owner that cannot be looked up keeps what it has.
			failed = fmt.Errorf("look for a legal hold on %s: %w", owner, err)
			return true
		}
		_, held := l.custody.holding(t)
		return held
	})
	if done.Expired > 0 {
		l.log.Info("the retention of evidence ended", "references", done.Expired, "held", done.Held)
	}
	return done, errors.Join(err, failed)
}

// explainArchive words what the archive refuses.
func explainArchive(err error) error {
	var f *archive.Failure
	switch {
	case errors.As(err, &f) && (errors.Is(err, vault.ErrErased) || errors.Is(err, vault.ErrRedacted)):
		return errors.Join(intake.ErrErased, err)
	case errors.As(err, &f):
		return api.NewInvalid("", "the class is from the policy, and security evidence stays so", f.Error())
	}
	return err
}
