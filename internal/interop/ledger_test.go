package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ledger is a running ledger of ours.
type ledger struct {
	*process
	url, dir, token, origin, vkey string
	begun                         int
}

func startLedger(t testing.TB, dir string, args ...string) *ledger {
	t.Helper()
	p := run(t, program(t, ourLedger), append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--origin", "ledger.example/log", "--log-level", "warn"}, args...)...)
	var r struct{ Listening, Origin string }
	p.ready(&r)
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{process: p, url: r.Listening, dir: dir, token: strings.TrimSpace(string(token)), origin: r.Origin}
	var trust struct{ Log struct{ VKey string } }
	if err := json.Unmarshal(l.call(t, http.MethodGet, "/v1/trust", ""), &trust); err != nil {
		t.Fatal(err)
	}
	l.vkey = trust.Log.VKey
	return l
}

func (l *ledger) call(t testing.TB, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, l.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, b)
	}
	return b
}

// begin records so many more attempts and waits until they are published or more. It
// returns the id of the last.
func (l *ledger) begin(t testing.TB, n int) (attempt string) {
	t.Helper()
	var b strings.Builder
	for range n {
		l.begun++
		fmt.Fprintf(&b, `{"begin":{"source":{"runtimeId":"interop","agentId":"agent","invocationId":"call-%d","protocol":"mcp","implementation":"test"},`+
			`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"tool","effectKind":"test","effectMode":"one_time"},"privateInput":{"n":%d}}}`+"\n", l.begun, l.begun)
	}
	answers := bytes.Split(bytes.TrimSpace(l.call(t, http.MethodPost, "/v1/events:batch?wait=published", b.String())), []byte("\n"))
	if len(answers) != n {
		t.Fatalf("%d answers to %d lines", len(answers), n)
	}
	var a struct {
		Status  int
		Receipt struct{ AttemptID, Stage string }
	}
	for _, line := range answers {
		if err := json.Unmarshal(line, &a); err != nil || a.Status != http.StatusCreated || a.Receipt.Stage != "published" && a.Receipt.Stage != "witnessed" {
			t.Fatalf("%v: %s", err, line)
		}
	}
	return a.Receipt.AttemptID
}

func (l *ledger) checkpoint(t testing.TB) string {
	t.Helper()
	return string(l.call(t, http.MethodGet, "/log/checkpoint", ""))
}
