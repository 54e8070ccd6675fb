package mcp_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/app"
	"counterfoil/internal/mcp"
	"counterfoil/internal/testkit/outkit"
	"counterfoil/ledger/client"
)

// obj is a decoded JSON object.
type obj = map[string]any

// ledger is a real one, on disk, with its HTTP surface.
type ledger struct {
	*app.Server
	trust string // its trust file
	stop  func()
}

func startLedger(t testing.TB, change ...func(*app.Config)) *ledger {
	t.Helper()
	cfg := app.Config{Dir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", Random: rand.Reader, Now: time.Now,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, c := range change {
		c(&cfg)
	}
	s, err := app.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{s, filepath.Join(t.TempDir(), "trust.json"), sync.OnceFunc(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})}
	t.Cleanup(l.stop)
	if err := os.WriteFile(l.trust, s.Ledger.Trust(), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *ledger) client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Server: l.Ready.Listening, Token: l.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// bearer adds headers to every request.
type bearer struct{ headers map[string]string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, v := range b.headers {
		r.Header.Set(name, v)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// session is a client of the official SDK, and everything that it was sent.
type session struct {
	*sdk.ClientSession
	t       testing.TB
	out     map[string]*jsonschema.Resolved // output schemas as tools/list showed them
	updated chan string                     // URIs of update notifications
	acked   chan struct{}                   // subscriptions that the server said are active
	wire    *outkit.Buffer
}

// The revisions of the protocol: with sessions, and without.
const (
	sessions = "2025-11-25"
	single   = "2026-07-28"
)

// overStdio serves a ledger over pipes, as counterfoil mcp does.
func overStdio(t testing.TB, revision string, cfg mcp.Config) *session {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	server := mcp.New(cfg)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	w := &outkit.Buffer{}
	ended := make(chan error, 1)
	go func() {
		err := server.ServeStdio(context.Background(), in, io.MultiWriter(out, w))
		out.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		toServer.Close()
		if err := <-ended; err != nil && !errors.Is(err, io.ErrClosedPipe) { // the client is gone
			t.Errorf("serve: %v", err)
		}
		server.Close()
	})
	return connect(t, revision, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, w)
}

// overHTTP connects to /mcp of a ledger.
func overHTTP(t testing.TB, revision string, l *ledger, headers ...string) *session {
	t.Helper()
	all := map[string]string{"Authorization": "Bearer " + l.Token}
	for i := 0; i < len(headers); i += 2 {
		all[headers[i]] = headers[i+1]
	}
	return connect(t, revision, &sdk.StreamableClientTransport{Endpoint: l.Ready.Listening + mcp.Path, HTTPClient: &http.Client{Transport: bearer{all}}}, &outkit.Buffer{})
}

func connect(t testing.TB, revision string, transport sdk.Transport, w *outkit.Buffer) *session {
	t.Helper()
	s := &session{t: t, out: map[string]*jsonschema.Resolved{}, updated: make(chan string, 1000), acked: make(chan struct{}, 1000), wire: w}
	c := sdk.NewClient(&sdk.Implementation{Name: "kit", Version: "7"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { s.updated <- r.Params.URI },
	})
	c.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "notifications/subscriptions/acknowledged" {
				s.acked <- struct{}{}
			}
			return next(ctx, method, req)
		}
	})
	var err error
	if s.ClientSession, err = c.Connect(context.Background(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for tool, err := range s.Tools(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.out[tool.Name] = resolve(t, tool.OutputSchema)
	}
	return s
}

func resolve(t testing.TB, from any) *jsonschema.Resolved {
	t.Helper()
	b, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	var js jsonschema.Schema
	if err := json.Unmarshal(b, &js); err != nil {
		t.Fatal(err)
	}
	r, err := js.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// call calls a tool and demands what every answer is: structured content of the
// listed schema, and the same as text.
func (s *session) call(tool string, args any) (answer obj, isError bool) {
	s.t.Helper()
	res, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		s.t.Fatalf("%s %v: an error of the protocol: %v", tool, args, err)
	}
	answer, _ = res.StructuredContent.(obj)
	if answer == nil {
		s.t.Fatalf("%s: no structured content in %+v", tool, res)
	}
	if err := s.out[tool].Validate(answer); err != nil {
		s.t.Errorf("%s: %v does not fit the schema: %v", tool, answer, err)
	}
	if (answer["error"] != nil) != res.IsError {
		s.t.Errorf("%s: isError %v with %v", tool, res.IsError, answer)
	}
	var same obj
	if text, ok := res.Content[0].(*sdk.TextContent); !ok || json.Unmarshal([]byte(text.Text), &same) != nil || fmt.Sprint(same) != fmt.Sprint(answer) {
		s.t.Errorf("%s: the text is not the structured content", tool)
	}
	return answer, res.IsError
}

// must demands an answer.
func (s *session) must(tool string, args any) obj {
	s.t.Helper()
	answer, isError := s.call(tool, args)
	if isError {
		s.t.Fatalf("%s %v: %v", tool, args, answer)
	}
	return answer
}

// refused demands an error with a code, and perhaps a path, and returns it.
func (s *session) refused(tool string, args any, code, path string) obj {
	s.t.Helper()
	answer, _ := s.call(tool, args)
	e, _ := answer["error"].(obj)
	if e["code"] != code || e["message"] == "" || path != "" && e["path"] != path {
		s.t.Fatalf("%s %.200v: %v, want %s at %q", tool, args, answer, code, path)
	}
	return e
}

// beginArgs are arguments of a begin with some replaced; nil leaves one out.
func beginArgs(invocation string, change ...any) obj {
	return changed(obj{"invocationId": invocation, "occurredAt": "2026-07-28T00:00:00.000Z", "privateInput": obj{"n": 1.5},
		"action": obj{"name": "pay", "effectKind": "payment", "effectMode": "one_time"}}, change)
}

func appendArgs(attempt, id, lifecycle, status string, change ...any) obj {
	a := obj{"attemptId": attempt, "sourceEventId": id, "lifecycle": lifecycle, "occurredAt": "2026-07-28T00:00:01.000Z"}
	if status != "" {
		a["status"] = status
	}
	return changed(a, change)
}

func changed(a obj, change []any) obj {
	for i := 0; i < len(change); i += 2 {
		if change[i+1] == nil {
			delete(a, change[i].(string))
		} else {
			a[change[i].(string)] = change[i+1]
		}
	}
	return a
}

// begin begins an attempt and returns its id.
func (s *session) begin(invocation string, change ...any) string {
	s.t.Helper()
	return at(s.must("receipt_begin", beginArgs(invocation, change...)), "receipt.attemptId").(string)
}

// at returns the member at a dotted path, nil if there is none.
func at(o any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, ok := o.(obj)
		if !ok {
			return nil
		}
		o = m[name]
	}
	return o
}

