package natsfeed_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/natskit"
	"counterfoil/ledger/consumer"
)

// The ledger is stopped and started again while followers follow: each event
// comes once, in order, and their feeds work again afterwards.
func TestLOG12_LedgerRestarts(t *testing.T) {
	l := newLedger(t)
	l.fill(10, "published")
	feeds := map[string]consumer.Feed{"nats": l.natsFeed(), "events": l.eventsFeed(), "tiles": nil}
	followers := map[string]*consumer.Follower{}
	for name, feed := range feeds {
		cfg := l.config()
		cfg.Feed = feed
		followers[name] = must(consumer.New(cfg))(t)
		follow(t, followers[name], 0, 10)
	}
	for round := range 3 {
		at := l.sent
		l.fill(20, "logged")
		done := make(chan error, len(followers))
		for name, f := range followers {
			go func() {
				for next, _ := f.Position(); next < uint64(at+40); next, _ = f.Position() {
					b, err := f.Next(t.Context())
					if err != nil || b.Events[0].Index != next {
						done <- fmt.Errorf("%s at %d: %v", name, next, err)
						return
					}
				}
				done <- nil
			}()
		}
		l.stop()
		l.start()
		l.fill(20, "published")
		for range followers {
			if err := <-done; err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
	l.fill(1, "published")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, feed := range feeds {
		for feed != nil {
			leaves, err := feed.Next(ctx, uint64(l.sent-1), 5)
			if err == nil && len(leaves) == 1 {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("the feed %s stays silent: %v", name, err)
			}
		}
	}
}

// NATS is killed with events in flight and comes back later. All events come,
// once each, and the feed speaks again.
func TestLOG12_NATSIsKilled(t *testing.T) {
	srv := natskit.Start(t, t.TempDir())
	l := newLedger(t, func(c *app.Config) { c.NATS = srv.URL })
	const first = 2500 // more than is on its way to a feed
	l.fill(first, "published")
	feed := l.natsFeed()
	cfg := l.config()
	cfg.Feed, cfg.Batch = feed, 50
	var told atomic.Int64
	cfg.Waiting = func(err error, _ time.Duration) {
		var e *consumer.FeedError
		if !errors.As(err, &e) {
			t.Errorf("told %v", err)
		}
		told.Add(1)
	}
	f := must(consumer.New(cfg))(t)
	follow(t, f, 0, 100)
	srv.Kill()
	next, _ := f.Position()
	follow(t, f, int(next), first-int(next)) // by the tiles
	if told.Load() == 0 {
		t.Error("nobody was told that the feed is gone")
	}
	done := make(chan []consumer.Event, 1)
	go func() { done <- follow(t, f, first, 1000) }()
	srv.Restart()
	for l.sent < first+1000 {
		l.fillWhenItCan(50)
	}
	if events := <-done; len(events) < 1000 {
		t.Fatalf("%d events", len(events))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		leaves, err := feed.Next(ctx, first+990, 10)
		if err == nil && len(leaves) > 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the feed stays silent: %v", err)
		}
	}
}
