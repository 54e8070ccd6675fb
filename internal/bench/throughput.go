package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

// throughput: clients that each wait for the answer at stage logged.
func throughput(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleThroughput, Text: "Begin and outcome in turn from clients on keep-alive connections, each answered at stage `logged` (signed, flushed); " +
		"the time until the views reflect the last event is part of the measurement. The baseline is a plain file with group commit and as many writers of 700-byte events."}
	for range r.Rounds {
		for _, n := range r.Clients {
			base, err := r.Measure(ctx, rig.PlainFile, n)
			if err != nil {
				return nil, err
			}
			if err := throughputRound(ctx, r, s, n, base.Rate()); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func throughputRound(ctx context.Context, r *rig.Rig, s *report.Section, n int, base float64) error {
	return loaded(ctx, r, n, func(l *rig.Ledger) rig.Recorder { return rig.Singles(l, n) }, func(l *rig.Ledger, load *rig.Load, used rig.Usage) error {
		g, c := s.Grid("over HTTP"), rig.ClientsOf(n)
		g.Add("ledger, events/s", c, load.Rate())
		g.Add("plain file, events/s", c, base)
		g.Add("ledger / plain file", c, load.Rate()/base)
		g.Add("time to the answer, p50, ms", c, rig.MS(rig.Quantile(load.Answers, 0.5)))
		g.Add("time to the answer, p99, ms", c, rig.MS(rig.Quantile(load.Answers, 0.99)))
		work(load.Events, used, func(name, unit string, v float64) { g.Add(name+", "+unit, c, v) })
		leaf, err := leafBytes(ctx, l)
		if err == nil && leaf > 0 {
			g.Add("leaf, bytes", c, leaf)
		}
		return err
	})
}

// loaded drives a new ledger, warmed up, and hands over what it did and used.
func loaded(ctx context.Context, r *rig.Rig, clients int, with func(*rig.Ledger) rig.Recorder, then func(*rig.Ledger, *rig.Load, rig.Usage) error) (err error) {
	dir := r.NewDir()
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := r.Serve(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	rec := with(l)
	if _, err := rig.DriveSettled(ctx, rec, clients, r.Length/8); err != nil {
		return err
	}
	before, err := l.Usage(ctx)
	if err != nil {
		return err
	}
	load, err := rig.DriveSettled(ctx, rec, clients, r.Length)
	if err != nil {
		return err
	}
	after, err := l.Usage(ctx)
	if err != nil {
		return err
	}
	return then(l, load, after.Since(before))
}

// work adds what n events cost.
func work(n int, used rig.Usage, add func(name, unit string, v float64)) {
	add("processor time of the ledger", "µs/event", float64(used.Ledger.Microseconds())/float64(n))
	add("processor time of the load generator", "µs/event", float64(used.Load.Microseconds())/float64(n))
	add("allocations of the ledger", "objects/event", used.Objects/float64(n))
	add("allocated by the ledger", "KiB/event", used.Bytes/float64(n)/1024)
}

// leafBytes is the mean size of a leaf among the first ones of a log; 0 if there
// are too few.
func leafBytes(ctx context.Context, l *rig.Ledger) (float64, error) {
	const whole = 256 // of a bundle of leaves
	st, err := l.Status(ctx)
	if err != nil || st.StreamLast < whole {
		return 0, err
	}
	b, err := l.Get(ctx, "/log/tile/entries/000")
	if err != nil {
		return 0, fmt.Errorf("the first leaves: %w", err)
	}
	return float64(len(b)-2*whole) / whole, nil // each has its length in two bytes
}

// batchClients is how many clients send batches at once.
const batchClients = 4

// batch: NDJSON batches of begins.
func batch(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleBatch, Text: fmt.Sprintf("`POST /v1/events:batch` with %s begins a batch from %d clients, answered at stage `logged`, views caught up.",
		report.Count(rig.BatchEvents), batchClients)}
	for range r.Rounds {
		err := loaded(ctx, r, batchClients, rig.Batches, func(_ *rig.Ledger, load *rig.Load, used rig.Usage) error {
			s.Series("batch intake", "events/s").Add(load.Rate())
			work(load.Events, used, func(name, unit string, v float64) { s.Series(name, unit).Add(v) })
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// inProcess: the ledger without HTTP.
func inProcess(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleIntake, Text: "The whole ledger in the process of its callers, without HTTP: begin and outcome in turn, parsed from the same bodies, " +
		"each waited for until stage `logged`, views caught up. The baseline is a plain file with group commit and as many writers of 700-byte events."}
	for range r.Rounds {
		for _, n := range r.Clients {
			base, err := r.Measure(ctx, rig.PlainFile, n)
			if err != nil {
				return nil, err
			}
			load, err := r.Measure(ctx, r.InProcess(), n)
			if err != nil {
				return nil, err
			}
			g, c := s.Grid("in process"), rig.ClientsOf(n)
			g.Add("ledger, events/s", c, load.Rate())
			g.Add("plain file, events/s", c, base.Rate())
			g.Add("ledger / plain file", c, load.Rate()/base.Rate())
			g.Add("time to the answer, p50, ms", c, rig.MS(rig.Quantile(load.Answers, 0.5)))
			g.Add("time to the answer, p99, ms", c, rig.MS(rig.Quantile(load.Answers, 0.99)))
		}
	}
	return s, nil
}
