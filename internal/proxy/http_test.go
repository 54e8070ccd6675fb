package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/proxy"
	"counterfoil/internal/proxy/streamable"
	"counterfoil/ledger/client"
)

// inFront runs the proxy before an HTTP server.
func (l *ledger) inFront(upstream string, change ...func(*proxy.Config, *streamable.Config)) *httptest.Server {
	l.t.Helper()
	cl, err := client.New(client.Config{Server: "http://" + l.cfg.Listen, Token: l.Token, Retries: -1})
	if err != nil {
		l.t.Fatal(err)
	}
	u, err := url.Parse(upstream)
	if err != nil {
		l.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	pc := proxy.Config{Ledger: cl, State: l.t.TempDir(), Random: rand.Reader, Now: time.Now, Log: log, Patience: 10 * time.Second}
	sc := streamable.Config{Upstream: u, Loopback: true, Log: log}
	for _, f := range change {
		f(&pc, &sc)
	}
	e, err := proxy.Open(pc)
	if err != nil {
		l.t.Fatal(err)
	}
	sc.Traffic, sc.Trace = e.Traffic, e.Name
	h := streamable.New(sc)
	srv := httptest.NewServer(h)
	var once sync.Once
	srv.Config.RegisterOnShutdown(func() {}) // so that Close below is the only end
	l.t.Cleanup(func() {
		once.Do(func() {
			srv.CloseClientConnections()
			srv.Close()
			h.Close()
			cl.Close()
			if err := e.Close(); err != nil {
				l.t.Error(err)
			}
		})
	})
	return srv
}

type greeting struct {
	Name string `json:"name"`
}

func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(ctx context.Context, req *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, any, error) {
		if in.Name == "" {
			return nil, nil, fmt.Errorf("nobody to greet")
		}
		if tok := req.Params.GetProgressToken(); tok != nil {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: tok, Progress: 1})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi " + in.Name}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "large"}, func(_ context.Context, _ *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", 5<<20)}}}, nil, nil
	})
	return s
}

// TestTheOfficialClientAndServerSpeakThroughTheProxy uses both revisions,
// and both forms of answers.
func TestTheOfficialClientAndServerSpeakThroughTheProxy(t *testing.T) {
	for _, c := range []struct {
		version string
		opts    mcp.StreamableHTTPOptions
	}{
		{"2025-11-25", mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}},
		{"2025-11-25", mcp.StreamableHTTPOptions{JSONResponse: true}},
		{"2026-07-28", mcp.StreamableHTTPOptions{Stateless: true}},
		{"2026-07-28", mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}},
	} {
		t.Run(fmt.Sprintf("%s/json=%v", c.version, c.opts.JSONResponse), func(t *testing.T) {
			l := startLedger(t)
			s := sdkServer()
			upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &c.opts))
			defer upstream.Close()
			front := l.inFront(upstream.URL + "/mcp")
			cl := mcp.NewClient(&mcp.Implementation{Name: "sdk-client", Version: "2"}, nil)
			session, err := cl.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: front.URL + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: c.version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			params := &mcp.CallToolParams{Name: "greet", Arguments: greeting{"you"}}
			if c.version == "2025-11-25" {
				params.SetProgressToken("p")
			}
			res, err := session.CallTool(t.Context(), params)
			if err != nil || len(res.Content) != 1 || res.Content[0].(*mcp.TextContent).Text != "hi you" {
				t.Fatalf("got %+v, %v", res, err)
			}
			if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: greeting{}}); err != nil || !res.IsError {
				t.Fatalf("got %+v, %v", res, err)
			}
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "none"}); err == nil {
				t.Fatal("an unknown tool is no error")
			}
			if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "large"}); err != nil || len(res.Content[0].(*mcp.TextContent).Text) != 5<<20 {
				t.Fatal(err)
			}
			l.wantCalls("greet succeeded", "greet failed tool_error", "none failed protocol_error", "large succeeded")
			l.wantContracts("mcp/sdk/greet", "mcp/sdk/large", "mcp/sdk")
			for _, r := range l.receipts(url.Values{"kind": {"tool_action"}, "lifecycle": {"attempt"}}) {
				want := []string{"agent:sdk-client@2", "mcp/" + c.version, "sdk@1"}
				if got := []string{r.Source.AgentID, r.Source.Protocol, r.Source.Implementation}; !cmp.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
}

