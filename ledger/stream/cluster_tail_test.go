package stream

import (
	"fmt"
	"sync"
	"testing"
)

// Readers on the nodes that stay go on when the server with their consumer or the
// stream's leader goes: no gap, no repeat (LOG-01, LOG-04).
func TestCluster_TailsOutliveAServer(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	var last uint64
	put := func(s *Stream, n int) {
		for i := range n {
			last = mustPublish(t, s, 1, fmt.Sprint(i), last)
		}
	}
	lead := c.leader(t, DefaultName)
	stay := []*Stream{c.s[(lead+1)%3], c.s[(lead+2)%3]}
	put(stay[0], 50)
	// So many that each server has consumers.
	var tails []*Tail
	for i := range 12 {
		tail := stay[i%2].Tail(t.Context(), 1)
		read(t, tail, 1, 50, 7)
		tails = append(tails, tail)
	}
	var wg sync.WaitGroup
	for _, tail := range tails {
		wg.Go(func() {
			for next := uint64(51); next <= 150; {
				msgs, err := tail.Next(t.Context(), 7)
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range msgs {
					if m.Seq != next {
						t.Errorf("got %d, expected %d", m.Seq, next)
						return
					}
					next++
				}
			}
		})
	}
	put(stay[0], 50)
	c.closeNode(t, lead)
	put(stay[1], 50)
	wg.Wait()
}

// A reader asks for another consumer, not for the same again, when none answers for
// the first: that may be on a server that just died (LOG-04).
func TestCluster_TailAsksForAnotherConsumer(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	mustPublish(t, c.s[0], 1, "leaf", 0)
	for _, i := range []int{1, 2} {
		c.closeNode(t, i)
	}
	s := c.s[0]
	asked, err := s.nc.SubscribeSync("$JS.API.CONSUMER.CREATE." + DefaultName + ".>")
	must(t, err)
	tail := s.Tail(t.Context(), 1)
	names := map[string]bool{}
	for range 2 {
		if err := tail.create(t.Context(), 1); err == nil {
			t.Fatal("a consumer was made by one of three")
		}
		m, err := asked.NextMsgWithContext(t.Context())
		must(t, err)
		names[m.Subject] = true
	}
	if len(names) != 2 {
		t.Errorf("the same consumer was asked for twice: %v", names)
	}
}
