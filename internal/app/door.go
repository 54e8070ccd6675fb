package app

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"counterfoil/internal/access"
)

// door is who may come in, how often, and under which name of this machine.
type door struct {
	tokens               *access.Store
	perToken, perAddress *access.Limiter
	hosts                []string // nil for every name
}

func (l *Ledger) openDoor(first string) (*door, error) {
	tokens, err := access.Open(l.paths.tokens(), first, l.log)
	if err != nil {
		return nil, err
	}
	d := &door{tokens: tokens, perToken: access.NewLimiter(l.cfg.RatePerToken), perAddress: access.NewLimiter(l.cfg.RatePerAddress)}
	d.hosts, err = hostNames(l.cfg.Listen, l.cfg.ExternalURL)
	return d, err
}

// hostNames are the names that requests come under. On loopback they are those of
// this machine: the address alone does not keep pages in a browser away, which can
// have their own name resolve to it. Any name may lead to another address, so there
// every name counts unless it is known from outside.
func hostNames(listen, external string) ([]string, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", listen, err)
	}
	names := []string{"localhost", "127.0.0.1", "::1"}
	ip := net.ParseIP(host)
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, nil
	}
	names = append(names, host)
	if external != "" {
		name, err := externalHost(external)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// externalHost is the host of a base URL of the API.
func externalHost(external string) (string, error) {
	u, err := url.Parse(external)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("external URL %q is no base URL (hint: --external-url https://ledger.example)", external)
	}
	return u.Hostname(), nil
}

// maxHeaderBytes bounds the header of a request: a token, a cursor and what proxies
// add have a few KiB. net/http reads 4 KiB more before it refuses.
const maxHeaderBytes = 64 << 10

// headerLimit bounds how long a header may take to arrive; nobody needs a second.
const headerLimit = 10 * time.Second

// httpServer is the server with its bounds: who sends slowly, or nothing, keeps a
// connection for a bounded time alone.
func httpServer(handler http.Handler) *http.Server {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: headerLimit, ReadTimeout: 2 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes, Protocols: new(http.Protocols),
		// Pings find followers that are gone without a word.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true) // gRPC clients, with prior knowledge
	return s
}

// Routes are the patterns and paths of everything that is served on the port, as the
// table of package access names them.
func (s *Server) Routes() []string { return s.api.Routes() }
