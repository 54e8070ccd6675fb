package main

import (
	"context"
	"errors"
	"fmt"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

const (
	// nodeClients is how many clients send single events.
	nodeClients = 64
	// lightClients is how many clients send while a node fails or comes back.
	lightClients = 16
)

// cluster: three nodes beside one.
func cluster(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleCluster, Text: fmt.Sprintf("Three nodes, three processes on this one machine and disk, beside one node in the same rounds. "+
		"Begin and outcome in turn from %d clients, then batches of %s begins from %d, each answered at stage `logged`; clients are spread over the nodes, and the views of every node are caught up at the end. "+
		"Processor time is of all nodes together, and of the one that signs and one that follows. Three nodes share one disk here, and the cores that one node has alone.",
		nodeClients, report.Count(rig.BatchEvents), batchClients)}
	for range r.Rounds {
		for _, load := range nodeLoads {
			if err := besideOne(ctx, r, s, load); err != nil {
				return nil, fmt.Errorf("%s: %w", load.name, err)
			}
		}
	}
	if err := takeOvers(ctx, r, s); err != nil {
		return nil, fmt.Errorf("take-over: %w", err)
	}
	if err := catchUp(ctx, r, s); err != nil {
		return nil, fmt.Errorf("catch-up: %w", err)
	}
	return s, nil
}

type nodeLoad struct {
	name    string
	clients int
	with    func(*rig.Ledger) rig.Recorder
}

var nodeLoads = []nodeLoad{
	{"single events", nodeClients, func(l *rig.Ledger) rig.Recorder { return rig.Singles(l, nodeClients) }},
	{"batches", batchClients, rig.Batches},
}

const oneNode, threeNodes = "one node", "three nodes"

// besideOne loads a ledger of one node, and then one of three.
func besideOne(ctx context.Context, r *rig.Rig, s *report.Section, load nodeLoad) error {
	g := s.Grid("nodes")
	figures := func(col string, did *rig.Load) {
		g.Add(load.name+", events/s", col, did.Rate())
		g.Add(load.name+", time to the answer, p50, ms", col, rig.MS(rig.Quantile(did.Answers, 0.5)))
		g.Add(load.name+", time to the answer, p99, ms", col, rig.MS(rig.Quantile(did.Answers, 0.99)))
	}
	cpu := load.name + ", processor time of all nodes, µs/event"
	err := loaded(ctx, r, load.clients, load.with, func(_ *rig.Ledger, did *rig.Load, used rig.Usage) error {
		figures(oneNode, did)
		g.Add(cpu, oneNode, float64(used.Ledger.Microseconds())/float64(did.Events))
		return nil
	})
	if err != nil {
		return err
	}
	return onNodes(ctx, r, func(ns *rig.Nodes) error {
		rec := ns.Spread(load.with)
		if _, err := rig.DriveSettled(ctx, rec, load.clients, r.Length/8); err != nil {
			return err
		}
		signer, _, err := ns.Signer(ctx)
		if err != nil {
			return err
		}
		before := ns.CPU()
		did, err := rig.DriveSettled(ctx, rec, load.clients, r.Length)
		if err != nil {
			return err
		}
		after := ns.CPU()
		var used [rig.NodeCount]float64
		var all float64
		for i := range used {
			used[i] = float64((after[i] - before[i]).Microseconds()) / float64(did.Events)
			all += used[i]
		}
		figures(threeNodes, did)
		g.Add(cpu, threeNodes, all)
		g.Add(load.name+", of the one that signs, µs/event", threeNodes, used[signer])
		g.Add(load.name+", of one that follows, µs/event", threeNodes, (all-used[signer])/(rig.NodeCount-1))
		return nil
	})
}

// onNodes does something with three new nodes.
func onNodes(ctx context.Context, r *rig.Rig, do func(*rig.Nodes) error) (err error) {
	ns, err := r.ServeNodes(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	return do(ns)
}
