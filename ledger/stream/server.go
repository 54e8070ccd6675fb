package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"counterfoil/internal/durable"
)

const (
	ownUser = "counterfoil"
	// startPoll is how often a starting server is asked whether it is ready.
	startPoll = 10 * time.Millisecond
	// startTimeout bounds a start whose context has no deadline: recovery reads
	// at most the blocks whose state was not written at the last stop.
	startTimeout = 2 * time.Minute
)

// embedded is a NATS server in this process. It handles no signals and writes
// to its logger only. One server follows another when it has to be restarted;
// the connection finds the current one through InProcessConn.
type embedded struct {
	cfg      *Config
	password string // of our own connection

	mu   sync.Mutex
	srv  *server.Server // nil while there is none
	addr string         // of the listener, kept over restarts
}

func newEmbedded(cfg *Config) (*embedded, error) {
	if err := durable.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the stream: %w", err)
	}
	return &embedded{cfg: cfg, password: rand.Text(), addr: cfg.ListenAddr}, nil
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
	o.Users = users(e.cfg, e.password)
	return o, nil
}

// start runs a server and waits until it is ready.
func (e *embedded) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	o, err := e.options()
	if err != nil {
		return err
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("embedded stream server: %w", err)
	}
	last := &lastError{next: e.cfg.Logger}
	srv.SetLoggerV2(last, false, false, false)
	srv.Start()
	for {
		if srv.ReadyForConnections(startPoll) && srv.JetStreamEnabled() {
			break
		}
		if err := ctx.Err(); err != nil || !srv.Running() {
			srv.Shutdown()
			srv.WaitForShutdown()
			return fmt.Errorf("embedded stream server in %s did not start: %w", e.cfg.Dir, errors.Join(err, last.get()))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.srv = srv
	if !o.DontListen {
		e.addr = srv.Addr().String()
	}
	return nil
}

// stop ends the server within ctx.
func (e *embedded) stop(ctx context.Context) error {
	e.mu.Lock()
	srv := e.srv
	e.srv = nil
	e.mu.Unlock()
	if srv == nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the embedded stream server is still stopping: %w", ctx.Err())
	}
}

var errNoServer = errors.New("the embedded stream server is restarting")

// InProcessConn connects to the current server.
func (e *embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv == nil {
		return nil, errNoServer
	}
	return e.srv.InProcessConn()
}

func (e *embedded) url() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cfg.ListenAddr == "" {
		return ""
	}
	return "nats://" + e.addr
}

// lastError passes the server's log on and keeps the last error, since a server
// that cannot start says why only there.
type lastError struct {
	next *slog.Logger
	mu   sync.Mutex
	err  error
}

func (l *lastError) get() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *lastError) keep(format string, v []any) string {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	l.err = errors.New(text)
	l.mu.Unlock()
	return text
}

const serverLog = "stream server"

func (l *lastError) Noticef(format string, v ...any) {
	l.next.Debug(serverLog, "text", fmt.Sprintf(format, v...))
}
func (l *lastError) Debugf(format string, v ...any) {
	l.next.Debug(serverLog, "text", fmt.Sprintf(format, v...))
}
func (l *lastError) Tracef(string, ...any) {}
func (l *lastError) Warnf(format string, v ...any) {
	l.next.Warn(serverLog, "text", fmt.Sprintf(format, v...))
}
func (l *lastError) Errorf(format string, v ...any) {
	l.next.Error(serverLog, "text", l.keep(format, v))
}
func (l *lastError) Fatalf(format string, v ...any) {
	l.next.Error(serverLog, "text", l.keep(format, v))
}
