package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

// growthSizes are the logs that are compared, in leaves; those above -max are
// left out, and -max itself is the last.
var growthSizes = []int{10_000, 100_000, 1_000_000, 5_000_000}

const (
	growthClients = 64
	// growthReads is how many reads of one kind are measured at each size.
	growthReads = 64
	// growthStarts is how often a ledger is started at each size.
	growthStarts = 3
)

// growth: what a log costs as it grows.
func growth(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleGrowth, Text: fmt.Sprintf("For each size a log of its own, filled by batches, its views rebuilt from the log alone, and started again. "+
		"Bundles and proofs are of attempts all over the log, receipts those of the newest events of one of %d agents, %d reads of each. Rates begin at the size: single events from %d clients and batches of %s from %d, "+
		"each answered at stage `logged`, views caught up, and a plain file with group commit and as many writers, which tells whether the machine changed its speed between two sizes. "+
		"The last column is the largest log by the smallest: a rate below 0.80, or a time, memory or size above 1.25, is worse by more than a fifth.",
		rig.Agents, growthReads, growthClients, report.Count(rig.BatchEvents), batchClients)}
	g := s.Grid("leaves")
	g.Compare("largest / smallest")
	for _, size := range sizesUpTo(r.Max) {
		if err := growthSize(ctx, r, g, size); err != nil {
			return nil, fmt.Errorf("%s leaves: %w", report.Count(size), err)
		}
	}
	return s, nil
}

func sizesUpTo(most int) (out []int) {
	for _, n := range growthSizes {
		if n < most {
			out = append(out, n)
		}
	}
	return append(out, most)
}

func growthSize(ctx context.Context, r *rig.Rig, g *report.Grid, size int) (err error) {
	dir, col := r.NewDir(), report.Count(size)
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := r.Serve(ctx, dir)
	if err != nil {
		return err
	}
	stop := func() error {
		if l == nil {
			return nil
		}
		defer func() { l = nil }()
		return l.Stop()
	}
	defer func() { err = errors.Join(err, stop()) }()
	start := time.Now()
	if err := fill(ctx, []*rig.Ledger{l}, size); err != nil {
		return err
	}
	g.Add("filling, events/s", col, float64(size)/time.Since(start).Seconds())
	if err := stop(); err != nil {
		return err
	}
	took, err := rebuildViews(ctx, r, dir)
	if err != nil {
		return err
	}
	g.Add("rebuild of the views, leaves/s", col, float64(size)/took.Seconds())
	for i := range growthStarts {
		start := time.Now()
		if l, err = r.Serve(ctx, dir); err != nil {
			return err
		}
		g.Add("restart until ready, ms", col, rig.MS(time.Since(start)))
		if i < growthStarts-1 {
			if err := stop(); err != nil {
				return err
			}
		}
	}
	g.Add("memory after restart, MiB", col, rig.Memory(l.Pid()))
	growthBytes(g, col, dir, size)
	if err := growthReading(ctx, l, g, col, size); err != nil {
		return err
	}
	if err := growthRates(ctx, r, l, g, col); err != nil {
		return err
	}
	g.Add("memory after the rates, MiB", col, rig.Memory(l.Pid()))
	return nil
}

// fill records exactly size begins, through all nodes alike.
func fill(ctx context.Context, nodes []*rig.Ledger, size int) error {
	var (
		wg   sync.WaitGroup
		left atomic.Int64
		errs = make(chan error, batchClients)
	)
	left.Store(int64(size))
	for c := range batchClients {
		wg.Go(func() {
			for {
				n := left.Add(-rig.BatchEvents) + rig.BatchEvents
				if n <= 0 {
					return
				}
				if _, err := nodes[c%len(nodes)].Batch(ctx, int(min(n, rig.BatchEvents))); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	for _, l := range nodes {
		if err := l.Settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rebuildViews makes the views anew from the log; no ledger runs.
func rebuildViews(ctx context.Context, r *rig.Rig, dir string) (took time.Duration, err error) {
	bin, err := r.Program(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if out, err := exec.CommandContext(ctx, bin, "rebuild", "--data", dir).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("rebuild: %w: %s", err, out)
	}
	return time.Since(start), nil
}

func growthBytes(g *report.Grid, col, dir string, size int) {
	var all int64
	for _, part := range []string{"log", "stream", "index", "views", "vault"} {
		n := rig.DiskUsage(dir, part)
		all += n
		g.Add(part+" on disk, bytes/event", col, float64(n)/float64(size))
	}
	g.Add("all on disk, bytes/event", col, float64(all)/float64(size))
}

// growthReading reads what callers read, spread over the log.
func growthReading(ctx context.Context, l *rig.Ledger, g *report.Grid, col string, size int) error {
	for i := range growthReads {
		attempt, err := attemptAt(ctx, l, i*(size/growthReads))
		if err != nil {
			return err
		}
		for _, read := range []struct{ name, path string }{
			{"bundle of one attempt, ms", "/v1/attempts/" + attempt.AttemptID + "/bundle"},
			{"receipt with its proof, ms", "/v1/receipts/" + attempt.EventID},
			{"search: an agent's newest receipts, ms", "/v1/receipts?limit=64&order=newest&agent=" + url.QueryEscape(rig.AgentID(int64(i)))},
			{"search: oldest attempts of a tool, ms", "/v1/attempts?limit=64&tool=write_file"},
		} {
			start := time.Now()
			if _, err := l.Get(ctx, read.path); err != nil {
				return err
			}
			g.Add(read.name, col, rig.MS(time.Since(start)))
		}
	}
	return nil
}

type place struct {
	EventID   string
	AttemptID string
}

// attemptAt names the event at a leaf, as a consumer of the log sees it.
func attemptAt(ctx context.Context, l *rig.Ledger, index int) (place, error) {
	event, err := l.FirstEvent(ctx, index)
	if err != nil {
		return place{}, err
	}
	var e struct {
		EventID string `json:"eventId"`
		Record  struct {
			Event struct {
				AttemptID string `json:"attemptId"`
			} `json:"event"`
		} `json:"record"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return place{}, err
	}
	if e.EventID == "" || e.Record.Event.AttemptID == "" {
		return place{}, fmt.Errorf("leaf %d has no event: %.300s", index, event)
	}
	return place{e.EventID, e.Record.Event.AttemptID}, nil
}

// growthRates are rates from that size on, in turn.
func growthRates(ctx context.Context, r *rig.Rig, l *rig.Ledger, g *report.Grid, col string) error {
	singles, batches := rig.Singles(l, growthClients), rig.Batches(l)
	for range r.Rounds {
		load, err := rig.DriveSettled(ctx, singles, growthClients, r.Length)
		if err != nil {
			return err
		}
		g.Add("single events, events/s", col, load.Rate())
		if load, err = rig.DriveSettled(ctx, batches, batchClients, r.Length); err != nil {
			return err
		}
		g.Add("batches, events/s", col, load.Rate())
		// The sizes are measured an hour apart: this tells how the disk did.
		if load, err = r.Measure(ctx, rig.PlainFile, growthClients); err != nil {
			return err
		}
		g.Add("plain file with group commit, events/s", col, load.Rate())
	}
	return nil
}
