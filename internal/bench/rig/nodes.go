package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"counterfoil/internal/freeport"
	"counterfoil/internal/wait"
)

// NodeCount is how many nodes share a ledger here.
const NodeCount = 3

// Nodes are the nodes of one ledger, each a process of its own, on one disk.
type Nodes struct {
	At [NodeCount]*Ledger // nil while a node does not run

	rig    *Rig
	dir    string
	home   [NodeCount]string
	listen [NodeCount]string
}

// ServeNodes prepares a ledger of three nodes and starts them.
func (r *Rig) ServeNodes(ctx context.Context) (*Nodes, error) {
	bin, err := r.Program(ctx)
	if err != nil {
		return nil, err
	}
	ns := &Nodes{rig: r, dir: r.NewDir()}
	if err := os.MkdirAll(ns.dir, 0o700); err != nil {
		return nil, err
	}
	for i := range ns.home {
		ns.home[i] = filepath.Join(ns.dir, nodeName(i))
		if ns.listen[i], err = freeport.Addr(); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, bin, "node", "prepare", "--data", ns.home[0], "--origin", "bench.example/nodes", "--out", ns.home[1], "--out", ns.home[2])
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("node prepare: %w: %s", err, out)
	}
	var wg sync.WaitGroup
	var errs [NodeCount]error
	for i := range ns.At {
		wg.Go(func() { errs[i] = ns.Start(ctx, i) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return ns, nil
}

func nodeName(i int) string { return "n" + strconv.Itoa(i+1) }

// Start starts a node, and returns when it answers: it has caught up then with
// what the others had signed.
func (ns *Nodes) Start(ctx context.Context, i int) (err error) {
	var routes []string
	for j, addr := range ns.listen {
		if j != i {
			routes = append(routes, addr)
		}
	}
	// What nodes say of one that is killed is no news: it is shown if this fails.
	log, err := os.Create(ns.home[i] + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	ns.At[i], err = ns.rig.serve(ctx, ns.home[i], log, "--cluster-name", "bench", "--node", nodeName(i),
		"--cluster-listen", ns.listen[i], "--routes", strings.Join(routes, ","))
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("node %s: %w: %s", nodeName(i), err, said[max(0, len(said)-2000):])
	}
	return nil
}

// Stop stops a node in good order.
func (ns *Nodes) Stop(i int) error {
	l := ns.At[i]
	ns.At[i] = nil
	if l == nil {
		return nil
	}
	return l.Stop()
}

// Kill ends a node without a word.
func (ns *Nodes) Kill(i int) {
	l := ns.At[i]
	ns.At[i] = nil
	if l != nil {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait() // it was killed
	}
}

// Wipe removes all that a node has beside the identity, the keys and the tokens.
func (ns *Nodes) Wipe(i int) error {
	var errs []error
	for _, name := range []string{"log", "log.lock", "guard", "vault", "index", "views", "cluster", "aside", "witness"} {
		errs = append(errs, os.RemoveAll(filepath.Join(ns.home[i], name)))
	}
	return errors.Join(errs...)
}

// Close stops all nodes and removes what they have.
func (ns *Nodes) Close() error {
	var wg sync.WaitGroup
	var errs [NodeCount]error
	for i := range ns.At {
		wg.Go(func() { errs[i] = ns.Stop(i) })
	}
	wg.Wait()
	return errors.Join(errors.Join(errs[:]...), os.RemoveAll(ns.dir))
}

// Up are the nodes that run.
func (ns *Nodes) Up() (out []*Ledger) {
	for _, l := range ns.At {
		if l != nil {
			out = append(out, l)
		}
	}
	return out
}

// Settle waits until the views of every node that runs reflect the whole stream.
func (ns *Nodes) Settle(ctx context.Context) error {
	var last uint64
	for _, l := range ns.Up() {
		st, err := l.Status(ctx)
		if err != nil {
			return err
		}
		last = max(last, st.StreamLast)
	}
	for _, l := range ns.Up() {
		if err := l.Reached(ctx, last); err != nil {
			return err
		}
	}
	return nil
}

// Reached waits until the views of a ledger reflect so many leaves.
func (l *Ledger) Reached(ctx context.Context, size uint64) error {
	for {
		st, err := l.Status(ctx)
		if err != nil || st.ViewSize >= size {
			return err
		}
		if err := wait.For(ctx, settlePoll); err != nil {
			return err
		}
	}
}

// NodesView is what a node says of all nodes.
type NodesView struct {
	Signer string `json:"signer"`
	Epoch  uint64 `json:"epoch"`
	Stream struct {
		Leader string `json:"leader"`
	} `json:"stream"`
}

// View asks a node for it.
func (l *Ledger) View(ctx context.Context) (v NodesView, err error) {
	b, err := l.Get(ctx, "/v1/cluster")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(b, &v)
}

// Signer is the node that signs, and whether the same leads the stream, by the word
// of all nodes that run, as soon as they agree.
func (ns *Nodes) Signer(ctx context.Context) (index int, leads bool, err error) {
	for {
		agreed := map[NodesView]int{}
		for _, l := range ns.Up() {
			if v, err := l.View(ctx); err == nil && v.Signer != "" && v.Stream.Leader != "" {
				agreed[v]++
			}
		}
		for v, n := range agreed {
			for i := range ns.At {
				if n == len(ns.Up()) && ns.At[i] != nil && nodeName(i) == v.Signer {
					return i, v.Stream.Leader == v.Signer, nil
				}
			}
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return 0, false, fmt.Errorf("the nodes do not agree who signs: %w", err)
		}
	}
}

// CPU is the processor time of each node so far.
func (ns *Nodes) CPU() (out [NodeCount]time.Duration) {
	for i, l := range ns.At {
		if l != nil {
			out[i] = CPU(l.Pid())
		}
	}
	return out
}

// Spread is clients of all nodes: client n is of node n modulo their number.
func (ns *Nodes) Spread(one func(*Ledger) Recorder) Recorder {
	s := &spread{nodes: ns}
	for _, l := range ns.Up() {
		s.on = append(s.on, one(l))
	}
	return s
}

type spread struct {
	nodes *Nodes
	on    []Recorder
}

func (s *spread) Record(ctx context.Context, client int) (int, error) {
	return s.on[client%len(s.on)].Record(ctx, client)
}

func (s *spread) Settle(ctx context.Context) error { return s.nodes.Settle(ctx) }
func (s *spread) Close() error                     { return s.nodes.Close() }
