// Package stream keeps the one JetStream stream of a ledger: it publishes
// events under the stream's own compare-and-set, reads them back in order, and
// heals the stream from the log. It is the only package that speaks NATS.
//
// # Life of a message
//
// The body of a message is the leaf: whoever reads it adds nothing. Its
// sequence fixes the leaf index, which is one less. A publisher names the
// sequence of the last message that its decision was made on, under the filter
// of the shard; the stream stores the message only if that still is the last
// one, and a message that it refuses burns no sequence. So of two writers one
// wins, between goroutines, processes and machines, for ever: no time window is
// involved, and nothing relies on the stream's own deduplication.
//
// # Durability
//
// An acknowledged message has been handed to the operating system, not to the
// disk: it survives the end of the process and not a power loss. The log, which
// is flushed, heals the stream (see [Stream.Heal]). In a cluster of embedded
// servers (Config.Cluster) it is on the disks of most nodes.
//
// # Going back
//
// A stream whose last sequence is below one that was acknowledged or read lost
// messages while we run; in a cluster, if its leader and most servers say so for
// some seconds. Sequences would then be given out a second time, for
// other messages. From there on everything answers [ErrRewound] until Heal has
// run: the reader of the stream must have stopped by then.
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// MaxBody is the largest body that the stream holds, in bytes: the largest
	// leaf. One larger message would block the log for ever.
	MaxBody = 65_535
	// MaxPublish is the largest body that Publish takes. The difference is room
	// for the headers of the expectation, which the stream counts too.
	MaxPublish = MaxBody - headerRoom
	headerRoom = 256

	// DefaultName is the name of the stream.
	DefaultName = "COUNTERFOIL"
	// Subjects is what the stream listens to:
	// counterfoil.v1.<tenant>.<kind>.<lifecycle>.<shard>.
	Subjects = "counterfoil.v1.*.*.*.*"
)

