package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

// lightRate is what the other nodes serve meanwhile, in events a second.
const lightRate = 100

// catchUp starts a node that lacks leaves, and then one that lacks all.
func catchUp(ctx context.Context, r *rig.Rig, s *report.Section) error {
	return onNodes(ctx, r, func(ns *rig.Nodes) error {
		signer, _, err := ns.Signer(ctx)
		if err != nil {
			return err
		}
		late := (signer + 1) % rig.NodeCount
		if err := ns.Stop(late); err != nil {
			return err
		}
		if err := fill(ctx, ns.Up(), r.Catchup); err != nil {
			return err
		}
		missed := report.Count(r.Catchup) + " leaves, "
		if err := level(ctx, ns, late, s, missed+"a node that was away", 0); err != nil {
			return err
		}
		st, err := ns.At[late].Status(ctx)
		if err != nil {
			return err
		}
		if err := ns.Stop(late); err != nil {
			return err
		}
		if err := ns.Wipe(late); err != nil {
			return err
		}
		return level(ctx, ns, late, s, missed+"a node that lost its disk", int(st.StreamLast))
	})
}

// level starts a node and waits until its views have all leaves that the others
// have then, under a light load. lacks is how many it lacks; 0: those of its views.
func level(ctx context.Context, ns *rig.Nodes, late int, s *report.Section, name string, lacks int) error {
	others := ns.Up()
	before, err := others[0].Status(ctx)
	if err != nil {
		return err
	}
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var load []time.Duration
	var loadErr error
	over := make(chan struct{})
	wg.Go(func() { load, loadErr = lightLoad(loading, others, over) })
	began := time.Now()
	err = ns.Start(ctx, late)
	if err == nil {
		var st rig.Status
		if st, err = others[0].Status(ctx); err == nil {
			err = ns.At[late].Reached(ctx, st.StreamLast)
		}
	}
	took := time.Since(began)
	if err != nil {
		stop()
	}
	close(over)
	wg.Wait()
	if err != nil {
		return err
	}
	if loadErr != nil {
		return loadErr
	}
	if lacks == 0 {
		lacks = int(before.StreamLast)
	}
	s.Series("catch-up, "+name, "leaves/s").Add(float64(lacks) / took.Seconds())
	s.Series("catch-up, "+name+", until it is level", "s").Add(took.Seconds())
	s.Series("catch-up, "+name+", an event at the others meanwhile, p50", "ms").Add(rig.MS(rig.Quantile(load, 0.5)))
	s.Series("catch-up, "+name+", an event at the others meanwhile, p99", "ms").Add(rig.MS(rig.Quantile(load, 0.99)))
	return nil
}

// lightLoad sends single events, lightRate a second over all nodes, until it is over,
// and returns how long each took.
func lightLoad(ctx context.Context, nodes []*rig.Ledger, over <-chan struct{}) ([]time.Duration, error) {
	const clients = 4
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		took  []time.Duration
		first error
	)
	for c := range clients {
		wg.Go(func() {
			t := time.NewTicker(clients * time.Second / lightRate)
			defer t.Stop()
			for {
				select {
				case <-over:
					return
				case <-t.C:
				}
				began := time.Now()
				err := callAny(ctx, nodes, c)
				mu.Lock()
				if took = append(took, time.Since(began)); first == nil {
					first = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took, first
}
