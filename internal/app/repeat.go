package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/durable"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/stream"
)

// notices are what the ledger announced and does not count any more, because the
// key that signed it was revoked for those leaves. A revocation must not end a legal
// hold, nor hide an erasure from a later restoration: so they are announced again,
// by the key of then. The list is durable before the revocation is.
type notices struct {
	Erasures  []event.Erasure         `json:"erasures,omitempty"`
	Holds     []event.Hold            `json:"holds,omitempty"`
	Retention []event.RetentionChange `json:"retention,omitempty"`
}

func (n *notices) empty() bool { return len(n.Erasures)+len(n.Holds)+len(n.Retention) == 0 }

// signedNotices lists what counts now, is signed by the key, and stands at leaf from
// or later. A hold that was released is not among it.
func (l *Ledger) signedNotices(ctx context.Context, keyID string, from uint64) (*notices, error) {
	out := &notices{}
	for seq := from + 1; ; {
		m, err := l.stream.NextMatch(ctx, seq, event.NoticeFilter(l.id.Tenant))
		if errors.Is(err, stream.ErrNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the notices: %w", err)
		}
		seq = m.Seq + 1
		rec, err := event.ParseRecord(m.Body)
		if err != nil || rec.Signatures[0].KeyID != keyID {
			continue
		}
		row, err := l.index.Attempt(rec.Event.AttemptID)
		if err != nil {
			return nil, fmt.Errorf("read the notices: %w", err)
		}
		if row == nil || row.Seqs[0] != m.Seq {
			continue
		}
		if x, ok := rec.Event.Erasure(); ok {
			out.Erasures = append(out.Erasures, x)
		} else if h, ok := rec.Event.Hold(); ok && row.State.Summary().Reversal != event.StatusReversed {
			out.Holds = append(out.Holds, h)
		} else if r, ok := rec.Event.RetentionChange(); ok {
			out.Retention = append(out.Retention, r)
		}
	}
}

// keepNotices moves the list out of the note of stale data, which ends before it.
func (l *Ledger) keepNotices(raw []byte) error {
	n := &notices{}
	if err := json.Unmarshal(raw, n); err != nil || n.empty() { // one without a list, from a change that needs none
		return nil
	}
	return durable.WriteFile(l.paths.repeat(), raw, 0o600)
}

// repeatNotices announces again what a revocation took away. A crash in the middle
// repeats some of it twice, which does no harm.
func (l *Ledger) repeatNotices(ctx context.Context) error {
	raw, err := os.ReadFile(l.paths.repeat())
	if errors.Is(err, fs.ErrNotExist) || l.signingStopped() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	n := &notices{}
	if err := json.Unmarshal(raw, n); err != nil {
		return fmt.Errorf("%s: %w", l.paths.repeat(), err)
	}
	done, err := l.beginChange(ctx)
	if err != nil {
		return err
	}
	defer done()
	for _, x := range n.Erasures {
		res, err := l.announce(ctx, "erasure", x.Value(), func(id string) (*intake.Result, error) { return l.intake.ErasureNotice(ctx, id, x) })
		if err == nil {
			err = l.destroy(x)
		}
		if err == nil {
			_, err = l.confirm(ctx, res.Rec.Event.AttemptID)
		}
		if err != nil {
			return fmt.Errorf("announce an erasure again: %w", err)
		}
	}
	for _, h := range n.Holds {
		res, err := l.announce(ctx, "hold", h.Value(), func(id string) (*intake.Result, error) { return l.intake.HoldNotice(ctx, id, h) })
		if err != nil {
			return fmt.Errorf("announce a legal hold again: %w", err)
		}
		out := holdOf(res.Rec.Event, h, res.Seq)
		l.custody.add(out)
		if _, err := l.confirm(ctx, out.HoldID); err != nil {
			return fmt.Errorf("announce a legal hold again: %w", err)
		}
	}
	for _, r := range n.Retention {
		res, err := l.announce(ctx, "retention", r.Value(), func(id string) (*intake.Result, error) { return l.intake.RetentionNotice(ctx, id, r) })
		if err == nil {
			_, err = l.retain(ctx, retentionNotice{r, res.Rec.Event.CapturedAt})
		}
		if err == nil {
			_, err = l.confirm(ctx, res.Rec.Event.AttemptID)
		}
		if err != nil {
			return fmt.Errorf("announce a change of retention again: %w", err)
		}
	}
	l.log.Warn("notices that a revoked key had signed were announced again", "erasures", len(n.Erasures), "holds", len(n.Holds), "retention", len(n.Retention))
	return durable.Remove(l.paths.repeat())
}
