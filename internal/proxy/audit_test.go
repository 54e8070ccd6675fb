package proxy_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/proxy"
	"counterfoil/internal/proxy/streamable"
	"counterfoil/internal/testkit/mcpkit"
)

// evidence is all that names the evidence of what is on record: ids, digests,
// commitments, parties. None of it is for a model.
func (l *ledger) evidence() []string {
	var out []string
	for _, r := range l.receipts(nil) {
		for _, id := range []string{r.AttemptID, r.EventID, r.Source.RuntimeID, r.Source.InvocationID, r.TraceID} {
			out = append(out, id, id[strings.IndexAny(id, "_:")+1:])
		}
		for _, v := range r.Commitments {
			out = append(out, v, strings.TrimPrefix(v, "sha256:"))
		}
	}
	if len(out) == 0 {
		l.t.Fatal("nothing is on record")
	}
	return out
}

// holdsNone reports what of the evidence stands in what a client got.
func holdsNone(t *testing.T, got []byte, evidence []string) {
	t.Helper()
	for _, v := range evidence {
		if len(v) > 8 && bytes.Contains(got, []byte(v)) {
			t.Errorf("the client got %q of the evidence", v)
		}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(got), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v in what the client got", err)
		}
		if kind, n := dec.StackIndex(dec.StackDepth()); kind == '{' && n%2 == 1 && tok.Kind() == '"' {
			switch name := tok.String(); name {
			case "attemptId", "eventId", "events", "receipt", "digest", "resultSha256", "leafIndex", "commitments", "tags", "traceId", "runtimeId":
				t.Errorf("the client got the member %s at %s", name, dec.StackPointer())
			}
		}
	}
}

// TestTRS01_AClientGetsTheServersBytesAndNothingOfTheEvidence: what passes is the
// server's to the byte; what the proxy says itself names no evidence.
func TestTRS01_AClientGetsTheServersBytesAndNothingOfTheEvidence(t *testing.T) {
	l := startLedger(t)
	lines := []string{hello, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, callLine(2, "echo", `{"a":1}`), callLine(3, "fail", `{}`),
		callLine(4, "error", `{}`), callLine(5, "more", `{}`), `{"jsonrpc":"2.0","id":6,"method":"ping"}`}
	direct := start(t, mcpkit.Env("", 0), self(t))
	calls := filepath.Join(t.TempDir(), "calls")
	through := l.proxied(t.TempDir(), mcpkit.Env(calls, 0), "--evidence-timeout", "300ms")
	for _, line := range lines {
		if want, got := direct.ask(line), through.ask(line); got != want {
			t.Errorf("%s: got %s\nwant %s", line, got, want)
		}
	}
	direct.end()
	evidence := l.evidence()
	holdsNone(t, through.answer, evidence)

	l.stop()
	passed := len(through.answer)
	for id := range 3 {
		refused(t, through.call(id+7, "echo", `{"secret":"CANARY-0d51"}`))
	}
	l.start()
	through.end() // and what was refused is on record
	l.wantCalls("echo succeeded", "fail failed tool_error", "error failed protocol_error", "more unknown input_required",
		"echo not_started not_dispatched", "echo not_started not_dispatched", "echo not_started not_dispatched")
	said := through.answer[passed:]
	holdsNone(t, said, l.evidence())
	if bytes.Contains(said, []byte("CANARY")) || bytes.Contains(said, []byte(l.cfg.Listen)) || bytes.Contains(said, []byte(l.Token)) {
		t.Errorf("a refusal quotes the call or the configuration: %s", said)
	}
}

func TestTRS01_OverHTTPHeadersHoldNoEvidenceEither(t *testing.T) {
	l := startLedger(t)
	w := &wire{answer: func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":1,"result":{}}`)
	}}
	upstream := httptest.NewServer(w)
	defer upstream.Close()
	front := l.inFront(upstream.URL, func(p *proxy.Config, _ *streamable.Config) { p.Patience = 300 * time.Millisecond })
	passed, body := do(t, "POST", front.URL, postedCall)
	l.wantCalls("echo succeeded")
	l.stop()
	failed, refusal := do(t, "POST", front.URL, postedCall)
	refused(t, refusal)
	l.start()
	l.wantCalls("echo succeeded", "echo not_started not_dispatched")
	evidence := l.evidence()
	holdsNone(t, []byte(body), evidence)
	holdsNone(t, []byte(refusal), evidence)
	var head bytes.Buffer
	for _, h := range []http.Header{passed.Header, failed.Header} {
		_ = h.Write(&head)
	}
	for _, v := range evidence {
		if len(v) > 8 && strings.Contains(head.String(), v) {
			t.Errorf("a header holds %q:\n%s", v, head.String())
		}
	}
	for _, h := range w.heads {
		for _, v := range evidence {
			for name, values := range h {
				if len(v) > 8 && strings.Contains(strings.Join(values, " "), v) {
					t.Errorf("the server got %s: %s", name, values)
				}
			}
		}
	}
}
