package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"counterfoil/internal/api"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/vault"
)

// custody is what the ledger does with private values and evidence on behalf of
// people: erasure, legal hold, retention. The notices in the log are the truth
// about it. Each is announced by an attempt of kind ledger, then done, then has its
// outcome. One without an outcome was perhaps not done: every start reads all
// notices, does again what the vault does not show, and gives the outcome. So a
// vault that is older than the log, restored or not, loses no erasure that the log
// has.
type custody struct {
	change  sync.Mutex // one change at a time
	unknown bool       // guarded by change: the last one failed, and may be in the log
	fault   func(step string) error

	mu    sync.Mutex
	holds []api.Hold // in force, oldest first
}

// step is where a test lets the process die.
func (c *custody) step(name string) error {
	if c.fault == nil {
		return nil
	}
	return c.fault(name)
}

// beginChange takes the right to make a change; done gives it back. A change before it
// that failed half way is finished first: it may be in the log.
func (l *Ledger) beginChange(ctx context.Context) (done func(), err error) {
	if err := l.mayChange(); err != nil {
		return nil, err
	}
	l.custody.change.Lock()
	// Another node may have made changes since this one signed last.
	if !l.custody.unknown && l.cluster == nil {
		return l.custody.change.Unlock, nil
	}
	if err = l.settle(ctx); err != nil {
		l.custody.unknown = true // confirm may have said otherwise of a part
		l.custody.change.Unlock()
		return nil, l.explain(fmt.Errorf("finish what an earlier call began: %w", err))
	}
	l.custody.unknown = false
	return l.custody.change.Unlock, nil
}

// settle reads all notices again.
func (l *Ledger) settle(ctx context.Context) error {
	last, err := l.streamLast(ctx)
	if err != nil {
		return err
	}
	if err := l.index.WaitFor(ctx, last); err != nil {
		return err
	}
	return l.openCustody(ctx)
}

// openCustody reads the notices that the stream has, and finishes them.
func (l *Ledger) openCustody(ctx context.Context) error {
	var retention []retentionNotice
	var holds []api.Hold
	for seq := uint64(1); ; {
		m, err := l.stream.NextMatch(ctx, seq, event.NoticeFilter(l.id.Tenant))
		if errors.Is(err, stream.ErrNotFound) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the notices: %w", err)
		}
		seq = m.Seq + 1
		rec, err := event.ParseRecord(m.Body)
		if err != nil {
			continue // no record: it does not count
		}
		row, err := l.index.Attempt(rec.Event.AttemptID)
		if err != nil {
			return fmt.Errorf("read the notices: %w", err)
		}
		if row == nil || row.Seqs[0] != m.Seq {
			continue // it is not the event that counts
		}
		if err := l.takeUp(ctx, rec.Event, m.Seq, &row.State, &retention, &holds); err != nil {
			return fmt.Errorf("notice at leaf %d: %w", m.Seq-1, err)
		}
	}
	l.custody.set(holds)
	for _, r := range lastOf(retention) {
		if _, err := l.retain(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// takeUp makes one notice true. What it says is done even if it was done before:
// the vault may be an older copy.
func (l *Ledger) takeUp(ctx context.Context, e *event.Event, seq uint64, st *lifecycle.State, retention *[]retentionNotice, holds *[]api.Hold) error {
	x, isErasure := e.Erasure()
	h, isHold := e.Hold()
	r, isRetention := e.RetentionChange()
	switch {
	case isErasure:
		if err := l.seq.Wait(ctx, seq); err != nil { // announced means in the log
			return err
		}
		if err := l.destroy(x); err != nil {
			return err
		}
	case isHold:
		if st.Summary().Reversal != event.StatusReversed {
			*holds = append(*holds, holdOf(e, h, seq))
		}
	case isRetention:
		*retention = append(*retention, retentionNotice{r, e.CapturedAt})
	default:
		return nil // of another kind, with its own way
	}
	if st.Summary().Outcome != "" || l.signingStopped() != nil || l.mayChange() != nil {
		return nil
	}
	if isRetention {
		if _, err := l.retain(ctx, retentionNotice{r, e.CapturedAt}); err != nil {
			return err
		}
	}
	_, err := l.confirm(ctx, e.AttemptID)
	return err
}

// destroy does what an erasure says.
func (l *Ledger) destroy(x event.Erasure) error {
	to := privacyOf(x.State)
	left := make([]string, 0, len(x.Attempts))
	for _, id := range x.Attempts {
		p, err := l.vault.Privacy(id)
		if err != nil && !errors.Is(err, vault.ErrNotFound) {
			return err
		}
		erasing, err := l.vault.Erasing(id)
		if err != nil {
			return err
		}
		if p < to || erasing {
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		return nil
	}
	_, err := l.vault.Lower(to, left)
	return err
}

func privacyOf(state string) vault.Privacy {
	if state == event.PrivacyRedacted {
		return vault.Redacted
	}
	return vault.Purged
}

// announce records a notice and waits until it is in the log.
// The caller has the right to make a change.
func (l *Ledger) announce(ctx context.Context, what string, statement []byte, record func(id string) (*intake.Result, error)) (*intake.Result, error) {
	l.custody.unknown = true // until it is confirmed
	sum := sha256.Sum256(statement)
	res, err := record(fmt.Sprintf("%s:%s:%x", what, event.FormatTime(l.cfg.Now()), sum[:8]))
	if err == nil {
		err = l.Wait(ctx, res.LeafIndex(), api.StageLogged)
	}
	if err != nil {
		return nil, l.explain(fmt.Errorf("announce: %w", err))
	}
	return res, nil
}

// confirm records that what was announced is done, and returns its leaf index.
func (l *Ledger) confirm(ctx context.Context, attemptID string) (uint64, error) {
	res, err := l.intake.Applied(ctx, attemptID)
	if err == nil {
		err = l.Wait(ctx, res.LeafIndex(), api.StageLogged)
	}
	if err != nil {
		return 0, l.explain(fmt.Errorf("it is done, and the next start says so in the log: %w", err))
	}
	l.custody.unknown = false
	return res.LeafIndex(), nil
}

// Archive is the archive of evidence. It ends with the ledger.
func (l *Ledger) Archive() *archive.Archive { return archive.New(l.vault) }
