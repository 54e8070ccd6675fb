package app_test

import (
	"fmt"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/natskit"
)

// TestNodesOnAnExternalNATS: three nodes share the streams of a NATS cluster of the
// operator's, and outlive one of its servers.
func TestNodesOnAnExternalNATS(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	nats := natskit.StartCluster(t, t.TempDir())
	ns := threeNodes(t, func(c *app.Config) {
		c.NATS, c.Cluster.Listen, c.Cluster.Routes = nats.URL, "", nil
	})
	for i := range 6 {
		ns.all[i%3].begin(fmt.Sprint("call ", i))
	}
	ns.settled(6)
	nats.Stop(1)
	for i := range 6 {
		ns.all[i%3].begin(fmt.Sprint("with one server away ", i))
	}
	ns.settled(12)
	nats.Restart(1)
	s := ns.signer()
	ns.stop(s)
	ns.signer(s)
	for i, l := range ns.all {
		if l != nil {
			l.begin(fmt.Sprint("with one node away ", i))
		}
	}
	ns.settled(14)
}
