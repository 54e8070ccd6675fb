package stream

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// The watch of a register that nobody writes keeps its consumer while another
// register of the same bucket is written (LOG-03): each new one is a write of all
// nodes, and twice a second it would be.
func TestRegisterWatchKeepsItsConsumer(t *testing.T) {
	t.Parallel()
	s := open(t, testConfig(t.TempDir()))
	quiet, busy := mustRegister(t, s), register(t, s, "busy")
	_, err := quiet.Put(t.Context(), []byte("once"), 0)
	must(t, err)

	// Whatever a consumer says goes to an inbox of the same connection.
	beats := make(chan *nats.Msg, 64)
	sub, err := s.nc.ChanSubscribe(inboxPrefix+".>", beats)
	must(t, err)
	defer func() { must(t, sub.Unsubscribe()) }()

	ctx, stop := context.WithCancel(t.Context())
	seen, ended := make(chan uint64, 8), make(chan error, 1)
	go func() { ended <- quiet.Watch(ctx, func(_ []byte, rev uint64) error { seen <- rev; return nil }) }()
	<-seen
	rev, err := busy.Put(t.Context(), []byte("passes by"), 0)
	must(t, err)

	deadline := time.After(20 * time.Second)
	var of string
	for n := 0; n < 3; {
		select {
		case m := <-beats:
			if at, _ := strconv.ParseUint(m.Header.Get("Nats-Last-Stream"), 10, 64); at < rev {
				continue
			}
			if of == "" {
				of = m.Subject
			}
			if m.Subject != of {
				t.Fatal("the watch made another consumer though nothing was lost")
			}
			n++
		case <-deadline:
			t.Fatal("no heartbeats of the consumer")
		}
	}
	next, err := quiet.Put(t.Context(), []byte("again"), 1)
	must(t, err)
	if got := <-seen; got != next {
		t.Errorf("revision %d was told, want %d", got, next)
	}
	stop()
	<-ended
}

// A consumer that delivered more than what came is given up: something was lost on
// its way.
func TestRegisterWatchCountsWhatCame(t *testing.T) {
	beat := func(consumer string) *nats.Msg {
		return &nats.Msg{Header: nats.Header{statusHeader: {"100"}, "Nats-Last-Consumer": {consumer}, "Nats-Last-Stream": {"9"}}}
	}
	w := &watcher{last: 4, delivered: 2}
	if err := w.take(beat("2")); err != nil {
		t.Errorf("all came: %v", err)
	}
	if w.take(beat("3")) == nil {
		t.Error("a delivery that did not come was not missed")
	}
}

func register(t testing.TB, s *Stream, name string) *Register {
	t.Helper()
	r, err := s.Register(t.Context(), name)
	must(t, err)
	return r
}