// surfaces runs a test over both transports, both backends and both revisions.
func surfaces(t *testing.T, test func(t *testing.T, l *ledger, s *session)) { surfacesOf(t, 4, test) }

// surfacesOf is surfaces for tests that take long: with 2 each transport, backend
// and revision is there once.
func surfacesOf(t *testing.T, n int, test func(t *testing.T, l *ledger, s *session)) {
	stdio := func(t *testing.T, revision string, l *ledger) *session {
		return overStdio(t, revision, mcp.Config{Ledger: mcp.Remote{Client: l.client(t)}, Version: "test"})
	}
	http := func(t *testing.T, revision string, l *ledger) *session { return overHTTP(t, revision, l) }
	for _, c := range []struct {
		name, revision string
		dial           func(*testing.T, string, *ledger) *session
	}{
		{"http " + sessions, sessions, http}, {"stdio " + single, single, stdio},
		{"http " + single, single, http}, {"stdio " + sessions, sessions, stdio},
	}[:n] {
		t.Run(c.name, func(t *testing.T) {
			l := startLedger(t)
			test(t, l, c.dial(t, c.revision, l))
		})
	}
}

// revision is the one that was agreed on.
func (s *session) revision() string { return s.InitializeResult().ProtocolVersion }

// subscribe subscribes, and waits until the server says that it is active.
func (s *session) subscribe(uri string) {
	s.t.Helper()
	if err := s.Subscribe(context.Background(), &sdk.SubscribeParams{URI: uri}); err != nil {
		s.t.Fatal(err)
	}
	if s.revision() >= single { // there the call returns before the answer
		<-s.acked
	}
}
