package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/proxy"
	"counterfoil/internal/proxy/gate"
	"counterfoil/internal/proxy/streamable"
	"counterfoil/internal/testkit/mcpkit"
	"counterfoil/ledger/event"
)

// shown is the digest of the tools of the test server, as a proxy records it.
func (l *ledger) shown(pull bool) string {
	l.t.Helper()
	s := l.proxied(l.t.TempDir(), mcpkit.Env("", 0))
	s.ask(hello)
	if pull {
		s.call(1, "rug", `{}`)
		s.read()
	}
	s.ask(fmt.Sprintf(listTools, 2))
	s.end()
	_, outcomes := l.contracts()
	return outcomes[len(outcomes)-1].Refs["tools"]
}

// The server shows the tools that the contract pins, at the start and after each
// change, or no call reaches it.
func TestREV28_REV30_TheServerShowsThePinnedTools(t *testing.T) {
	l := startLedger(t)
	pinned, pulled := l.shown(false), l.shown(true)
	l.set(event.ContractTerms{Impact: "low", Tools: pinned})
	calls := filepath.Join(t.TempDir(), "calls")
	s := l.inside(t.TempDir(), calls)
	if d := denied(t, s.call(1, "echo", `{}`)); d.Data.Reason != "tool_contract_mismatch" || d.Data.Expected != pinned || d.Data.Got != "" || d.Data.ReviewEventID != "" {
		t.Errorf("got %+v", d)
	}
	s.ask(fmt.Sprintf(listTools, 2))
	answered(t, s.call(3, "echo", `{}`))
	s.send(callLine(4, "rug", `{}`))
	if got := s.read(); !strings.Contains(got, "list_changed") {
		t.Errorf("got %s", got)
	}
	s.read()
	if d := denied(t, s.call(5, "echo", `{}`)); d.Data.Got != "" {
		t.Errorf("got %+v", d)
	}
	s.ask(fmt.Sprintf(listTools, 6))
	if d := denied(t, s.call(7, "echo", `{}`)); d.Data.Expected != pinned || d.Data.Got != pulled || d.Data.Recovery != "human_review" {
		t.Errorf("got %+v, want %s", d, pulled)
	}
	l.set(event.ContractTerms{Impact: "low", Tools: pulled})
	s.clock.jump(stale)
	answered(t, s.call(8, "echo", `{}`))
	s.finish()
	if r := reached(t, calls); len(r) != 3 {
		t.Errorf("the server got %q", r)
	}

	// The server that starts again is the old one, which is another one now.
	s = l.inside(t.TempDir(), calls)
	s.ask(fmt.Sprintf(listTools, 1))
	if d := denied(t, s.call(2, "echo", `{}`)); d.Data.Expected != pulled || d.Data.Got != pinned {
		t.Errorf("got %+v", d)
	}
	l.set(event.ContractTerms{Impact: "low"}) // nothing is pinned any more
	s.clock.jump(stale)
	answered(t, s.call(3, "echo", `{}`))
}

// A server that changes without a word is found out by its next page.
func TestREV28_APageThatDiffersIsAChange(t *testing.T) {
	l := startLedger(t)
	pinned := l.shown(false)
	l.set(event.ContractTerms{Impact: "low", Tools: pinned})
	s := l.proxied(t.TempDir(), mcpkit.Env("", 2), "--contract", underTest)
	s.ask(hello)
	s.ask(fmt.Sprintf(listTools, 1))
	denied(t, s.call(2, "echo", `{}`)) // the list is not whole
	s.ask(fmt.Sprintf(listPage, 3, "2"))
	answered(t, s.call(4, "echo", `{}`))
	s.ask(fmt.Sprintf(listTools, 5))
	answered(t, s.call(6, "add", `{}`)) // the page was the same
	s.ask(fmt.Sprintf(listTools, 7))
	answered(t, s.call(8, "echo", `{}`))
	s.ask(fmt.Sprintf(listPage, 9, "2")) // with a tool that was not there
	if d := denied(t, s.call(10, "echo", `{}`)); d.Data.Reason != "tool_contract_mismatch" || d.Data.Got == "" {
		t.Errorf("got %+v", d)
	}
	s.end()
}

// Over streamable HTTP, with the official client and server, sessions or not.
func TestREV28_REV30_EnforcedOverHTTP(t *testing.T) {
	for _, c := range []struct {
		version string
		opts    mcp.StreamableHTTPOptions
	}{
		{"2025-11-25", mcp.StreamableHTTPOptions{}},
		{"2026-07-28", mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}},
	} {
		t.Run(c.version, func(t *testing.T) {
			l := startLedger(t)
			l.set(event.ContractTerms{Impact: "privileged"})
			called := 0
			s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
			mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(context.Context, *mcp.CallToolRequest, greeting) (*mcp.CallToolResult, any, error) {
				called++
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil, nil
			})
			upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &c.opts))
			defer upstream.Close()
			now := new(clock)
			front := l.inFront(upstream.URL+"/mcp", func(p *proxy.Config, _ *streamable.Config) {
				p.Contract, p.Grace, p.Now = underTest, gate.DefaultGrace, now.now
			})
			cl := mcp.NewClient(&mcp.Implementation{Name: "sdk-client", Version: "2"}, nil)
			session, err := cl.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: front.URL + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: c.version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			call := func() error {
				_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: greeting{"you"}})
				return err
			}
			if err := call(); err != nil {
				t.Fatal(err)
			}
			id := l.judged("re_admit")
			now.jump(stale)
			if err := call(); err == nil || !strings.Contains(err.Error(), id) {
				t.Errorf("got %v, want review %s", err, id)
			}
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Errorf("tools are not listed: %v", err)
			}
			l.judged("continue")
			_, outcomes := l.contracts()
			l.set(event.ContractTerms{Impact: "privileged", Tools: outcomes[len(outcomes)-1].Refs["tools"]})
			now.jump(stale)
			if err := call(); err != nil { // the list was seen
				t.Error(err)
			}
			mcp.AddTool(s, &mcp.Tool{Name: "more"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if err := call(); err == nil || !strings.Contains(err.Error(), "pins") {
				t.Errorf("got %v, want a mismatch", err)
			}
			if called != 2 {
				t.Errorf("the server was called %d times", called)
			}
			l.wantCalls("greet succeeded", "greet not_started access_denied not_dispatched", "greet succeeded", "greet not_started access_denied not_dispatched")
		})
	}
}
