package app_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"counterfoil/internal/app"
)

// ledger is a running ledger and a caller of it.
type ledger struct {
	t testing.TB
	*app.Server
}

func startLedger(t testing.TB, dir string, change ...func(*app.Config)) *ledger {
	t.Helper()
	cfg := app.Config{Dir: dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Random: rand.Reader, Now: time.Now}
	for _, c := range change {
		c(&cfg)
	}
	s, err := app.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{t, s}
	t.Cleanup(l.stop)
	return l
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

func (l *ledger) stop() {
	if l.Server == nil {
		return
	}
	if err := l.Stop(context.Background()); err != nil {
		l.t.Errorf("stop: %v", err)
	}
	l.Server = nil
}

// do calls the API and decodes the answer.
func (l *ledger) do(method, path string, body []byte) (int, map[string]any) {
	l.t.Helper()
	code, b := l.raw(method, path, body, l.Token)
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		l.t.Fatalf("%s %s: %d %q: %v", method, path, code, b, err)
	}
	return code, out
}

func (l *ledger) raw(method, path string, body []byte, token string) (int, []byte) {
	l.t.Helper()
	req, err := http.NewRequest(method, l.Ready.Listening+path, bytes.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	code, _, b := l.answer(http.DefaultClient.Do, req)
	return code, b
}

func beginBody(invocation, input string) []byte {
	return fmt.Appendf(nil, `{"source":{"runtimeId":"runtime:any","agentId":"agent:any","invocationId":%q,"protocol":"mcp","implementation":"external-agent-runtime"},`+
		`"occurredAt":"2026-07-28T00:00:00.000Z","traceId":"trace-001","action":{"name":"external_tool_call","effectKind":"org.example/declared-effect","effectMode":"one_time"},`+
		`"privateInput":%s}`, invocation, input)
}

func appendBody(attempt, id, rest string) []byte {
	return fmt.Appendf(nil, `{"attemptId":%q,"sourceEventId":%q,"occurredAt":"2026-07-28T00:00:01.000Z",%s}`, attempt, id, rest)
}

func TestEVI01_BeginAppendGet(t *testing.T) {
	l := startLedger(t, filepath.Join(t.TempDir(), "data"))
	code, r := l.do("POST", "/v1/attempts?wait=published", beginBody("invocation-001", `{"callerDefined":"opaque value"}`))
	if code != http.StatusCreated || r["leafIndex"] != 0.0 || r["stage"] != "published" {
		t.Fatalf("begin: %d %v", code, r)
	}
	id := r["attemptId"].(string)
	code, o := l.do("POST", "/v1/attempts/"+id+"/events", appendBody(id, "source-observation-001", `"lifecycle":"outcome","status":"unknown","privateResult":{"callerDefined":"opaque value"}`))
	if code != http.StatusCreated || o["leafIndex"] != 1.0 || o["stage"] == "accepted" {
		t.Fatalf("append: %d %v", code, o)
	}
	code, a := l.do("GET", "/v1/attempts/"+id, nil)
	if code != http.StatusOK || a["state"] != "unknown" || len(a["receipts"].([]any)) != 2 {
		t.Fatalf("get: %d %v", code, a)
	}
	code, one := l.do("GET", "/v1/receipts/"+o["eventId"].(string), nil)
	if code != http.StatusOK || one["checkpoint"] == nil || one["treeSize"] != 2.0 {
		t.Fatalf("receipt: %d %v", code, one)
	}
	code, list := l.do("GET", "/v1/attempts?state=unknown", nil)
	if code != http.StatusOK || len(list["attempts"].([]any)) != 1 {
		t.Fatalf("list: %d %v", code, list)
	}
}

// A follower stays for ever; a stop must not wait for it.
func TestStopEndsEventStreams(t *testing.T) {
	l := startLedger(t, filepath.Join(t.TempDir(), "data"))
	if code, r := l.do("POST", "/v1/attempts?wait=published", beginBody("invocation-001", `1`)); code != http.StatusCreated {
		t.Fatalf("begin: %d %v", code, r)
	}
	req, err := http.NewRequest("GET", l.Ready.Listening+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := res.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	l.stop() // fails if a call does not end in time
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Errorf("the stream does not end properly: %v", err)
	}
}
