package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// inboxPrefix of our own connection. Consumers may subscribe to _INBOX only, so
// they never see our answers.
const inboxPrefix = "_COUNTERFOIL"

// connState tells who waits on the connection when it changes.
type connState struct {
	mu         sync.Mutex
	generation uint64          // counts connections
	down       error           // why there is none, nil if there is
	changed    chan struct{}   // closed and replaced at every change
	live       context.Context // ends with the connection
	end        context.CancelFunc
}

func (c *connState) init() {
	c.changed = make(chan struct{})
	c.live, c.end = context.WithCancel(context.Background())
}

// set says that there is a connection (nil), or why there is none.
func (c *connState) set(down error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	if down == nil {
		c.generation++
		c.live, c.end = context.WithCancel(context.Background())
	}
	c.down = down
	c.wakeLocked()
}

// wake makes everyone look again.
func (c *connState) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeLocked()
}

func (c *connState) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *connState) get() (generation uint64, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation, c.changed
}

// with ties ctx to the current connection: what is asked on it has no answer
// once it is lost. stop must be called.
func (c *connState) with(ctx context.Context) (tied context.Context, stop func()) {
	c.mu.Lock()
	live := c.live
	c.mu.Unlock()
	if live.Err() != nil {
		return ctx, func() {} // there may be a new one that we were not told of
	}
	tied, cancel := context.WithCancel(ctx)
	untie := context.AfterFunc(live, cancel)
	return tied, func() { untie(); cancel() }
}

// reason is why there is no connection, nil if there is one.
func (c *connState) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// connect opens the one connection. It lasts until Close: a lost one is made
// again for ever, to the next server of a cluster or to the restarted embedded
// one. Nothing is buffered while there is none.
func (s *Stream) connect() error {
	opts := []nats.Option{
		nats.Name("counterfoil"),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomInboxPrefix(inboxPrefix + "." + rand.Text()),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.SkipSubjectValidation(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil {
				err = errors.New("connection closed")
			}
			s.conn.set(fmt.Errorf("not connected: %w", err))
			// What was sent on the old connection gets no answer any more.
			s.pub.failAll(err)
			if s.ctx.Err() == nil {
				s.log.Warn("connection to the stream lost", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			s.log.Info("connected to the stream again")
			s.conn.set(nil)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			s.log.Warn("stream connection", "subject", subject, "error", err)
		}),
	}
	url := s.cfg.URL
	if s.emb != nil {
		url = ""
		opts = append(opts, nats.InProcessServer(s.emb), nats.UserInfo(ownUser, s.emb.password),
			nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	} else {
		opts = append(opts, nats.ReconnectWait(250*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond))
		if s.cfg.CredsFile != "" {
			opts = append(opts, nats.UserCredentials(s.cfg.CredsFile))
		}
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return unavailable("connect to the stream", err)
	}
	s.nc = nc
	s.conn.set(nil)
	return nil
}

// awaitConnection waits until there is a connection again.
func (s *Stream) awaitConnection(ctx context.Context) error {
	for {
		_, changed := s.conn.get()
		if s.nc.IsConnected() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return unavailable("connect to the stream", errors.Join(ctx.Err(), s.conn.reason()))
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

// pause waits, or returns false when one of the contexts ends first.
func (s *Stream) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return false
}
