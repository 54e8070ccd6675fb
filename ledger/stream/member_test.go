package stream

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// A server that was started once under another name is a member of the cluster; it is
// taken out again from any node, with the name or without it being known, and then
// two of three go on alone (LOG-01). What runs or keeps the stream stays.
func TestRemoveMember(t *testing.T) {
	t.Parallel()
	cfgs := clusterConfigs(t, 4)
	for i := range 3 { // nobody knows of the fourth
		cfgs[i].Cluster.Routes = slices.DeleteFunc(cfgs[i].Cluster.Routes, func(r string) bool { return r == cfgs[3].Cluster.Listen })
	}
	all := openAll(t, cfgs[:3])
	mustPublish(t, all[0], 1, "leaf", 0)
	fourth := openAll(t, cfgs[3:])[0]
	want := []string{"n0", "n1", "n2", "n3"}
	until(t, "four members on all nodes", func() bool {
		return !slices.ContainsFunc(all, func(s *Stream) bool { return !slices.Equal(s.Members(), want) })
	})
	for _, name := range []string{"n0", "n1", "n3"} {
		if err := all[0].RemoveMember(t.Context(), name); !errors.Is(err, ErrMemberRuns) {
			t.Errorf("removal of %s, which runs: %v", name, err)
		}
	}
	closeStream(t, fourth)
	var err error
	until(t, "the fourth is removed", func() bool {
		err = all[1].RemoveMember(t.Context(), "n3")
		return !errors.Is(err, ErrMemberRuns)
	})
	must(t, err)
	until(t, "three members on all nodes", func() bool {
		return !slices.ContainsFunc(all, func(s *Stream) bool { return !slices.Equal(s.Members(), want[:3]) })
	})
	if err := all[0].RemoveMember(t.Context(), "n3"); !errors.Is(err, ErrNoMember) {
		t.Errorf("removal of what is none: %v", err)
	}
	closeStream(t, all[2])
	until(t, "the third is gone", func() bool {
		err = all[0].RemoveMember(t.Context(), "n2")
		return !errors.Is(err, ErrMemberRuns)
	})
	if !errors.Is(err, ErrMemberKeeps) {
		t.Errorf("removal of one that keeps the stream: %v", err)
	}
}

// After all nodes stopped nobody knows the name of a member that stayed away: it is
// listed by its id, and removed by that or by the name that it is of.
func TestRemoveMember_UnknownName(t *testing.T) {
	t.Parallel()
	cfgs := clusterConfigs(t, 4)
	for i := range 3 {
		cfgs[i].Cluster.Routes = slices.DeleteFunc(cfgs[i].Cluster.Routes, func(r string) bool { return r == cfgs[3].Cluster.Listen })
	}
	all := openAll(t, cfgs[:3])
	fourth := openAll(t, cfgs[3:])[0]
	until(t, "four members", func() bool {
		return len(all[0].Members()) == 4 && len(all[1].Members()) == 4 && len(all[2].Members()) == 4
	})
	closeStream(t, fourth)
	var closing sync.WaitGroup
	for _, s := range all {
		closing.Go(func() { closeStream(t, s) })
	}
	closing.Wait()
	all = openAll(t, cfgs[:3])
	until(t, "the fourth by its id", func() bool { return slices.Contains(all[0].Members(), memberID("n3")) })
	must(t, all[0].RemoveMember(t.Context(), "n3"))
	until(t, "three members", func() bool { return slices.Equal(all[1].Members(), []string{"n0", "n1", "n2"}) })
}

// The id that servers know each other by is the one that we derive from a name.
func TestMemberID(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	for i, s := range c.s {
		if got, want := memberID(fmt.Sprint("n", i)), s.emb.current().Node(); got != want {
			t.Errorf("n%d is %s, want %s", i, got, want)
		}
	}
}
