package proxy_test

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/testkit/mcpkit"
)

func TestTRS24_ArgumentsNameNobody(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	s.ask(hello)
	s.call(1, "echo", `{"agentId":"agent:admin","runtimeId":"mine","invocationId":"x","source":{"runtimeId":"mine"},`+
		`"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"admin"}},"is_admin":true}`)
	s.end()
	for _, r := range l.receipts(nil) {
		if r.Source.AgentID != "agent:tester@1" || !strings.HasPrefix(r.Source.RuntimeID, "mcp-proxy:") || r.Source.InvocationID == "x" {
			t.Errorf("source %+v", r.Source)
		}
	}
	l.wantCalls("echo succeeded")
}

// The client of the protocol since 2026-07-28 names itself in every request.
func TestEVI06_ARequestNamesItsClient(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	s.ask(`{"id":1,"method":"tools/call","params":{"name":"echo","_meta":{"io.modelcontextprotocol/clientInfo":{"name":"new","version":"9"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	s.ask(`{"id":2,"method":"tools/call","params":{"name":"` + strings.Repeat("n", 300) + `"}}`)
	s.end()
	rs := l.receipts(url.Values{"lifecycle": {"attempt"}})
	if got := rs[0].Source; got.AgentID != "agent:new@9" || got.Protocol != "mcp/2026-07-28" {
		t.Errorf("source %+v", got)
	}
	if rs[1].Source.AgentID != "agent:unknown" || !strings.HasPrefix(rs[1].Action.Name, "sha256:") {
		t.Errorf("got %+v", rs[1])
	}
}

func TestEVI13_ValuesThatNoLedgerTakesPassAllTheSame(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	s.ask(hello)
	s.call(1, "big", fmt.Sprintf(`{"bytes":%d}`, 20<<20))
	if got := s.call(2, "echo", `{"x":"`+strings.Repeat("y", 17<<20)+`"}`); len(got) < 17<<20 {
		t.Errorf("got %d bytes", len(got))
	}
	s.end()
	l.wantCalls("big succeeded", "echo succeeded")
}

func TestAMessageAboveTheBoundEndsTheSession(t *testing.T) {
	l := startLedger(t)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":2,"method":"ping","params":"` + strings.Repeat("x", 5000) + `"}`,
		callLine(2, "big", `{"bytes":5000}`),
	} {
		s := l.proxied(t.TempDir(), mcpkit.Env("", 0), "--max-message", "4096")
		s.ask(hello)
		s.send(callLine(1, "hang", `{}`))
		s.send(line)
		rest, _ := io.ReadAll(s.out)
		code, _ := s.end()
		if code != 1 || len(rest) > 0 || !strings.Contains(s.errs.String(), "a message is over 4096 bytes\nhint: --max-message\n") {
			t.Errorf("exit code %d, %q, %s", code, rest, s.errs)
		}
	}
	l.wantCalls("hang unknown connection_lost", "hang unknown connection_lost", "big unknown connection_lost")
}

func TestUsage(t *testing.T) {
	l := startLedger(t)
	for _, c := range []struct {
		flags   []string
		command []string
		code    int
		want    string
	}{
		{nil, []string{filepath.Join(t.TempDir(), "none")}, 1, "start the server"},
		{nil, nil, 2, "no command"},
		{[]string{"--listen", "127.0.0.1:0"}, nil, 2, "belong together"},
		{[]string{"--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1"}, []string{"x"}, 2, "take no command"},
		{[]string{"--listen", "0.0.0.0:0", "--upstream", "http://127.0.0.1:1"}, nil, 2, "not a loopback address"},
		{[]string{"--listen", "127.0.0.1:0", "--upstream", "ftp://x"}, nil, 2, "not an http or https URL"},
		{[]string{"--call-timeout", "-1s"}, []string{"x"}, 2, "a time is negative"},
		{[]string{"--token-file", filepath.Join(t.TempDir(), "none")}, []string{"x"}, 1, "no token file"},
	} {
		s := l.behind(t.TempDir(), nil, c.flags, c.command...)
		if code, out := s.end(); code != c.code || out != "" || !strings.Contains(s.errs.String(), c.want) {
			t.Errorf("%v %v: exit code %d, %q, %s", c.flags, c.command, code, out, s.errs)
		}
	}
}

// Without --state clients that start the same server share a folder, and each
// has a state directory of its own.
func TestEVI06_TwoClientsStartTheSameServer(t *testing.T) {
	l := startLedger(t)
	base := t.TempDir()
	open := func() *session {
		return start(t, append(mcpkit.Env("", 0), envProxy+"=1", "XDG_STATE_HOME="+base), self(t),
			"proxy", "--server", "http://"+l.cfg.Listen, "--token-file", l.tokenFile(), "--", self(t), "--api-key", "CANARY")
	}
	a, b := open(), open()
	for _, s := range []*session{a, b} {
		s.ask(hello)
		s.call1(1, "echo")
	}
	for _, s := range []*session{a, b} {
		if code, _ := s.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	slots, _ := filepath.Glob(filepath.Join(base, "counterfoil", "proxy", "*", "*", "runtime.json"))
	if len(slots) != 2 {
		t.Errorf("state in %v", slots)
	}
	for _, f := range slots {
		if fi, err := os.Stat(filepath.Dir(f)); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%v %v", fi.Mode(), err)
		}
	}
	l.wantCalls("echo succeeded", "echo succeeded")
}
