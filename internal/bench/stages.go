package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

// stageRates are the offered rates, in events a second.
var stageRates = []int{1000, 5000}

// inViews is the stage that no call waits for: the views reflect the event.
const inViews = "in the views"

// stages: begins at a fixed rate, each waiting for a stage.
func stages(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleStages, Text: "Begins offered at a fixed rate, each with `wait=` a stage: `accepted` is on the stream, `logged` in the tree and flushed, " +
		"`published` answered with its inclusion proof and the signed checkpoint. When an event is in the views is seen by asking the ledger every few milliseconds for what they reflect, which is part of the load. " +
		"The clock starts when a call was due, so that a stall counts for all calls behind it. A rate that the ledger cannot keep up shows in what was answered a second."}
	for range r.Rounds {
		if err := stageRound(ctx, r, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// stageRound measures every stage at every rate on one new ledger.
func stageRound(ctx context.Context, r *rig.Rig, s *report.Section) (err error) {
	dir := r.NewDir()
	l, err := r.Serve(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop(), os.RemoveAll(dir)) }()
	if _, err := rig.Offer(ctx, stageRates[0], r.Length/8, begin(l, "logged", nil)); err != nil { // a warm-up
		return err
	}
	for _, rate := range stageRates {
		for _, stage := range []string{"accepted", "logged", "published", inViews} {
			if err := l.Settle(ctx); err != nil {
				return err
			}
			load, err := offered(ctx, l, rate, r.Length, stage)
			if err != nil {
				return err
			}
			g := s.Grid(report.Count(rate) + " events/s offered")
			g.Add(stage, "p50, ms", rig.MS(rig.Quantile(load.Answers, 0.5)))
			g.Add(stage, "p99, ms", rig.MS(rig.Quantile(load.Answers, 0.99)))
			g.Add(stage, "answered, events/s", load.Rate())
			g.Add(stage, "memory of the ledger, MiB", rig.Memory(l.Pid()))
		}
	}
	return nil
}

// offered sends begins at a rate, each waiting for a stage.
func offered(ctx context.Context, l *rig.Ledger, rate int, length time.Duration, stage string) (*rig.Load, error) {
	if stage != inViews {
		return rig.Offer(ctx, rate, length, begin(l, stage, nil))
	}
	var w viewWatch
	start := time.Now()
	load, err := rig.Offer(ctx, rate, length, begin(l, "accepted", func(due time.Time, index uint64) error { return w.reached(ctx, l, due, index) }))
	if err != nil {
		return nil, err
	}
	load.Answers, load.Wall = w.took, time.Since(start)
	slices.Sort(load.Answers)
	return load, nil
}

// begin is a call that records a begin; then, unless nil, is told its place.
func begin(l *rig.Ledger, stage string, then func(due time.Time, index uint64) error) func(context.Context, time.Time) error {
	return func(ctx context.Context, due time.Time) error {
		b, err := l.Post(ctx, "/v1/attempts?wait="+stage, rig.BeginBody(), http.StatusCreated)
		if err != nil || then == nil {
			return err
		}
		var a struct {
			LeafIndex *uint64 `json:"leafIndex"`
		}
		if err := json.Unmarshal(b, &a); err != nil {
			return err
		}
		if a.LeafIndex == nil {
			return fmt.Errorf("no leaf index in %.200s", b)
		}
		return then(due, *a.LeafIndex)
	}
}

// viewWatch learns when the views reflect a leaf. Of all that wait, one asks.
type viewWatch struct {
	mu   sync.Mutex
	size uint64
	at   time.Time // when the views were seen to have that size
	took []time.Duration
}

// viewPoll is the pause between two questions.
const viewPoll = 4 * time.Millisecond

func (w *viewWatch) reached(ctx context.Context, l *rig.Ledger, due time.Time, index uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.size <= index {
		st, err := l.Status(ctx)
		if err != nil {
			return err
		}
		if st.ViewSize > w.size {
			w.size, w.at = st.ViewSize, time.Now()
			continue
		}
		time.Sleep(viewPoll)
	}
	// Who queued behind the one that asked was in the views when it saw them.
	w.took = append(w.took, max(w.at.Sub(due), 0))
	return nil
}
