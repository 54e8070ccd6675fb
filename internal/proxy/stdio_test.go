package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"counterfoil/internal/testkit/mcpkit"
)

// odd are lines of every kind, with the number of lines that answer them.
var odd = []struct {
	line    string
	answers int
}{
	{hello, 1},
	{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 0},
	{` { "id" : 1.0 , "method":"tools/list" , "jsonrpc":"2.0" } `, 1},
	{`{"jsonrpc":"2.0","id":"ä\u0001\ud800","method":"no/such\/method","params":[1e999,{"a":1,"a":2}]}`, 1},
	{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`, 0},
	{"", 0},
	{"this is no JSON", 1},
	{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"b":1.50,"a":"\u00e9","n":9007199254740993}}}`, 1},
	{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fail"}}`, 1},
	{`{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"error","arguments":null}}`, 1},
	{`{"method":"tools/call","params":{"name":"odd","name":"odd","arguments":{}},"id":-7}` + "\r", 1},
	{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask","arguments":{}}}`, 1},
	{`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, 1},
	{`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}}}`, 0},
	{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"big","arguments":{"bytes":5242880}}}`, 1},
	{`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"x":` + strings.Repeat(`[`, 600) + strings.Repeat(`]`, 600) + `}}}`, 1},
	{`{"jsonrpc":"2.0","id":6,"method":"ping"}`, 1},
	{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"more"}}`, 1},
}

func talk(s *session) {
	for _, o := range odd {
		s.send(o.line)
		for range o.answers {
			s.read()
		}
	}
}

func TestEVI22_BytesPassUntouchedAndEveryCallHasEvidence(t *testing.T) {
	l := startLedger(t)
	dir := t.TempDir()
	for _, flags := range [][]string{nil, {"--outcome-async"}} {
		name := fmt.Sprintf("calls%d", len(flags))
		direct := start(t, mcpkit.Env(filepath.Join(dir, "direct"+name), 0), self(t))
		talk(direct)
		codeD, _ := direct.end()
		through := l.proxied(filepath.Join(dir, name), mcpkit.Env(filepath.Join(dir, "through"+name), 0), flags...)
		talk(through)
		codeT, _ := through.end()
		if !bytes.Equal(direct.answer, through.answer) {
			t.Errorf("the client got %d bytes directly, %d through the proxy, and they differ", len(direct.answer), len(through.answer))
		}
		if codeD != codeT || codeT != 0 {
			t.Errorf("exit codes %d and %d", codeD, codeT)
		}
		if d, p := reached(t, filepath.Join(dir, "direct"+name)), reached(t, filepath.Join(dir, "through"+name)); strings.Join(d, "\n") != strings.Join(p, "\n") {
			t.Errorf("the server got\n%.500q\nthrough the proxy, directly\n%.500q", p, d)
		}
		if through.errs.String() != "mcpkit: ready\n" {
			t.Errorf("stderr is %q", through.errs)
		}
	}
	once := []string{"echo succeeded", "fail failed tool_error", "error failed protocol_error", "odd succeeded", "ask succeeded",
		"echo unknown response_missing", "big succeeded", "echo succeeded", "more unknown input_required"}
	l.wantCalls(append(once, once...)...)
	for _, r := range l.receipts(url.Values{"lifecycle": {"attempt"}, "tool": {"echo"}}) {
		s := r.Source
		if s.AgentID != "agent:tester@1" || s.Protocol != "mcp/2025-11-25" || s.Implementation != "mcpkit@3" || !strings.HasPrefix(s.RuntimeID, "mcp-proxy:") || r.TraceID == "" {
			t.Errorf("source %+v, trace %q", s, r.TraceID)
		}
	}
	modes := map[string]string{"fail": "read_only", "big": "destructive", "echo": "unspecified"}
	for _, r := range l.receipts(url.Values{"lifecycle": {"attempt"}, "kind": {"tool_action"}}) {
		if want := modes[r.Action.Name]; want != "" && r.Action.EffectMode != want {
			t.Errorf("%s is %s, want %s", r.Action.Name, r.Action.EffectMode, want)
		}
	}
}

func TestOPR08_AServerThatDiesLeavesUnknownAndItsExitCode(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	s.ask(hello)
	s.call(1, "echo", `{}`)
	s.send(callLine(2, "hang", `{}`), callLine(3, "die", `{}`))
	if code, rest := s.end(); code != mcpkit.ExitCode || rest != "" {
		t.Errorf("exit code %d, output %q", code, rest)
	}
	l.wantCalls("echo succeeded", "hang unknown server_exited", "die unknown server_exited")
}

func TestOPR08_SignalsReachTheServer(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	s.ask(hello)
	s.send(callLine(2, "hang", `{}`))
	s.call(3, "echo", `{}`)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(s.out); err != nil { // its own end, not that of its input
		t.Error(err)
	}
	if code, _ := s.end(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	l.wantCalls("hang unknown server_exited", "echo succeeded")
}

func TestEVI09_CancelledAndTimedOutCallsAreUnknownAndLateAnswersAreNoted(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0), "--call-timeout", "300ms")
	s.ask(hello)
	s.send(callLine(1, "gate", `{}`), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	s.send(callLine(2, "gate", `{}`))
	l.wantCalls("gate unknown cancelled", "gate unknown timeout")
	s.send(callLine(3, "open", `{}`))
	for _, want := range []string{`"id":1,`, `"id":2,`, `"id":3,`} {
		if got := s.read(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	l.wantCalls("gate unknown cancelled noted late_answer", "gate unknown timeout noted late_answer", "open succeeded")
	for _, r := range l.receipts(url.Values{"lifecycle": {"review"}}) {
		if len(r.Commitments) != 1 || r.Refs["reviews"] == "" {
			t.Errorf("the note is %+v", r)
		}
	}
	if code, _ := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestEVI09_ATaskEndsWithItsResult(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	s.ask(hello)
	s.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"task","task":{"ttl":1}}}`)
	l.wantCalls("task")
	s.ask(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"task-1"}}`)
	l.wantCalls("task succeeded")
	s.end()
}

func TestEVI22_WhatCouldBeACallIsOne(t *testing.T) {
	l := startLedger(t)
	calls := filepath.Join(t.TempDir(), "calls")
	s := l.proxied(t.TempDir(), mcpkit.Env(calls, 0))
	s.ask(hello)
	for i, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping"}`,
		`{"jsonrpc":"2.0","id":2,"METHOD":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"x":NaN}}}`,
		`{"id":4,"method":"ping"}{"id":5,"method":"tools/call","params":{"name":"fail"}}`,
		`[{"id":6,"method":"tools/call","params":{"name":"one"}},{"id":7,"method":"tools/call","params":{"name":"two"}}]`,
	} {
		s.send(line)
		s.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 100+i))
	}
	s.end()
	// The test server reads METHOD as method, and one message a line: others do not.
	l.wantCalls("unnamed failed protocol_error", "echo succeeded", "unnamed unknown response_missing", "fail unknown server_exited",
		"one unknown server_exited", "two unknown server_exited")
}
