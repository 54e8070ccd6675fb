package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"counterfoil/internal/proxy"
	"counterfoil/internal/proxy/streamable"
)

// proxyReady is the line that proxy prints in front of an HTTP server.
type proxyReady struct {
	Listening string `json:"listening"`
	Upstream  string `json:"upstream"` // without its query, which may hold a secret
}

// stopWithin bounds how long requests may end by themselves.
const stopWithin = 5 * time.Second

func (c *cli) proxyHTTP(ctx context.Context, p *proxyFlags) error {
	upstream, err := url.Parse(p.upstream)
	if err != nil || upstream.Scheme != "http" && upstream.Scheme != "https" || upstream.Host == "" || upstream.User != nil || upstream.Fragment != "" {
		return usagef("--upstream https://mcp.example/mcp", "--upstream is not an http or https URL without a user and a fragment")
	}
	host, _, err := net.SplitHostPort(p.listen)
	if err != nil {
		return usagef("--listen 127.0.0.1:9480", "--listen %q is not an address with a port", p.listen)
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && !p.allowRemote {
		return usagef("--allow-remote, behind something that encrypts", "--listen %q is not a loopback address", p.listen)
	}
	e, err := c.evidence(p, []string{p.upstream})
	if err != nil {
		return err
	}
	err = c.serveProxy(ctx, p, e, upstream, loopback)
	return errors.Join(err, e.Close())
}

func (c *cli) serveProxy(ctx context.Context, p *proxyFlags, e *proxy.Evidence, upstream *url.URL, loopback bool) error {
	log, err := c.logger(p.level)
	if err != nil {
		return err
	}
	h := streamable.New(streamable.Config{Upstream: upstream, Traffic: e.Traffic, Trace: e.Name, MaxMessage: p.maxMessage, Async: p.async, Loopback: loopback, Log: log})
	ln, err := net.Listen("tcp", p.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 20,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	shown := url.URL{Scheme: upstream.Scheme, Host: upstream.Host, Path: upstream.Path}
	if err = c.printJSON(proxyReady{"http://" + ln.Addr().String() + upstream.Path, shown.String()}); err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
		}
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if serr := srv.Shutdown(stop); serr != nil { // streams do not end by themselves
		_ = srv.Close()
	}
	h.Close()
	return err
}
