package vault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/stream"
)

// clusterNode is a server of a cluster in this process, and the vault beside it.
type clusterNode struct {
	cfg stream.Config
	dir string
	s   *stream.Stream
	v   *Vault
}

// newCluster runs three nodes.
func newCluster(t testing.TB) []*clusterNode {
	t.Helper()
	dir := t.TempDir()
	var addrs []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		addrs = append(addrs, l.Addr().String())
		must(t, l.Close())
	}
	var nodes []*clusterNode
	for i := range addrs {
		c := &stream.ClusterConfig{Name: "test", Node: fmt.Sprint("n", i), Listen: addrs[i], Secret: "a secret of the test cluster"}
		for j, a := range addrs {
			if j != i {
				c.Routes = append(c.Routes, a)
			}
		}
		nodes = append(nodes, &clusterNode{
			cfg: stream.Config{Dir: filepath.Join(dir, c.Node, "stream"), Tenant: "default", Origin: "example.com/test", Fingerprint: "sha256:00", Cluster: c, AckTimeout: 5 * time.Minute},
			dir: filepath.Join(dir, c.Node, "vault"),
		})
	}
	startNodes(t, nodes...)
	t.Cleanup(func() {
		for _, n := range nodes {
			n.stop(t)
		}
	})
	return nodes
}

// startNodes runs nodes side by side: one alone waits for another.
func startNodes(t testing.TB, nodes ...*clusterNode) {
	t.Helper()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.start(t.Context()) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
}

func (n *clusterNode) start(ctx context.Context) (err error) {
	if n.s, err = stream.Open(ctx, n.cfg); err != nil {
		return err
	}
	r, err := n.s.Rows(ctx, "VAULT")
	if err != nil {
		return err
	}
	n.v, err = Open(n.dir, testSeal, logged(r))
	return err
}

func (n *clusterNode) stop(t testing.TB) {
	t.Helper()
	if n.v != nil {
		must(t, n.v.Close())
		n.v = nil
	}
	if n.s != nil {
		must(t, n.s.Close(context.WithoutCancel(t.Context())))
		n.s = nil
	}
}

// Three servers, three vaults: what was acknowledged is on every node, while one is
// away and after it is back, and what was erased is in no node's stream.
func TestPRV01_ClusterOfThree(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t)
	put := func(from, to int, on ...*clusterNode) {
		var wg sync.WaitGroup
		for n := from; n < to; n++ {
			v := on[n%len(on)].v
			wg.Go(func() {
				id, key := attempt(n)
				must(t, v.Put(id, key))
				must(t, v.PutBody(id, "slot", "value", big(3000*(n%40), byte(n)), commit.Raw))
			})
		}
		wg.Wait()
	}
	put(0, 60, nodes...)
	mustBeEqual(t, nodes[0].v, nodes[1].v, nodes[2].v)
	nodes[2].stop(t)
	put(60, 90, nodes[:2]...)
	var ids []string
	for n := range 90 {
		id, _ := attempt(n)
		ids = append(ids, id)
	}
	before := dump(t, nodes[0].v)
	changed, err := nodes[1].v.Lower(Purged, ids[:40])
	must(t, err)
	if changed != 40 {
		t.Errorf("%d changed, want 40", changed)
	}
	startNodes(t, nodes[2])
	put(90, 100, nodes...)
	mustBeEqual(t, nodes[0].v, nodes[1].v, nodes[2].v)
	for n := range 100 {
		id, _ := attempt(n)
		for _, node := range nodes {
			if n < 40 {
				_, err := node.v.Key(id)
				mustBe(t, err, ErrErased)
			} else {
				mustBody(t, node.v, id, "slot", big(3000*(n%40), byte(n)))
			}
		}
	}
	// The server that was away erases as it catches up.
	after := dump(t, nodes[0].v)
	gone, kept := 0, 0
	for name, value := range before {
		switch {
		case len(value) < 30: // a mark without content
			continue
		case after[name] == value:
			kept++
			continue
		}
		gone++
		for _, n := range nodes {
			until(t, fmt.Sprintf("no row of kind %q that was erased is in the stream of node %s", name[0], n.cfg.Cluster.Node), func() bool {
				return len(holds(t, filepath.Join(n.cfg.Dir, "jetstream", "LEDGER", "streams"), []byte(value[1:min(len(value), 60)]))) == 0
			})
		}
	}
	if gone < 100 || kept < 100 {
		t.Errorf("compared %d rows that are gone, %d hold", gone, kept)
	}
}

// until waits for something, as long as the test may take.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.Done():
			t.Fatal("never: ", what)
		}
	}
}
