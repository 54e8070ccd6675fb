package faults

import (
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nodeRounds is how often a bad day of the nodes is repeated: COUNTERFOIL_NODE_ROUNDS
// for the long form.
func nodeRounds(t *testing.T, short int) int {
	t.Helper()
	v := os.Getenv("COUNTERFOIL_NODE_ROUNDS")
	if v == "" {
		return short
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNodes_KillEachInTurn kills each node in turn under load and starts it again.
func TestNodes_KillEachInTurn(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := startNodes(t)
	c := ns.load("turn", 8)
	for r := range nodeRounds(t, 3) {
		c.grown(50)
		ns.kill(r%3, syscall.SIGKILL)
		c.grown(50)
		ns.start(r % 3)
	}
	c.grown(50)
	ns.whole(c)
}

// TestNodes_KillTheSigner kills the node that signs, again and again.
func TestNodes_KillTheSigner(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := startNodes(t)
	c := ns.load("signer", 8)
	for range nodeRounds(t, 2) {
		c.grown(50)
		s := ns.signer()
		ns.kill(s, syscall.SIGKILL)
		if next := ns.signer(s); next == s {
			t.Errorf("node %d still signs", s+1)
		}
		c.grown(50)
		ns.start(s)
	}
	ns.whole(c)
}

// TestNodes_Partition cuts the node that signs off from the others: it publishes
// nothing, the others go on, and there is one history when the wires are mended.
func TestNodes_Partition(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := startNodes(t)
	c := ns.load("cut", 8)
	for range nodeRounds(t, 1) {
		c.grown(100)
		s := ns.signer()
		ns.cut(s, true)
		next := ns.signer(s)
		before := ns.published(s)
		c.grown(200)
		// The lease of the one that is alone ran out long ago.
		if now := ns.published(s); now != before {
			t.Errorf("node %d is cut off and published size %d after %d", s+1, now, before)
		}
		if p := ns.published(next); p <= before {
			t.Errorf("the others published size %d, node %d has %d", p, s+1, before)
		}
		ns.cut(s, false)
		c.grown(100)
	}
	ns.whole(c)
}

// published is the size of the checkpoint that a node serves.
func (ns *nodes) published(i int) uint64 {
	ns.seen.mu.Lock()
	defer ns.seen.mu.Unlock()
	return ns.seen.last[i]
}

// TestNodes_SignerSleeps stops the node that signs for longer than its lease.
func TestNodes_SignerSleeps(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := startNodes(t)
	c := ns.load("asleep", 8)
	for range nodeRounds(t, 1) {
		c.grown(100)
		s := ns.signer()
		if err := ns.node(s).cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ns.signer(s)
		if err := ns.node(s).cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.grown(100)
	}
	ns.whole(c)
}

// TestNodes_AllKilled kills all nodes at once.
func TestNodes_AllKilled(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := startNodes(t)
	c := ns.load("all", 8)
	for range nodeRounds(t, 1) {
		c.grown(100)
		var killing sync.WaitGroup
		for i := range 3 {
			killing.Go(func() { ns.kill(i, syscall.SIGKILL) })
		}
		killing.Wait()
		ns.startAll()
		c.grown(100)
	}
	ns.whole(c)
}

// TestNodes_RollingRestart stops each node as an operator does and starts it again:
// a client that tries the next node never waits longer than its patience.
func TestNodes_RollingRestart(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := startNodes(t)
	c := ns.load("rolling", 8)
	for r := range 3 * nodeRounds(t, 1) {
		c.grown(50)
		ns.node(r % 3).stop()
		c.grown(20)
		ns.start(r % 3)
	}
	ns.whole(c)
}

// TestNodes_WipedAndOld deletes what one node keeps, and puts an old copy in place
// of another's: both come back with the tree of all.
func TestNodes_WipedAndOld(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := startNodes(t)
	c := ns.load("wiped", 4)
	c.grown(60)
	rng := rand.New(rand.NewPCG(1, 2))
	for range nodeRounds(t, 1) {
		old := rng.IntN(3)
		ns.node(old).stop()
		copied := filepath.Join(t.TempDir(), "copy")
		if out, err := exec.Command("cp", "-a", ns.home[old], copied).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		ns.start(old)
		c.grown(100)

		// One is put back to the copy.
		ns.kill(old, syscall.SIGKILL)
		if err := os.RemoveAll(ns.home[old]); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(copied, ns.home[old]); err != nil {
			t.Fatal(err)
		}
		ns.seen.mu.Lock()
		ns.seen.last[old] = 0 // it serves nothing before it has caught up; that is judged below
		ns.seen.mu.Unlock()
		before := ns.published((old + 1) % 3)
		ns.start(old)
		if got := ns.first(old); got < before {
			t.Errorf("node %d came back from an old copy and served size %d, the others had %d before", old+1, got, before)
		}
		c.grown(50)

		// Another one loses everything but who it is.
		wiped := (old + 1) % 3
		ns.kill(wiped, syscall.SIGKILL)
		for _, name := range []string{"log", "log.lock", "guard", "vault", "index", "views", "cluster", "aside", "witness"} {
			if err := os.RemoveAll(filepath.Join(ns.home[wiped], name)); err != nil {
				t.Fatal(err)
			}
		}
		c.grown(50)
		ns.start(wiped)
		c.grown(50)
	}
	ns.whole(c)
}

// first is the size that a node serves first after its start.
func (ns *nodes) first(i int) uint64 {
	ns.t.Helper()
	ns.lookOnce(http.DefaultClient, ns.node(i), i)
	return ns.published(i)
}

// TestNodes_OneClockIsOff runs one node with a clock an hour fast and another one a
// day slow.
func TestNodes_OneClockIsOff(t *testing.T) {
	t.Parallel() // the nodes wait for one another more than for a processor
	ns := prepareNodes(t)
	for i, offset := range []time.Duration{time.Hour, -24 * time.Hour} {
		ns.clocked(i, offset)
	}
	ns.startAll()
	c := ns.load("clock", 8)
	c.grown(100)
	s := ns.signer()
	ns.kill(s, syscall.SIGKILL)
	ns.signer(s)
	c.grown(100)
	ns.start(s)
	ns.whole(c)
}
