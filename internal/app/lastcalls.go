package app

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"counterfoil/internal/wait"
)

// How a stop waits for the last callers: until nobody has connected for a moment.
const (
	lastCallQuiet = 100 * time.Millisecond
	lastCallLimit = time.Second
)

// lastCalls lets callers know that the ledger stops.
type lastCalls struct {
	began    time.Time
	arrived  atomic.Int64 // when somebody connected last, in ns since began; 0: nobody yet
	stopping atomic.Bool
}

func newLastCalls() *lastCalls { return &lastCalls{began: time.Now()} }

// serve makes the server s count who connects, and no connection outlive a call
// once the ledger stops: a caller must not choose one that is about to be closed.
func (c *lastCalls) serve(s *http.Server) {
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.arrived.Store(int64(time.Since(c.began)))
		}
	}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// wait waits until nobody has connected for lastCallQuiet. A listener that closes
// resets what the system holds for it and has not handed over: those callers would
// not know what became of their calls. Until then they are told that the ledger is
// stopping. A ledger that nobody calls stops at once.
func (c *lastCalls) wait(ctx context.Context) {
	c.stopping.Store(true)
	ctx, cancel := context.WithTimeout(ctx, lastCallLimit)
	defer cancel()
	for at := c.arrived.Load(); at != 0; at = c.arrived.Load() {
		rest := lastCallQuiet - (time.Since(c.began) - time.Duration(at))
		if rest <= 0 || wait.For(ctx, rest) != nil {
			return
		}
	}
}
