package main

import (
	"context"
	"fmt"
	"io"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

// batchClients is how many clients send batches at once.
const batchClients = 4

// peer is a system that is measured at every number of clients, or at one.
type peer struct {
	rig.System
	only int // 0: at every number
}

// compared is a ratio that is taken within each round: a by b.
type compared struct{ a, b rig.System }

// noRekor is said where Rekor was not measured.
const noRekor = " Rekor could not be built for this report."

// beside measures every system at every number of clients, and batches.
func beside(ctx context.Context, r *rig.Rig, stderr io.Writer) (*report.Section, error) {
	s := &report.Section{Title: report.TitlePeers, Text: "The ledger and what others made, in one run on one machine: in each round every system in turn, each on an empty directory of the same disk. " +
		"A client waits for the answer before its next event. Libraries run in the process of their callers, as does the ledger where it says so; the rest are processes of their own on the same machine. " +
		"A rate includes the time until nothing that was acknowledged is still being worked on."}
	inProcess, overHTTP, slow, quick := r.InProcess(), r.OverHTTP(), immudb(immudbDefaults, 1), immudb(immudbQuick, 1)
	singles := []peer{{System: inProcess}, {System: slow}, {System: quick}, {System: overHTTP}, {System: rig.PlainFile},
		{System: tesseraAlone(false)}, {System: tesseraAlone(true)}, {System: jetStream(false, 1)}, {System: jetStream(true, 1)}}
	if bin, err := buildRekor(ctx, r.Work); err != nil {
		// The rest does not need it.
		fmt.Fprintf(stderr, "benchpeers: Rekor cannot be built here: %v\n", err)
		s.Text += noRekor
	} else {
		singles = append(singles, peer{rekor(bin, false), rekorDefaultClients}, peer{System: rekor(bin, true)})
	}
	batches := []rig.System{r.InBatches(), immudb(immudbDefaults, immudbBatch), immudb(immudbQuick, immudbBatch), jetStream(false, jetStreamBatch), jetStream(true, jetStreamBatch)}
	ratios := []compared{{inProcess, slow}, {inProcess, quick}, {overHTTP, rig.PlainFile}}
	for range r.Rounds {
		for _, n := range r.Clients {
			if err := besideRound(ctx, r, s, singles, n); err != nil {
				return nil, err
			}
			rates, c := s.Grid(rateGrid), rig.ClientsOf(n)
			for _, x := range ratios {
				s.Grid("ratio in the same round").Add(x.a.Name+" / "+x.b.Name, c, rates.Last(x.a.Name, c)/rates.Last(x.b.Name, c))
			}
		}
		for _, x := range batches {
			load, err := r.Measure(ctx, x, batchClients)
			if err != nil {
				return nil, err
			}
			s.Grid(fmt.Sprintf("batches from %d clients", batchClients)).Add(x.Name, "events/s", load.Rate())
		}
	}
	s.Note(meaning)
	return s, nil
}

const rateGrid = "events/s"

func besideRound(ctx context.Context, r *rig.Rig, s *report.Section, systems []peer, clients int) error {
	for _, x := range systems {
		if x.only != 0 && x.only != clients {
			continue
		}
		load, err := r.Measure(ctx, x.System, clients)
		if err != nil {
			return err
		}
		c := rig.ClientsOf(clients)
		s.Grid(rateGrid).Add(x.Name, c, load.Rate())
		s.Grid("ms to the answer, p50").Add(x.Name, c, rig.MS(rig.Quantile(load.Answers, 0.5)))
		s.Grid("ms to the answer, p99").Add(x.Name, c, rig.MS(rig.Quantile(load.Answers, 0.99)))
	}
	return nil
}

// value is an event of a system that takes any bytes.
func value() []byte {
	b := make([]byte, rig.EventBytes)
	for i := range b {
		b[i] = 'x'
	}
	return b
}
