package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/api"
	"counterfoil/ledger/stream"
)

const (
	// reportEvery is how often a node says where it is.
	reportEvery = 2 * time.Second
	// awayAfter is how long a node may be silent before it counts as away.
	awayAfter = 4 * reportEvery
	// cutOffAfter is how long a node may not reach the others before it refuses calls
	// at once. Until then they wait: the nodes may be choosing a leader.
	cutOffAfter = 10 * time.Second
	// maxNodes bounds the nodes that have ever reported.
	maxNodes = 32
)

// report is what a node says of itself to the others. It is no evidence: whoever
// compares trees reads the tiles.
type report struct {
	URL           string `json:"url"`
	Version       string `json:"version"`
	Beat          uint64 `json:"beat"` // another one with every report
	StreamLast    uint64 `json:"streamLast"`
	LogSize       uint64 `json:"logSize"`
	PublishedSize uint64 `json:"publishedSize"`
	WitnessedSize uint64 `json:"witnessedSize"`
	ViewSize      uint64 `json:"viewSize"`
}

// nodes are the nodes of a ledger as they report themselves, in one register.
type nodes struct {
	reg *stream.Register
	own string
	say func() report
	now func() time.Time
	log *slog.Logger

	due chan struct{} // one token: there is something new to report

	mu   sync.Mutex
	all  map[string]report
	seen map[string]time.Time // when a report was last seen to change, by our clock
	rev  uint64
	beat uint64
	told time.Time // when a report of this node reached the others last, or it began
}

func newNodes(reg *stream.Register, own string, say func() report, now func() time.Time, log *slog.Logger) *nodes {
	return &nodes{reg: reg, own: own, say: say, now: now, log: log, due: make(chan struct{}, 1), all: map[string]report{}, seen: map[string]time.Time{}, told: now()}
}

// run reports this node and listens to the others until ctx ends.
func (n *nodes) run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { _ = n.reg.Watch(ctx, n.take) }) // its error is that of ctx
	for {
		if err := n.report(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("this node's report did not reach the others", "error", err)
		}
		t := time.NewTimer(reportEvery)
		select {
		case <-ctx.Done():
		case <-n.due:
		case <-t.C:
		}
		if t.Stop(); ctx.Err() != nil {
			return
		}
	}
}

// take reads the reports of all nodes.
func (n *nodes) take(value []byte, revision uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if revision <= n.rev && n.rev > 0 {
		return nil
	}
	all, err := parseReports(value)
	if err != nil { // another version's: this node's own report replaces it
		n.log.Warn("the nodes' reports cannot be read", "error", err)
		all = map[string]report{}
	}
	for name, r := range all {
		if n.all[name].Beat != r.Beat {
			n.seen[name] = n.now()
		}
	}
	n.all, n.rev = all, revision
	return nil
}

func parseReports(value []byte) (map[string]report, error) {
	all := map[string]report{}
	if len(value) == 0 {
		return all, nil
	}
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, err
	}
	if len(all) > maxNodes {
		return nil, fmt.Errorf("%d nodes, at most %d are expected", len(all), maxNodes)
	}
	return all, nil
}

// reportTries is how often a report that others came before is made again.
const reportTries = 5

func (n *nodes) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	for try := 1; ; try++ {
		n.mu.Lock()
		all, rev := maps.Clone(n.all), n.rev
		r := n.say()
		n.beat++
		r.Beat = n.beat
		n.mu.Unlock()
		// A beat that is counted from the start may meet an old one of before:
		// it is seen to change with the next.
		all[n.own] = r
		b, err := json.Marshal(all, json.Deterministic(true))
		if err != nil {
			return err
		}
		next, err := n.reg.Put(ctx, b, rev)
		switch {
		case err == nil:
			n.mu.Lock()
			n.told = n.now()
			n.mu.Unlock()
			return n.take(b, next)
		case !errors.Is(err, stream.ErrRevision) || try == reportTries:
			return err
		}
		value, newest, err := n.reg.Get(ctx)
		if err != nil {
			return err
		}
		if err := n.take(value, newest); err != nil {
			return err
		}
	}
}

// cutOff is for how long this node has not reached the others, if that is too long.
func (n *nodes) cutOff() (time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.now().Sub(n.told)
	return d, d > cutOffAfter
}

// url is where a node answers, empty if it never said.
func (n *nodes) url(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[name].URL
}

// list lists the nodes by name.
func (n *nodes) list() []api.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []api.Node
	for _, name := range slices.Sorted(maps.Keys(n.all)) {
		r := n.all[name]
		silent := n.now().Sub(n.seen[name])
		out = append(out, api.Node{Name: name, URL: r.URL, Version: r.Version, Away: silent > awayAfter, SilentSeconds: max(0, silent.Seconds()),
			StreamLast: r.StreamLast, LogSize: r.LogSize, PublishedSize: r.PublishedSize, WitnessedSize: r.WitnessedSize, ViewSize: r.ViewSize})
	}
	return out
}

// mayRepair says why this node may not make a lost stream anew from its own log: one
// node does, the one with the longest log, and of those the first by name. A node
// that has not reported may have a longer one, so want nodes must have.
func (n *nodes) mayRepair(want int, alone bool, own uint64) error {
	var there, before []string
	for _, x := range n.list() {
		if x.Away && x.Name != n.own {
			continue
		}
		there = append(there, x.Name)
		if x.Name != n.own && (x.LogSize > own || x.LogSize == own && x.Name < n.own) {
			before = append(before, fmt.Sprintf("%s has %d", x.Name, x.LogSize))
		}
	}
	switch {
	case len(before) > 0:
		return fmt.Errorf("the log here has %d leaves, %s: the node with the longest log repairs the stream", own, strings.Join(before, ", "))
	case len(there) < want && !alone:
		return fmt.Errorf("%d of %d nodes are there (%s), and another may have a longer log (hint: start it; if it is lost for good, start this one with --repair-alone)",
			len(there), want, strings.Join(there, ", "))
	}
	return nil
}

// mayRepair says why this node must not make what all nodes lost anew, nil if it may.
func (l *Ledger) mayRepair() error {
	size := l.tlog.Size()
	if l.refilled.Load() { // as it reports itself
		size = 0
	}
	return l.cluster.nodes.mayRepair(l.cfg.Cluster.Replicas, l.cfg.Cluster.RepairAlone, size)
}

// streamRepair asks that for the stream; nil on a ledger alone, which always does.
func (l *Ledger) streamRepair() func(context.Context) (bool, error) {
	if l.cluster == nil {
		return nil
	}
	return func(context.Context) (bool, error) {
		err := l.mayRepair()
		if err != nil {
			l.log.Warn("the stream is not repaired yet", "why", err)
		}
		return err == nil, nil
	}
}

// soon reports without waiting for the next time.
func (n *nodes) soon() {
	select {
	case n.due <- struct{}{}:
	default: // it is due
	}
}
