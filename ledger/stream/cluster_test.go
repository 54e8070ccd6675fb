package stream

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"counterfoil/internal/testkit/freeport"
)

// trio is a cluster of three nodes in this process.
type trio struct {
	cfgs []Config
	s    []*Stream
}

// clusterConfigs are the configurations of n nodes that name each other.
func clusterConfigs(t testing.TB, n int) []Config {
	t.Helper()
	dir := t.TempDir()
	var addrs []string
	for range n {
		addrs = append(addrs, fmt.Sprint("127.0.0.1:", freeport.Row(t, 1)))
	}
	cfgs := make([]Config, n)
	for i := range cfgs {
		cfgs[i] = testConfig(filepath.Join(dir, fmt.Sprint("n", i)))
		c := &ClusterConfig{Name: "test", Node: fmt.Sprint("n", i), Listen: addrs[i], Secret: "a secret of the test cluster"}
		for j, a := range addrs {
			if j != i {
				c.Routes = append(c.Routes, a)
			}
		}
		cfgs[i].Cluster = c
	}
	return cfgs
}

// openAll opens nodes side by side, since one alone waits for the others.
func openAll(t testing.TB, cfgs []Config) []*Stream {
	t.Helper()
	s := make([]*Stream, len(cfgs))
	errs := make([]error, len(cfgs))
	var wg sync.WaitGroup
	for i, c := range cfgs {
		wg.Go(func() { s[i], errs[i] = Open(t.Context(), c) })
	}
	wg.Wait()
	for i := range s {
		if s[i] != nil {
			t.Cleanup(func() { closeStream(t, s[i]) })
		}
	}
	for _, err := range errs {
		must(t, err)
	}
	return s
}

func newTrio(t testing.TB) *trio {
	t.Helper()
	c := &trio{cfgs: clusterConfigs(t, 3)}
	c.s = openAll(t, c.cfgs)
	return c
}

// leader is the node whose server leads a stream.
func (c *trio) leader(t testing.TB, name string) int {
	t.Helper()
	n := -1
	until(t, "a leader of "+name, func() bool {
		for i, s := range c.s {
			if srv := s.emb.current(); srv != nil && leads(srv, name) {
				n = i
				return true
			}
		}
		return false
	})
	return n
}

// Three nodes form a cluster; each publishes and reads, and tells how all stand (LOG-01, DUR-01).
func TestCluster_FormsAndTells(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	var last uint64
	for i := range 30 {
		last = mustPublish(t, c.s[i%3], 7, fmt.Sprint("leaf ", i), last)
		if last != uint64(i)+1 {
			t.Fatalf("message %d has sequence %d", i, last)
		}
	}
	for i, s := range c.s {
		read(t, s.Tail(t.Context(), 1), 1, 30, 100)
		var got Cluster
		until(t, "all replicas are current", func() bool {
			var err error
			got, err = s.ClusterState(t.Context())
			return err == nil && got.Whole()
		})
		if got.Name != "test" || got.Node != fmt.Sprint("n", i) || got.MetaLeader == "" || len(got.Connected) != 2 || len(got.Replicas) != 3 {
			t.Errorf("node %d: %+v", i, got)
		}
		if srv := s.emb.current(); !srv.JetStreamEnabled() || !syncs(srv) {
			t.Errorf("node %d does not flush every write", i)
		}
	}
}

func syncs(srv *server.Server) bool {
	j, err := srv.Jsz(nil)
	return err == nil && j.Config.SyncAlways
}

// closeNode stops one node.
func (c *trio) closeNode(t testing.TB, i int) {
	t.Helper()
	must(t, c.s[i].Close(context.Background()))
}

func containsText(err error, want string) bool {
	return err != nil && strings.Contains(err.Error(), want)
}
