package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"counterfoil/internal/api"
	"counterfoil/ledger/admission"
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
	done, err := l.beginChange(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	// What would be refused is not announced.
	if err := l.Archive().CheckRetention(change.Attempt, retentionOf(change), l.cfg.Now()); err != nil {
		return nil, explainArchive(err)
	}
	res, err := l.announce(ctx, "retention", change.Value(), func(id string) (*intake.Result, error) { return l.intake.RetentionNotice(ctx, id, change) })
	if err != nil {
		return nil, err
	}
	if err := l.custody.step("retention announced"); err != nil {
		return nil, err
	}
	n, err := l.retain(ctx, retentionNotice{change, res.Rec.Event.CapturedAt})
	if err != nil {
		return nil, l.explain(err)
	}
	id := res.Rec.Event.AttemptID
	index, err := l.confirm(ctx, id)
	if err != nil {
		return nil, err
	}
	return &api.Retention{SchemaVersion: api.RetentionSchema, Attempt: r.Attempt, Changed: n,
		Notice: api.Notice{AttemptID: id, LeafIndex: res.LeafIndex(), DoneIndex: index}}, nil
}

func retentionOf(r event.RetentionChange) archive.Retention {
	return archive.Retention{Class: r.Class, Kind: r.Kind, Days: int(r.Days)}
}

// retentionNotice is a change of retention with the time of its notice.
type retentionNotice struct {
	event.RetentionChange
	capturedAt string
}

// retain does what a change of retention says. Evidence that is gone needs none, and
// a change that the archive does not take any more, because other evidence came, is
// told and left.
func (l *Ledger) retain(ctx context.Context, r retentionNotice) (changed int, err error) {
	at, _ := event.ParseTime(r.capturedAt) // it was validated
	changed, err = l.Archive().SetRetention(ctx, r.Attempt, retentionOf(r.RetentionChange), at)
	var f *archive.Failure
	switch {
	case errors.Is(err, vault.ErrErased), errors.Is(err, vault.ErrRedacted), errors.Is(err, vault.ErrNotFound):
		return 0, nil
	case errors.As(err, &f) && f.Code == admission.ArchiveRetentionDenied:
		l.log.Warn("a change of retention in the log does not fit the evidence that is kept now", "attempt", r.Attempt, "error", err)
		return 0, nil
	}
	return changed, err
}

// lastOf keeps the newest change of each attempt.
func lastOf(all []retentionNotice) map[string]retentionNotice {
	out := map[string]retentionNotice{}
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
		if signs, _ := l.signs(); signs { // of several nodes one does it for all
			if _, err := l.ExpireEvidence(ctx, l.cfg.Now()); err != nil && ctx.Err() == nil {
				l.log.Error("the retention of evidence could not be ended", "error", err)
			}
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
	done, err := l.beginChange(ctx) // a hold that was answered holds
	if err != nil {
		return archive.Ended{}, err
	}
	defer done()
	held, failed := l.heldBy(ctx)
	ended, err := l.Archive().Expire(ctx, now, held)
	if ended.Expired > 0 {
		l.log.Info("the retention of evidence ended", "references", ended.Expired, "held", ended.Held)
	}
	return ended, errors.Join(err, failed())
}

// CompactEvidence drops bodies of an admission and leaves a summary; see
// [archive.Archive.Compact].
func (l *Ledger) CompactEvidence(ctx context.Context, c archive.Compaction) (*archive.Summary, archive.Entry, error) {
	done, err := l.beginChange(ctx)
	if err != nil {
		return nil, archive.Entry{}, err
	}
	defer done()
	held, failed := l.heldBy(ctx)
	s, e, err := l.Archive().Compact(ctx, c, held)
	return s, e, errors.Join(err, failed())
}

// heldBy tells of owners whether a legal hold is on them. One that cannot be looked
// up keeps what it has; failed says why. One that is not in the log has no holds.
func (l *Ledger) heldBy(ctx context.Context) (held archive.Held, failed func() error) {
	var trouble error
	held = func(owner string) bool {
		t, err := l.target(ctx, owner)
		var known *api.Error
		if errors.As(err, &known) && known.Code == api.CodeNotFound {
			return false
		}
		if err != nil {
			trouble = fmt.Errorf("look for a legal hold on %s: %w", owner, err)
			return true
		}
		_, on := l.custody.holding(t)
		return on
	}
	return held, func() error { return trouble }
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
