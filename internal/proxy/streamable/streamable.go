// Package streamable stands between clients and a server that speak MCP over
// streamable HTTP. It is a reverse proxy of one origin: method, path, query,
// headers and bodies pass as they were received, hop-by-hop headers and
// Accept-Encoding excepted, and what the server answers passes as it answers.
//
// A POST with a tools/call waits for its evidence. An answer in a JSON body, or
// in an event of a stream, waits for its outcome; the rest of a stream passes
// line by line. Sessions are told apart by Mcp-Session-Id, so that an answer is
// found on whichever stream it comes. Credentials pass and are kept nowhere.
package streamable

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"counterfoil/internal/proxy/traffic"
)

// Headers of the transport.
const (
	headerSession  = "Mcp-Session-Id"
	headerProtocol = "Mcp-Protocol-Version"
)

// statelessSince is the first protocol in which a stream that the client closes
// cancels its call.
const statelessSince = "2026-07-28"

// resumeWithin bounds how long a call stays open whose stream has ended and may
// be resumed.
const resumeWithin = 5 * time.Minute

// DefaultMaxMessage bounds a body, and an event of a stream.
const DefaultMaxMessage = 64 << 20

// maxMessages bounds the messages that are passed on, or answered, at one time.
const maxMessages = 1024

// Config says what to stand between.
type Config struct {
	// Upstream is the server's endpoint, like https://mcp.example/mcp.
	Upstream *url.URL
	Traffic  *traffic.Config
	// Trace makes the trace id of a session.
	Trace func() (string, error)
	// MaxMessage bounds a body in bytes; default DefaultMaxMessage.
	MaxMessage int
	// Async passes answers on without waiting for their outcomes.
	Async bool
	// Loopback admits requests to this machine alone, by name: a page in a
	// browser cannot reach it by another.
	Loopback bool
	Log      *slog.Logger
}

// Handler is the proxy. It is safe for concurrent use.
type Handler struct {
	cfg       Config
	transport *http.Transport
	sessions  sessions
	running   sync.WaitGroup
	server    atomic.Pointer[string] // the server as it named itself last
	slots     chan struct{}          // bounds the messages that are passed on at one time
}

// New makes a handler.
func New(cfg Config) *Handler {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = DefaultMaxMessage
	}
	h := &Handler{cfg: cfg, slots: make(chan struct{}, maxMessages), transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
	}}
	h.sessions.byID = map[string]*session{}
	return h
}

// Close waits for the requests that run, and ends the calls that are open as
// unknown. The caller has closed their connections.
func (h *Handler) Close() {
	h.running.Wait()
	h.transport.CloseIdleConnections()
	h.sessions.end()
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.running.Add(1)
	defer h.running.Done()
	if h.cfg.Loopback && !fromHere(r) {
		http.Error(w, "counterfoil: the proxy serves this machine alone, under a name of it", http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r)
	default:
		h.other(w, r)
	}
}

// fromHere reports whether a request names this machine as its host, and comes
// from no page of another.
func fromHere(r *http.Request) bool {
	if !loopback(r.Host) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && loopback(u.Host)
}

func loopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// post passes a message on.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		http.Error(w, "counterfoil: a body with a Content-Encoding cannot be recorded", http.StatusUnsupportedMediaType)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		http.Error(w, "counterfoil: too many messages at once", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.cfg.MaxMessage)))
	if err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			http.Error(w, fmt.Sprintf("counterfoil: a message is over %d bytes", over.Limit), http.StatusRequestEntityTooLarge)
		}
		return // or the client is gone: nothing was sent
	}
	s, err := h.session(r)
	if err != nil {
		h.cfg.Log.Error("a session cannot be followed", "error", err.Error())
		http.Error(w, "counterfoil: the session cannot be followed", http.StatusServiceUnavailable)
		return
	}
	defer h.sessions.release(s)
	x := &exchange{h: h, w: w, r: r, s: s, packet: traffic.Read(body)}
	x.run(body)
}

// other passes on what is no message: the stream of a session, its end, and
// whatever else the server serves.
func (h *Handler) other(w http.ResponseWriter, r *http.Request) {
	res, _, err := h.forward(r, r.Body)
	if err != nil {
		badGateway(w, r)
		return
	}
	defer res.Body.Close()
	id := r.Header.Get(headerSession)
	if id != "" && r.Method == http.MethodDelete && res.StatusCode < 300 {
		h.sessions.drop(id)
	}
	if r.Method != http.MethodGet || !isStream(res) {
		copyHeader(w, res)
		_, _ = io.Copy(w, res.Body)
		return
	}
	s, err := h.session(r)
	if err != nil {
		h.cfg.Log.Error("a session cannot be followed", "error", err.Error())
		return
	}
	defer h.sessions.release(s)
	x := &exchange{h: h, w: w, r: r, s: s, packet: traffic.Read(nil)}
	copyHeader(w, res)
	x.stream(res.Body)
}

// forward sends a request to the server. sent is false if nothing of it can have
// arrived there.
func (h *Handler) forward(r *http.Request, body io.Reader) (res *http.Response, sent bool, err error) {
	u := h.target(r.URL)
	var wrote atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	out, err := http.NewRequestWithContext(ctx, r.Method, u.String(), body)
	if err != nil {
		return nil, false, err
	}
	if r.Method != http.MethodPost {
		out.ContentLength = r.ContentLength
		if r.ContentLength == 0 {
			out.Body = nil
		}
	}
	out.Header = r.Header.Clone()
	dropHops(out.Header)
	// What is compressed cannot be recorded.
	out.Header.Set("Accept-Encoding", "identity")
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // none is passed on, not this program's
	}
	res, err = h.transport.RoundTrip(out)
	return res, wrote.Load(), err
}

// target is the server's address for a path of the proxy: the same, and the
// endpoint for the root. The endpoint's own query goes where none is given.
func (h *Handler) target(asked *url.URL) url.URL {
	u := *h.cfg.Upstream
	if asked.Path != "" && asked.Path != "/" && asked.EscapedPath() != u.EscapedPath() {
		u.Path, u.RawPath, u.RawQuery = asked.Path, asked.RawPath, ""
	}
	if asked.RawQuery != "" {
		u.RawQuery = asked.RawQuery
	}
	return u
}

// hops are headers that concern one connection.
var hops = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func dropHops(header http.Header) {
	for _, list := range header["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hops {
		header.Del(name)
	}
}

// copyHeader writes status and headers as the server sent them.
func copyHeader(w http.ResponseWriter, res *http.Response) {
	dropHops(res.Header)
	maps.Copy(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
}

func badGateway(w http.ResponseWriter, r *http.Request) {
	if r.Context().Err() == nil {
		http.Error(w, "counterfoil: no answer from the server", http.StatusBadGateway)
	}
}

func mediaType(res *http.Response) string {
	t, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

func isStream(res *http.Response) bool { return mediaType(res) == "text/event-stream" }