// wire is a server that answers with exact bytes, and keeps what it got.
type wire struct {
	mu     sync.Mutex
	heads  []http.Header
	bodies []string
	answer func(w http.ResponseWriter, r *http.Request, body string)
}

func (s *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	h := r.Header.Clone()
	h.Set("X-Line", r.Method+" "+r.RequestURI)
	s.mu.Lock()
	s.heads, s.bodies = append(s.heads, h), append(s.bodies, string(b))
	s.mu.Unlock()
	s.answer(w, r, string(b))
}

func (s *wire) got() ([]http.Header, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heads, s.bodies
}

func do(t testing.TB, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

const postedCall = ` { "id" : 1, "method":"tools/call", "params":{"name":"echo","arguments":{"n":1e999}}} `

func TestEVI22_HTTPPassesUntouched(t *testing.T) {
	l := startLedger(t)
	events := ": hello\r\n\r\nid: 1\r\nretry: 5\r\ndata:\r\n\r\n" +
		"event: message\nid: 2\ndata: {\"jsonrpc\":\"2.0\",\ndata:\"method\":\"notifications/message\"}\n\n" +
		"id: 3\rdata: {\"id\":1.0,\"result\":{\"n\":1e999}}\r\r: bye\n"
	w := &wire{answer: func(w http.ResponseWriter, r *http.Request, body string) {
		w.Header().Set("X-Server", "a")
		w.Header().Add("X-Server", "b")
		w.Header().Set("Keep-Alive", "timeout=1")
		switch {
		case strings.Contains(body, "tools/call"):
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_, _ = io.WriteString(w, events)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "{ \"odd\" : 1 }\n")
		}
	}}
	upstream := httptest.NewServer(w)
	defer upstream.Close()
	front := l.inFront(upstream.URL + "/mcp")
	const secret = "Bearer CANARY-7f3a9c51e2"
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/mcp?a=%2F&b", postedCall},
		{"POST", "/mcp", "this is no JSON"},
		{"GET", "/.well-known/oauth-protected-resource/mcp", ""},
		{"DELETE", "/mcp", ""},
		{"OPTIONS", "/a%2Fb", ""},
	} {
		header := []string{"Authorization", secret, "Mcp-Session-Id", "s-1", "Mcp-Protocol-Version", "2025-11-25", "Last-Event-Id", "7", "X-Odd", "ä", "Accept-Encoding", "identity", "Connection", "X-Hop", "X-Hop", "1"}
		direct, want := do(t, c.method, upstream.URL+c.path, c.body, header...)
		through, got := do(t, c.method, front.URL+c.path, c.body, header...)
		direct.Header.Del("Keep-Alive") // of one connection
		direct.Header.Del("Date")
		through.Header.Del("Date")
		if got != want || direct.StatusCode != through.StatusCode || !cmp.Equal(direct.Header, through.Header) {
			t.Errorf("%s %s: got %d %q %v\nwant %d %q %v", c.method, c.path, through.StatusCode, got, through.Header, direct.StatusCode, want, direct.Header)
		}
		heads, bodies := w.got()
		a, b := heads[len(heads)-2], heads[len(heads)-1]
		a.Del("X-Hop")
		a.Del("Connection")
		if !cmp.Equal(a, b) || bodies[len(bodies)-2] != bodies[len(bodies)-1] {
			t.Errorf("%s %s: the server got %v %q\nwant %v %q", c.method, c.path, b, bodies[len(bodies)-1], a, bodies[len(bodies)-2])
		}
	}
	l.wantCalls("echo succeeded")
	front = l.inFront(upstream.URL + "/mcp?key=1")
	for path, want := range map[string]string{"": "/mcp?key=1", "/": "/mcp?key=1", "/mcp": "/mcp?key=1", "/mcp?a": "/mcp?a", "/x": "/x"} {
		do(t, "GET", front.URL+path, "")
		if heads, _ := w.got(); heads[len(heads)-1].Get("X-Line") != "GET "+want {
			t.Errorf("%s is %s, want %s", path, heads[len(heads)-1].Get("X-Line"), want)
		}
	}
}

