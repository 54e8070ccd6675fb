package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"counterfoil/internal/durable"
)

const (
	ownUser = "counterfoil"
	// startPoll is how often a starting server is asked whether it is ready.
	startPoll = 10 * time.Millisecond
	// startTimeout bounds how long a server that runs may be unready.
	startTimeout = 2 * time.Minute
)

// embedded is a NATS server in this process. It handles no signals and writes
// to its logger only. One server follows another when it has to be restarted;
// the connection finds the current one through InProcessConn.
type embedded struct {
	cfg      *Config
	password string // of our own connection
	system   string // of our connection to the servers' account, in a cluster
	damaged  string // where a store went that could not be used
	onError  func() // called when the server logs an error
	said     said   // what the server said of the other nodes

	mu   sync.Mutex
	srv  *server.Server // nil while there is none
	addr string         // of the listener, kept over restarts
}

func newEmbedded(cfg *Config) (*embedded, error) {
	if err := durable.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the stream: %w", err)
	}
	return &embedded{cfg: cfg, password: rand.Text(), system: rand.Text(), addr: cfg.ListenAddr}, nil
}

// options of a server. SyncAlways is off: one flush a message would bound the
// rate, and the log heals the stream.
func (e *embedded) options() (*server.Options, error) {
	o := &server.Options{
		ServerName:             "counterfoil",
		DontListen:             true,
		NoLog:                  true,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               e.cfg.Dir,
		SyncInterval:           e.cfg.SyncInterval,
		DisableJetStreamBanner: true,
		JetStreamMaxMemory:     256 << 20, // consumers of tails only
		// The disk decides what fits, not an estimate made at start.
		JetStreamMaxStore: 1 << 60,
		MaxPayload:        1 << 20,
	}
	if err := addAccounts(o, e.cfg, e.password, e.system); err != nil {
		return nil, err
	}
	if e.cfg.Cluster != nil {
		if err := e.cfg.Cluster.join(o); err != nil {
			return nil, err
		}
	}
	if e.cfg.ListenAddr == "" {
		return o, nil
	}
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", e.addr, err)
	}
	if o.Port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("listen address %q: port is not a number", e.addr)
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.Host, o.DontListen = host, false
	return o, nil
}

// start runs a server and waits until it is ready. A store that the server
// cannot use is moved out of the way, and the messages in it are salvaged; Heal
// makes the rest again from the log. Nothing is deleted.
func (e *embedded) start(ctx context.Context) error {
	if err := e.ready(); err != nil {
		return err
	}
	if e.cfg.Cluster != nil {
		return e.startNode(ctx)
	}
	kept, err := e.keep()
	if err != nil {
		return err
	}
	there := kept > 0 || e.hasStream()
	srv, err := e.launch(ctx)
	if err == nil && there {
		var found bool
		if _, found, err = streamState(srv, e.cfg.Name); err == nil && !found {
			err = errUnread
		}
		if err != nil {
			shutdown(srv)
		}
	}
	if errors.Is(err, errStore) {
		if err := e.setStoreAside(err, kept > 0); err != nil {
			return err
		}
		srv, err = e.launch(ctx)
	}
	if err != nil {
		return err
	}
	e.use(srv)
	return nil
}

// startOver runs a server on an empty store, after the stream could not even be
// created on what was salvaged.
func (e *embedded) startOver(ctx context.Context, cause error) error {
	if srv := e.take(); srv != nil {
		shutdown(srv)
	}
	if err := e.setStoreAside(fmt.Errorf("%w: %w", errStore, cause), false); err != nil {
		return err
	}
	srv, err := e.launch(ctx)
	if err != nil {
		return err
	}
	e.use(srv)
	return nil
}

var (
	errStore  = errors.New("the store of the stream cannot be used")
	errUnread = fmt.Errorf("%w: the server could not open the stream in it", errStore)
)

// launch runs a server until it is ready. errStore is the error if JetStream
// does not start.
func (e *embedded) launch(ctx context.Context) (*server.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	o, err := e.options()
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("embedded stream server: %w", err)
	}
	log := &serverLog{next: e.cfg.Logger, onError: e.onError, said: &e.said}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start() // reads the store
	for {
		fatal := log.fatal()
		switch {
		case !srv.JetStreamEnabled(), fatal != nil && strings.Contains(fatal.Error(), "JetStream"):
			err = errors.Join(errStore, fatal)
		case fatal != nil && e.cfg.Cluster != nil && strings.Contains(fatal.Error(), "router port"):
			err = fmt.Errorf("%w (hint: does another node or program listen on %s? Choose another --cluster-listen, and name it in the others' --routes)", fatal, e.cfg.Cluster.Listen)
		case fatal != nil:
			err = fatal
		case ctx.Err() != nil:
			err = ctx.Err()
		case srv.ReadyForConnections(startPoll):
			return srv, nil
		default:
			continue
		}
		shutdown(srv)
		return nil, fmt.Errorf("embedded stream server in %s did not start: %w", e.cfg.Dir, err)
	}
}

// use makes srv the server that connections go to.
func (e *embedded) use(srv *server.Server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.srv = srv
	if e.cfg.ListenAddr != "" {
		e.addr = srv.Addr().String()
	}
}

// take takes the server out of use; nil if there is none.
func (e *embedded) take() *server.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	srv := e.srv
	e.srv = nil
	return srv
}

func (e *embedded) current() *server.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.srv
}

func shutdown(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// stop ends the server within ctx.
func (e *embedded) stop(ctx context.Context) error {
	srv := e.take()
	if srv == nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if e.cfg.Cluster != nil {
			e.handOver(ctx, srv)
		}
		shutdown(srv)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the embedded stream server is still stopping: %w", ctx.Err())
	}
}

var errNoServer = errors.New("the embedded stream server is not running")

// InProcessConn connects to the current server.
func (e *embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv == nil {
		return nil, errNoServer
	}
	return e.srv.InProcessConn()
}

// url is where external consumers connect.
func (e *embedded) url() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cfg.ListenAddr == "" {
		return ""
	}
	return "nats://" + e.addr
}

// streamState asks a server, not a connection, what a stream holds.
func streamState(srv *server.Server, name string) (st State, found bool, err error) {
	d, err := srv.JszAccount(&server.JSzOptions{Account: account, Streams: true})
	if err != nil {
		return State{}, false, fmt.Errorf("streams of the embedded server: %w", err)
	}
	for _, s := range d.Streams {
		if s.Name == name {
			return State{First: s.State.FirstSeq, Last: s.State.LastSeq, Messages: s.State.Msgs, Deleted: uint64(s.State.NumDeleted)}, true, nil
		}
	}
	return State{}, false, nil
}

// trouble is why the server cannot store, nil if nothing is known.
func (e *embedded) trouble() error {
	srv := e.current()
	switch {
	case srv == nil:
		return errNoServer
	case !srv.Running(), !srv.JetStreamEnabled():
		return errors.New("the stream's server disabled itself")
	}
	h := srv.Healthz(&server.HealthzOptions{Account: account, Stream: e.cfg.Name})
	if h.Status != "ok" && e.cfg.Cluster != nil && !strings.Contains(h.Error, "write error") {
		return nil // what else there is passes by itself, with the others' help
	}
	if h.Status != "ok" {
		return errors.New(h.Error)
	}
	return nil
}
