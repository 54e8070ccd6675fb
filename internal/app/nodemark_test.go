package app_test

import (
	"context"
	"strings"
	"testing"

	"counterfoil/internal/app"
)

// TestDirectoryOfANode: the directory of a node starts as that node alone: without
// the others it would sign a second history, under another name it would be one more member.
func TestDirectoryOfANode(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take seconds to start")
	}
	ns := threeNodes(t)
	ns.all[0].begin("call")
	ns.settled(1)
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	for name, change := range map[string]func(*app.Config){
		"alone":         func(c *app.Config) { c.Cluster = nil },
		"another name":  func(c *app.Config) { c.Cluster.Node = "n4" },
		"other cluster": func(c *app.Config) { c.Cluster.Name = "other" },
	} {
		cfg := ns.config(w)
		own := cfg.Cluster.Node
		change(&cfg)
		s, err := app.Start(context.Background(), cfg)
		if err == nil {
			_ = s.Stop(context.Background())
			t.Fatalf("%s: it starts", name)
		}
		if !strings.Contains(err.Error(), "--cluster-name test --node "+own) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ns.start(w)
	ns.all[w].begin("again")
	ns.settled(2)
}
