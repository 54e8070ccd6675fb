package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/durable"
	"counterfoil/ledger/event"
)

// gapNote is a loss that is known and not yet announced by an event. It is on
// disk from the moment that it is known until the notice is on the stream, so
// that no crash in between hides it (LOG-13).
type gapNote struct {
	ID    string `json:"id"` // names the notice, so that it is recorded once
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Count uint64 `json:"count"`
}

func (l *Ledger) gapFile() string { return filepath.Join(l.paths.aside(), "gap.json") }

// noteGap remembers that count of the stream sequences from to to were accepted
// and are lost.
func (l *Ledger) noteGap(from, to, count uint64) error {
	old, err := l.pendingGap()
	if err != nil {
		return err
	}
	if old != nil { // an earlier loss that was not announced before the next one
		from, to, count = min(from, old.From), max(to, old.To), max(count, old.Count)
	}
	n := gapNote{ID: "gap:" + event.FormatTime(l.cfg.Now()), From: from, To: to, Count: count}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(l.paths.aside(), 0o700); err != nil {
		return fmt.Errorf("note a loss: %w", err)
	}
	if err := durable.WriteFile(l.gapFile(), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("note a loss: %w", err)
	}
	l.log.Warn("events that were accepted are lost", "from", from, "to", to, "count", count)
	return nil
}

func (l *Ledger) pendingGap() (*gapNote, error) {
	b, err := os.ReadFile(l.gapFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a noted loss: %w", err)
	}
	n := new(gapNote)
	if err := json.Unmarshal(b, n, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", l.gapFile(), err)
	}
	return n, nil
}

// announceGap records the notice of a noted loss.
func (l *Ledger) announceGap(ctx context.Context) error {
	n, err := l.pendingGap()
	if n == nil || err != nil {
		return err
	}
	res, err := l.intake.Notice(ctx, n.ID, event.Gap{From: int64(n.From), To: int64(n.To), Count: int64(n.Count)})
	if err != nil {
		return fmt.Errorf("announce lost events %d to %d: %w", n.From, n.To, err)
	}
	if res != nil {
		if err := l.seq.Wait(ctx, res.Seq); err != nil {
			return fmt.Errorf("announce lost events %d to %d: %w", n.From, n.To, err)
		}
	}
	if err := durable.Remove(l.gapFile()); err != nil {
		return fmt.Errorf("announce lost events %d to %d: %w", n.From, n.To, err)
	}
	return nil
}
