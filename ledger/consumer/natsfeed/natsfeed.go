// Package natsfeed is the [consumer.Feed] of a ledger's NATS stream. It reads with
// the credentials of a read-only consumer: the stream's sequence less one is the
// leaf index, and a message's body is the leaf. What it brings is not checked
// here: a consumer.Follower does that.
package natsfeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
)

// What a ledger calls its stream and the user of its own NATS server.
const (
	DefaultStream = "COUNTERFOIL"
	DefaultUser   = "consumer"
)

const (
	// ahead and aheadBytes bound what is on its way. aheadBytes is above the
	// largest message that a NATS server takes by default.
	ahead      = 512
	aheadBytes = 8 << 20
	// heartbeat is how often an idle stream must show that it is there; after
	// twice as long the consumer is made anew: it may stay silent for ever after a
	// reconnect.
	heartbeat = 2 * time.Second
	expiry    = 30 * time.Second
	// forget is after how long the server forgets a consumer that nobody reads.
	forget = time.Minute
	// connectTimeout bounds one attempt to connect and one request.
	connectTimeout = 5 * time.Second
)

// Config says which stream to read.
type Config struct {
	// URL is a NATS server or cluster, a comma-separated list.
	URL string
	// User and Token are what the ledger's own NATS server wants: DefaultUser and
	// the content of the file consumer.token. CredsFile is the credentials file for
	// another server. Both are optional, not together.
	User, Token, CredsFile string
	// Stream is the name of the stream; default DefaultStream.
	Stream string
	// Origin, if set, is the log's: a stream whose metadata name another is
	// refused.
	Origin string
}

// Feed reads one stream. It is not safe for concurrent use. Close it.
type Feed struct {
	cfg Config
	nc  *nats.Conn
	js  jetstream.JetStream

	open *reading // nil while nothing is read
	next uint64   // leaf index that comes next from open
}

var _ consumer.Feed = (*Feed)(nil)

// Connect connects to the server. A connection that is lost later is made again
// for ever; that the first cannot be made is an error.
func Connect(cfg Config) (*Feed, error) {
	if cfg.Stream == "" {
		cfg.Stream = DefaultStream
	}
	opts := []nats.Option{
		nats.Name("counterfoil consumer"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.IgnoreAuthErrorAbort(),
		nats.Timeout(connectTimeout), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // what matters comes out of Next
	}
	switch {
	case cfg.CredsFile != "" && cfg.Token != "":
		return nil, errors.New("NATS: a token and a credentials file exclude each other")
	case cfg.CredsFile != "":
		opts = append(opts, nats.UserCredentials(cfg.CredsFile))
	case cfg.Token != "":
		if cfg.User == "" {
			cfg.User = DefaultUser
		}
		opts = append(opts, nats.UserInfo(cfg.User, cfg.Token))
	}
	nc, err := nats.Connect(cfg.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(connectTimeout))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return &Feed{cfg: cfg, nc: nc, js: js}, nil
}

// Close ends the reading and the connection.
func (f *Feed) Close() {
	f.stop()
	f.nc.Close()
}

// Next is that of [consumer.Feed].
func (f *Feed) Next(ctx context.Context, from uint64, most int) ([][]byte, error) {
	if f.open != nil && f.next != from {
		f.stop()
	}
	if f.open == nil {
		r, err := f.read(ctx, from)
		if err != nil {
			return nil, err
		}
		f.open, f.next = r, from
	}
	var leaves [][]byte
	for len(leaves) < most {
		var m message
		var err error
		if len(leaves) > 0 {
			select {
			case m = <-f.open.messages:
			default:
				return leaves, nil
			}
		} else {
			select {
			case m = <-f.open.messages:
			case err = <-f.open.failed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		switch {
		case err != nil:
		case m.seq != f.next+1:
			err = fmt.Errorf("the stream %s brings sequence %d, expected %d", f.cfg.Stream, m.seq, f.next+1)
		case len(m.body) > tiles.MaxEntry:
			err = fmt.Errorf("message %d of the stream %s has %d bytes, a leaf has at most %d", m.seq, f.cfg.Stream, len(m.body), tiles.MaxEntry)
		}
		if err != nil {
			f.stop()
			if len(leaves) > 0 {
				return leaves, nil
			}
			return nil, err
		}
		leaves = append(leaves, m.body)
		f.next++
	}
	return leaves, nil
}

// reading is a consumer of the stream in the memory of the server.
type reading struct {
	name     string
	consume  jetstream.ConsumeContext
	messages chan message
	failed   chan error    // the first reason why nothing will come any more
	done     chan struct{} // closed when nobody takes messages any more
}

type message struct {
	seq  uint64
	body []byte // never nil
}

func (f *Feed) read(ctx context.Context, from uint64) (*reading, error) {
	if !f.nc.IsConnected() {
		return nil, fmt.Errorf("not connected to NATS: %w", nats.ErrDisconnected)
	}
	s, err := f.js.Stream(ctx, f.cfg.Stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", f.cfg.Stream, err)
	}
	if origin := s.CachedInfo().Config.Metadata["counterfoil.origin"]; f.cfg.Origin != "" && origin != "" && origin != f.cfg.Origin {
		return nil, fmt.Errorf("stream %s is of the log %q, expected %q", f.cfg.Stream, origin, f.cfg.Origin)
	}
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from + 1,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: forget})
	if err != nil {
		return nil, fmt.Errorf("consumer of the stream %s: %w", f.cfg.Stream, err)
	}
	r := &reading{name: c.CachedInfo().Name, messages: make(chan message, ahead), failed: make(chan error, 1), done: make(chan struct{})}
	r.consume, err = c.Consume(r.take, jetstream.PullMaxMessagesWithBytesLimit(ahead, aheadBytes), jetstream.PullHeartbeat(heartbeat), jetstream.PullExpiry(expiry),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { r.fail(fmt.Errorf("stream %s: %w", f.cfg.Stream, err)) }))
	if err != nil {
		return nil, fmt.Errorf("read the stream %s: %w", f.cfg.Stream, err)
	}
	return r, nil
}

// take passes a message on; it waits while nobody takes them.
func (r *reading) take(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		r.fail(err)
		return
	}
	body := m.Data()
	if body == nil {
		body = []byte{}
	}
	select {
	case r.messages <- message{seq: meta.Sequence.Stream, body: body}:
	case <-r.done:
	}
}

func (r *reading) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// stop gives back what the reading holds, and tells the server to forget its
// consumer, without waiting whether it does: it forgets it in any case.
func (f *Feed) stop() {
	r := f.open
	if r == nil {
		return
	}
	f.open = nil
	close(r.done)
	r.consume.Stop()
	_ = f.nc.Publish("$JS.API.CONSUMER.DELETE."+f.cfg.Stream+"."+r.name, nil)
}
