package stream

import (
	"strconv"
	"testing"
)

// A reader's consumer is on its own node's server, and those that were made on the
// way to it are gone (LOG-03). Which server one is given to is chance: 1 of 25 is
// not here.
func TestCluster_ConsumersAreNear(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	const all, most = 24, 18
	for i, s := range c.s {
		n, near := 0, 0
		name := func() string { n++; return "near-" + strconv.Itoa(i) + "-" + strconv.Itoa(n) }
		kept := map[string]bool{}
		for range all {
			made, err := s.makeConsumer(t.Context(), s.cfg.Name, 1, true, name)
			must(t, err)
			kept[made] = true
			var info struct {
				Cluster struct {
					Leader string `json:"leader"`
				} `json:"cluster"`
			}
			must(t, s.api(t.Context(), "CONSUMER.INFO."+s.cfg.Name+"."+made, nil, &info))
			if info.Cluster.Leader == s.cfg.Cluster.Node {
				near++
			}
		}
		if near < most {
			t.Errorf("%d of %d consumers are on their reader's node %s, want at least %d", near, all, s.cfg.Cluster.Node, most)
		}
		until(t, "the others to be gone", func() bool { return len(consumers(t, s)) == all })
		for _, name := range consumers(t, s) {
			if !kept[name] {
				t.Errorf("consumer %s was left behind", name)
			}
			s.dropConsumer(s.cfg.Name, name)
		}
		until(t, "all to be gone", func() bool { return len(consumers(t, s)) == 0 })
	}
}

func consumers(t testing.TB, s *Stream) []string {
	var names struct {
		Consumers []string `json:"consumers"`
	}
	must(t, s.api(t.Context(), "CONSUMER.NAMES."+s.cfg.Name, nil, &names))
	return names.Consumers
}