func TestOPR08_WhatHTTPAnswersMean(t *testing.T) {
	l := startLedger(t)
	next := make(chan func(w http.ResponseWriter), 1)
	w := &wire{answer: func(w http.ResponseWriter, _ *http.Request, _ string) { (<-next)(w) }}
	upstream := httptest.NewServer(w)
	defer upstream.Close()
	front := l.inFront(upstream.URL)
	status := func(code int, kind, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	var want []string
	for _, c := range []struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		{status(200, "application/json", `{"id":1,"result":{"isError":true}}`), "failed tool_error"},
		{status(200, "application/json", `[{"id":2,"result":{}},{"id":1,"error":{"code":-32000}}]`), "failed protocol_error"},
		{status(200, "application/json", `{"id":2,"result":{}}`), "unknown response_missing"},
		{status(200, "text/plain", `hello`), "unknown response_missing"},
		{status(202, "text/plain", ``), "unknown response_missing"},
		{status(400, "application/json", `{"id":1,"error":{"code":-32602}}`), "failed protocol_error"},
		{status(404, "text/plain", `no such session`), "failed protocol_error"},
		{status(401, "text/plain", ``), "failed access_denied"},
		{status(500, "text/plain", `oops`), "unknown response_missing"},
		{status(504, "text/html", `<html>`), "unknown timeout"},
		{status(307, "text/plain", ``), "unknown response_missing"},
		{status(200, "text/event-stream", "data: {\"id\":7}\n\n"), "unknown connection_lost"},
		{status(200, "text/event-stream", "id: 7\ndata: {\"id\":1,\"result\":{}}\n"), "unknown connection_lost"},
		{func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "unknown connection_lost"},
	} {
		next <- c.answer
		do(t, "POST", front.URL, postedCall)
		want = append(want, "echo "+c.want)
	}
	l.wantCalls(want...)
	// A client reads a stream that breaks off as one.
	next <- func(w http.ResponseWriter) {
		status(200, "text/event-stream", "data: {\"id\":1,")(w)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	res, err := http.Post(front.URL, "application/json", strings.NewReader(postedCall))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err == nil || string(b) != "data: {\"id\":1," {
		t.Errorf("got %q, %v", b, err)
	}
	l.wantCalls(append(want, "echo unknown connection_lost")...)
}

func TestOPR07_OverHTTPNothingIsSentWithoutEvidence(t *testing.T) {
	l := startLedger(t)
	w := &wire{answer: func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":1,"result":{}}`)
	}}
	upstream := httptest.NewServer(w)
	front := l.inFront(upstream.URL, func(p *proxy.Config, _ *streamable.Config) { p.Patience = 300 * time.Millisecond })
	l.stop()
	res, body := do(t, "POST", front.URL, postedCall)
	refused(t, body)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v", res.StatusCode, res.Header)
	}
	if res, _ := do(t, "POST", front.URL, `{"method":"tools/call"}`); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d", res.StatusCode)
	}
	if _, body := do(t, "POST", front.URL, `{"id":1,"method":"ping"}`); body != `{"id":1,"result":{}}` {
		t.Errorf("got %s", body)
	}
	if _, bodies := w.got(); len(bodies) != 1 {
		t.Errorf("the server got %q", bodies)
	}
	l.start()
	l.wantCalls("echo not_started not_dispatched", "unnamed not_started not_dispatched")
	upstream.Close() // nobody listens: not started either
	if res, _ := do(t, "POST", front.URL, postedCall); res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d", res.StatusCode)
	}
	l.wantCalls("echo not_started not_dispatched", "unnamed not_started not_dispatched", "echo not_started not_dispatched")
}

