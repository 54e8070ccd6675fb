package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	nodeWriters = 4
	nodeShards  = 8 // few, so that nodes race
)

// childNode is a node of a cluster that publishes as fast as it can and says
// "sequence body" for each that was acknowledged, until its input ends. Then it
// goes on as a server until it is killed.
func childNode(k task) error {
	cfg := testConfig(k.Dir)
	cfg.Cluster = k.Cluster
	s, err := Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var wg sync.WaitGroup
	for w := range nodeWriters {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				shard := (w + n) % nodeShards
				body := fmt.Appendf(nil, "%s-%d-%d-%d", k.Cluster.Node, k.Boot, w, n)
				body = append(body, bytes.Repeat([]byte("."), 300)...)
				last, err := s.LastSeq(ctx, filter(shard))
				for err == nil {
					var seq uint64
					var wrong *WrongLastError
					// What is being published when the input ends is still decided.
					seq, err = s.Publish(context.Background(), Msg{subject("tool_action", "attempt", shard), body}, filter(shard), last)
					if err == nil {
						fmt.Printf("%d %s\n", seq, body)
						break
					}
					if errors.As(err, &wrong) {
						last, err = wrong.Last, nil
					}
				}
				if err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		})
	}
	wg.Wait()
	fmt.Println("stopped")
	select {}
}

// node is a running child and what it has said.
type node struct {
	*process
	done    chan struct{}
	mu      sync.Mutex
	acked   map[string]uint64
	stopped bool
}

func startNode(t testing.TB, k task) *node {
	n := &node{process: run(t, k), done: make(chan struct{}), acked: map[string]uint64{}}
	t.Cleanup(n.sigkill) // before the cleanup of run, which reads too
	go func() {
		defer close(n.done)
		for {
			line, err := n.lines.ReadString('\n')
			if err != nil {
				return
			}
			n.mu.Lock()
			if seq, body, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				if s, err := strconv.ParseUint(seq, 10, 64); err == nil {
					n.acked[body] = s
				}
			} else if seq == "stopped" {
				n.stopped = true
			}
			n.mu.Unlock()
		}
	}()
	return n
}

func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.acked)
}

// sigkill ends the process at once; what it had said is read to the end.
func (n *node) sigkill() {
	_ = n.cmd.Process.Kill()
	<-n.done
	n.kill()
}

// Three processes, each killed in turn while all publish: nothing that was
// acknowledged is lost, nothing is there twice, no sequence is missing, and a
// reader from the first to the last gets each once (LOG-03, LOG-14).
func TestCluster_KilledInTurn(t *testing.T) {
	t.Parallel()
	cfgs := clusterConfigs(t, 3)
	boots := [3]int{}
	start := func(i int) *node {
		k := task{Name: "node", Dir: cfgs[i].Dir, Cluster: cfgs[i].Cluster, Boot: boots[i]}
		boots[i]++
		return startNode(t, k)
	}
	var nodes, all []*node
	for i := range 3 {
		nodes = append(nodes, start(i))
	}
	all = append(all, nodes...)
	more := func(of []*node, n int) { // until each has published n more
		for _, c := range of {
			from := c.count()
			until(t, "more is acknowledged by a node", func() bool { return c.count() >= from+n })
		}
	}
	rounds := 1
	if long {
		rounds = 10
	}
	more(nodes, 30)
	for range rounds {
		for i := range nodes {
			nodes[i].sigkill()
			more([]*node{nodes[(i+1)%3], nodes[(i+2)%3]}, 30)
			nodes[i] = start(i)
			all = append(all, nodes[i])
			more(nodes[i:i+1], 30)
		}
	}
	for _, n := range nodes {
		must(t, n.stdin.Close())
	}
	for _, n := range nodes {
		until(t, "the writers have stopped", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.stopped })
	}
	nodes[0].sigkill()
	s := open(t, cfgs[0])
	st, err := s.truth(t.Context())
	must(t, err)
	if st.First != 1 || st.Deleted != 0 || st.Messages != st.Last {
		t.Fatalf("state %+v", st)
	}
	at := map[string]uint64{}
	tail := s.Tail(t.Context(), 1)
	for next := uint64(1); next <= st.Last; {
		msgs, err := tail.Next(t.Context(), 500)
		must(t, err)
		for _, m := range msgs {
			if m.Seq != next {
				t.Fatalf("got %d, expected %d", m.Seq, next)
			}
			next++
			if was, twice := at[string(m.Body)]; twice {
				t.Fatalf("%.20q is at %d and at %d", m.Body, was, m.Seq)
			}
			at[string(m.Body)] = m.Seq
		}
	}
	acked := 0
	for _, n := range all {
		n.mu.Lock()
		defer n.mu.Unlock()
		for body, seq := range n.acked {
			acked++
			if at[body] != seq {
				t.Errorf("%.20q was acknowledged at %d and is at %d", body, seq, at[body])
			}
		}
	}
	t.Logf("%d acknowledged, %d in the stream", acked, st.Last)
}
