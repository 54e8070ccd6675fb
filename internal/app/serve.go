package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/mcp"
	"counterfoil/internal/rpc"
)

const (
	// waitLimit bounds how long a call waits for its stage.
	waitLimit = 30 * time.Second
	// drainLimit bounds how long a stop waits for calls in flight.
	drainLimit = 20 * time.Second
)

// Ready is what a ledger says of itself once it answers calls.
type Ready struct {
	Listening string // base URL
	Data      string // data directory, absolute
	Origin    string // name of the log
}

// Server is a ledger with its HTTP surface.
type Server struct {
	Ledger *Ledger
	Ready  Ready
	Token  string

	api   *api.Server
	http  *http.Server
	last  *lastCalls
	ended chan error
}

// Start opens the ledger and listens.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	l, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{Ledger: l, ended: make(chan error, 1)}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return s, nil
}

func (s *Server) listen() (err error) {
	l := s.Ledger
	if s.Token, err = secretFile(l.paths.token(), l.cfg.Random); err != nil {
		return err
	}
	l.observeStage = l.metrics.Stage
	door, err := l.openDoor(s.Token)
	if err != nil {
		return err
	}
	handler := api.New(api.Config{
		Tokens: door.tokens, PerToken: door.perToken, PerAddress: door.perAddress, Hosts: door.hosts,
		Ledger: l, Views: l.Views(), Archive: l.Archive(), LogDir: l.paths.log(), Checkpoint: l.checkpoint, Witnessed: l.witnessedCheckpoint,
		Cluster: l.clusterView(), RemoveNode: l.nodeRemover(), Metrics: l.metrics.Handler(), Routed: l.trace.Routed(), Observe: l.metrics.Request, Now: l.cfg.Now, Logger: l.log, WaitLimit: waitLimit,
	})
	s.api = handler
	rpc.Add(handler)
	judgeBy, err := mcp.TrustFile(l.cfg.MCPTrust)
	if err != nil {
		return err
	}
	agents := mcp.New(mcp.Config{Ledger: mcp.Local{Server: handler}, Version: l.cfg.Version, Trust: judgeBy, ExternalURL: l.cfg.ExternalURL, Logger: l.log})
	agents.Mount(handler)
	ln, err := net.Listen("tcp", l.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w (hint: another ledger? choose --listen 127.0.0.1:0 for any free port)", err)
	}
	l.setURL("http://" + ln.Addr().String())
	s.Ready = Ready{Listening: "http://" + ln.Addr().String(), Data: l.cfg.Dir, Origin: l.id.Origin}
	s.http, s.last = httpServer(l.trace.Handler(handler)), newLastCalls()
	s.last.serve(s.http)
	s.http.RegisterOnShutdown(handler.EndStreams)
	s.http.RegisterOnShutdown(agents.Close)
	l.running.Go(func() { door.tokens.Run(l.run) })
	go func() { s.ended <- s.http.Serve(ln) }()
	l.log.Info("the ledger is ready", "listening", s.Ready.Listening, "data", l.cfg.Dir, "origin", l.id.Origin,
		"durability", l.cfg.Durability, "tenant", l.id.Tenant, "nats", natsName(l.cfg))
	return nil
}

func natsName(c Config) string {
	if c.NATS == "" {
		return "embedded"
	}
	return "external"
}

// Stop stops in order: unready, the last callers are told so, no new calls, what
// is in flight becomes durable and is answered, then everything closes. ctx bounds
// it.
func (s *Server) Stop(ctx context.Context) error {
	s.Ledger.drain()
	s.last.wait(ctx)
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(fmt.Errorf("calls in flight did not end within %s", drainLimit), s.http.Close())
	}
	return errors.Join(err, s.Ledger.Close(ctx))
}

// Serve runs a ledger until ctx ends, which is no error. It calls ready once,
// when calls are answered; an error of ready stops the ledger and is returned.
// A part of the ledger that ends for good ends Serve with its error: a new start
// repeats all checks and heals what can be healed.
func Serve(ctx context.Context, cfg Config, ready func(Ready) error) error {
	s, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	if err = ready(s.Ready); err == nil {
		select {
		case <-ctx.Done():
			s.Ledger.log.Info("stopping")
		case err = <-s.ended:
		case err = <-s.Ledger.failed:
		}
	}
	return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
}