// Config says where the stream is and whose it is.
type Config struct {
	// Dir is the store of an embedded server; created with mode 0700. One
	// process at a time may use it, which the caller sees to. Exactly one of
	// Dir and URL is set.
	Dir string
	// URL is an external NATS server or cluster, a comma-separated list.
	URL string
	// CredsFile is the credentials file for URL; optional.
	CredsFile string
	// Replicas of streams that are created on a cluster; default 1 on an external
	// one, DefaultReplicas with Cluster. An existing stream keeps its number.
	Replicas int
	// Cluster makes the embedded server a node of a cluster. Nil: it is alone.
	Cluster *ClusterConfig

	// Name of the stream; default DefaultName.
	Name string
	// Tenant, Origin (the log's) and Fingerprint (of the tenant's key) are
	// kept in the stream's metadata. A stream with others is refused.
	Tenant, Origin, Fingerprint string

	// ListenAddr, host:port, lets external consumers connect to the embedded
	// server over TCP, with read-only permissions, as ConsumerUser with
	// ConsumerToken. Empty: no listener.
	ListenAddr                  string
	ConsumerUser, ConsumerToken string

	// AckTimeout is how long a publish waits for its answer; default 5 s, in a
	// cluster 20 s.
	AckTimeout time.Duration
	// SyncInterval is how often the embedded server flushes to the disk;
	// default 10 s. It bounds what a power loss can take from the stream, and
	// so how much is healed from the log.
	SyncInterval time.Duration
	// Logger gets what the embedded server says, and what happens to the
	// connection; default: nowhere.
	Logger *slog.Logger

	tellEvery time.Duration // other than the default in tests
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *Config) validate() error {
	var errs []error
	if (c.Dir == "") == (c.URL == "") {
		errs = append(errs, errors.New("exactly one of a store directory and a URL is needed"))
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if !nameRE.MatchString(c.Name) {
		errs = append(errs, fmt.Errorf("stream name %q is not 1 to 64 of A-Z a-z 0-9 _ -", c.Name))
	}
	for _, f := range []struct{ name, value string }{
		{"tenant", c.Tenant}, {"origin", c.Origin}, {"fingerprint of the tenant's key", c.Fingerprint},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("no %s", f.name))
		}
	}
	if c.ListenAddr != "" {
		if c.Dir == "" {
			errs = append(errs, errors.New("an external server has its own listeners: leave out the listen address"))
		}
		if c.ConsumerUser == "" || c.ConsumerToken == "" {
			errs = append(errs, errors.New("a listen address needs a consumer's user and token"))
		}
	}
	if c.Cluster != nil {
		if c.Dir == "" {
			errs = append(errs, errors.New("an external server has its own cluster: leave out the cluster"))
		}
		if err := c.Cluster.validate(); err != nil {
			errs = append(errs, err)
		}
		if c.Replicas == 0 {
			c.Replicas = DefaultReplicas
		}
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.AckTimeout == 0 {
		c.AckTimeout = 5 * time.Second
		if c.clustered() {
			c.AckTimeout = clusterAckTimeout
		}
	}
	if c.SyncInterval == 0 {
		c.SyncInterval = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// Stream is an open stream. It is safe for concurrent use.
type Stream struct {
	cfg Config
	log *slog.Logger
	emb *embedded // nil for an external server
	nc  *nats.Conn
	pub *publisher

	seen     atomic.Uint64 // highest sequence that was acknowledged or read
	gate     gate
	elected  elections     // of the stream's leader, in a cluster
	rewinds  atomic.Uint64 // times that the stream went back
	maintain sync.Mutex    // held while the server restarts or the stream is healed
	kick     chan struct{} // wakes the watch; capacity 1
	trusted  atomic.Uint64 // reconnects up to which the stream was checked, external only

	// hook is called before every step of a heal; an error ends it there. Nil
	// but in tests.
	hook func(step string) error

	conn    connState
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
	closed  error
}

// Open connects to the stream and creates it if there is none. An existing
// stream is refused, with every difference, unless it is configured as the
// ledger needs it and belongs to it. ctx bounds the opening.
//
// Nothing may be published before Heal has compared the stream with the log.
func Open(ctx context.Context, cfg Config) (_ *Stream, err error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("stream configuration: %w", err)
	}
	s := &Stream{cfg: cfg, log: cfg.Logger, kick: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.conn.init()
	s.pub = newPublisher(s)
	defer func() {
		if err != nil {
			_ = s.Close(context.WithoutCancel(ctx))
		}
	}()
	if cfg.Dir != "" {
		if s.emb, err = newEmbedded(&s.cfg); err != nil {
			return nil, err
		}
		s.emb.onError = s.suspect
		defer s.tellWaiting(ctx)()
		if err := s.emb.start(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.connect(); err != nil {
		return nil, err
	}
	if err := s.pub.start(); err != nil {
		return nil, err
	}
	if err := s.hearElections(); err != nil {
		return nil, err
	}
	if s.cfg.Cluster != nil {
		if err := s.emb.awaitLeader(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.openStream(ctx); err != nil {
		return nil, err
	}
	st, err := s.State(ctx)
	for err != nil && s.cfg.clustered() && errors.Is(err, ErrUnavailable) && s.pause(ctx, retryMax) {
		st, err = s.State(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.see(st.Last)
	if s.cfg.Cluster != nil {
		if err := s.checkReplica(ctx); err != nil {
			return nil, err
		}
	}
	s.running.Go(s.watch)
	return s, nil
}

// Close ends everything: publishes without an answer end with ErrUnanswered,
// tails with ErrClosed, and an embedded server is stopped after it has written
// what it holds. ctx bounds the wait for the server; if it ends first, the
// error says so and the server goes on stopping by itself.
func (s *Stream) Close(ctx context.Context) error {
	s.closing.Do(func() {
		s.stop()
		s.running.Wait()
		if s.nc != nil {
			s.nc.Close()
		}
		s.pub.failAll(ErrClosed)
		s.conn.set(ErrClosed)
		if s.emb != nil {
			s.closed = s.emb.stop(ctx)
		}
	})
	return s.closed
}

// step runs the hook.
func (s *Stream) step(name string) error {
	if s.hook == nil {
		return nil
	}
	return s.hook(name)
}

// LastSeen is the highest sequence that was acknowledged or read; it costs
// nothing and is never ahead of the stream.
func (s *Stream) LastSeen() uint64 { return s.seen.Load() }

func (s *Stream) see(seq uint64) {
	for {
		old := s.seen.Load()
		if seq <= old || s.seen.CompareAndSwap(old, seq) {
			return
		}
	}
}

// URL is where external consumers connect, empty without a listener.
func (s *Stream) URL() string {
	if s.emb == nil {
		return ""
	}
	return s.emb.url()
}