func TestEVI09_AnswersAreFoundOnTheStreamThatIsResumed(t *testing.T) {
	l := startLedger(t)
	w := &wire{}
	w.answer = func(w http.ResponseWriter, r *http.Request, body string) {
		switch {
		case strings.Contains(body, `"initialize"`):
			w.Header().Set("Mcp-Session-Id", "s-1")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":0,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"wire","version":"1"}}}`)
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 7\ndata:\n\n") // come back for it
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			if r.Header.Get("Last-Event-Id") == "7" {
				_, _ = io.WriteString(w, "id: 8\ndata: {\"id\":1,\"result\":{}}\n\n")
			}
		}
	}
	upstream := httptest.NewServer(w)
	defer upstream.Close()
	front := l.inFront(upstream.URL)
	do(t, "POST", front.URL, hello)
	do(t, "POST", front.URL, postedCall, "Mcp-Session-Id", "s-1")
	do(t, "POST", front.URL, postedCall) // without a session nobody can come back
	l.wantCalls("echo", "echo unknown connection_lost")
	do(t, "GET", front.URL, "", "Mcp-Session-Id", "s-2", "Last-Event-Id", "7") // another session
	do(t, "GET", front.URL, "", "Mcp-Session-Id", "s-1")
	l.wantCalls("echo", "echo unknown connection_lost")
	_, body := do(t, "GET", front.URL, "", "Mcp-Session-Id", "s-1", "Last-Event-Id", "7")
	if !strings.Contains(body, `"id":1`) {
		t.Errorf("got %s", body)
	}
	l.wantCalls("echo succeeded", "echo unknown connection_lost")
	do(t, "POST", front.URL, strings.Replace(postedCall, ": 1,", ": 2,", 1), "Mcp-Session-Id", "s-1")
	do(t, "DELETE", front.URL, "", "Mcp-Session-Id", "s-1")
	l.wantCalls("echo succeeded", "echo unknown connection_lost", "echo unknown connection_lost")
	for _, r := range l.receipts(url.Values{"lifecycle": {"attempt"}}) {
		if r.Source.Implementation != "wire@1" {
			t.Errorf("the server is %s", r.Source.Implementation)
		}
	}
}

// In the stateless protocol a client cancels by closing the stream of its call.
func TestEVI09_AClosedStreamIsCancelledOrLost(t *testing.T) {
	l := startLedger(t)
	w := &wire{answer: func(w http.ResponseWriter, r *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": working\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}}
	upstream := httptest.NewServer(w)
	defer upstream.Close()
	front := l.inFront(upstream.URL)
	var want []string
	for version, reason := range map[string]string{"2026-07-28": "cancelled", "2025-11-25": "connection_lost"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", front.URL, strings.NewReader(postedCall))
		req.Header.Set("Mcp-Protocol-Version", version)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); line != ": working\n" || err != nil {
			t.Errorf("a comment does not pass at once: %q, %v", line, err)
		}
		cancel()
		res.Body.Close()
		want = append(want, "echo unknown "+reason)
		l.wantCalls(want...)
	}
}

func TestEVI04_PagesOfOthersDoNotReachTheProxy(t *testing.T) {
	l := startLedger(t)
	w := &wire{answer: func(http.ResponseWriter, *http.Request, string) {}}
	upstream := httptest.NewServer(w)
	defer upstream.Close()
	front := l.inFront(upstream.URL)
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"", "", 200}, {"localhost:1", "http://localhost:6274", 200}, {"[::1]", "https://127.0.0.1", 200},
		{"evil.example", "", 403}, {"", "https://evil.example", 403}, {"", "null", 403}, {"127.0.0.1.evil.example", "", 403}, {"localhost.evil.example", "", 403},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", front.URL, strings.NewReader("{}"))
		if c.host != "" {
			req.Host = c.host
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != c.want {
			t.Errorf("host %q, origin %q: %d, want %d", c.host, c.origin, res.StatusCode, c.want)
		}
	}
	if res, _ := do(t, "POST", front.URL, "x", "Content-Encoding", "gzip"); res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("got %d", res.StatusCode)
	}
	if _, bodies := w.got(); len(bodies) != 3 {
		t.Errorf("the server got %q", bodies)
	}
}

func TestHTTPBodiesAreBounded(t *testing.T) {
	l := startLedger(t)
	big := bytes.Repeat([]byte("x"), 5000)
	w := &wire{answer: func(w http.ResponseWriter, r *http.Request, body string) {
		if body == "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: %s\n\n", big)
			return
		}
		_, _ = w.Write(big)
	}}
	upstream := httptest.NewServer(w)
	defer upstream.Close()
	front := l.inFront(upstream.URL, func(_ *proxy.Config, s *streamable.Config) { s.MaxMessage = 4096 })
	if res, _ := do(t, "POST", front.URL, string(big)); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d", res.StatusCode)
	}
	if _, body := do(t, "POST", front.URL, postedCall); body != string(big) {
		t.Errorf("an answer above the bound does not pass: %d bytes", len(body))
	}
	l.wantCalls("echo unknown response_missing")
	if _, bodies := w.got(); len(bodies) != 1 {
		t.Errorf("the server got %d requests", len(bodies))
	}
}
