package proxy_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/mcpkit"
	"counterfoil/ledger/client"
)

// contracts are the contract events with a definition, in the order of the log:
// "mcp/server/tool reason…".
func (l *ledger) contracts() (words []string, outcomes []client.Receipt) {
	l.t.Helper()
	for _, r := range l.receipts(url.Values{"kind": {"contract"}, "lifecycle": {"outcome"}}) {
		words = append(words, strings.Join(append([]string{r.Subject.ID}, r.ReasonCodes...), " "))
		outcomes = append(outcomes, r)
	}
	return words, outcomes
}

func (l *ledger) wantContracts(want ...string) []client.Receipt {
	l.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		words, outcomes := l.contracts()
		if strings.Join(words, "\n") == strings.Join(want, "\n") {
			return outcomes
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("the contracts are\n  %s\nwant\n  %s", strings.Join(words, "\n  "), strings.Join(want, "\n  "))
		}
	}
}

const (
	listTools = `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{}}`
	listPage  = `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"cursor":%q}}`
)

func TestADefinitionThatChangesIsAnEvent(t *testing.T) {
	l := startLedger(t)
	state := t.TempDir()
	s := l.proxied(state, mcpkit.Env("", 0))
	s.ask(hello)
	s.ask(fmt.Sprintf(listTools, 1))
	want := []string{"mcp/mcpkit/echo", "mcp/mcpkit/fail", "mcp/mcpkit/big", "mcp/mcpkit"}
	first := l.wantContracts(want...)
	s.ask(fmt.Sprintf(listTools, 2)) // the same again
	s.send(callLine(3, "rug", `{}`))
	if got := s.read(); !strings.Contains(got, "list_changed") {
		t.Errorf("got %s", got)
	}
	s.read()
	s.ask(fmt.Sprintf(listTools, 4))
	want = append(want, "mcp/mcpkit/echo contract_changed", "mcp/mcpkit contract_changed")
	got := l.wantContracts(want...)
	pulled := got[len(got)-2]
	if pulled.Refs["definitionBefore"] != first[0].Refs["definition"] || pulled.Refs["definition"] == first[0].Refs["definition"] ||
		pulled.Refs["presentation"] != first[0].Refs["presentation"] {
		t.Errorf("refs %v, before %v", pulled.Refs, first[0].Refs)
	}
	s.call1(5, "add")
	s.ask(fmt.Sprintf(listTools, 6))
	s.end()
	want = append(want, "mcp/mcpkit/added tool_set_changed", "mcp/mcpkit tool_set_changed")
	l.wantContracts(want...)

	// A server that starts again is the old one again: that is a change too.
	s = l.proxied(state, mcpkit.Env("", 0))
	s.ask(hello)
	s.ask(fmt.Sprintf(listTools, 1))
	s.end()
	want = append(want, "mcp/mcpkit/echo contract_changed", "mcp/mcpkit contract_changed tool_set_changed")
	got = l.wantContracts(want...)
	if got[len(got)-1].Refs["tools"] != first[3].Refs["tools"] {
		t.Errorf("the same list has two digests")
	}
	s = l.proxied(state, mcpkit.Env("", 0))
	s.ask(hello)
	s.ask(fmt.Sprintf(listTools, 1))
	s.end()
	l.wantContracts(want...)
}

func TestPagesAreOneList(t *testing.T) {
	l := startLedger(t)
	whole := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	whole.ask(hello)
	whole.ask(fmt.Sprintf(listTools, 1))
	whole.end()
	want := l.wantContracts("mcp/mcpkit/echo", "mcp/mcpkit/fail", "mcp/mcpkit/big", "mcp/mcpkit")
	paged := l.proxied(t.TempDir(), mcpkit.Env("", 2))
	paged.ask(hello)
	paged.ask(fmt.Sprintf(listPage, 1, "2")) // a page of nothing that was seen
	paged.ask(fmt.Sprintf(listTools, 2))
	paged.ask(fmt.Sprintf(listPage, 3, "2"))
	paged.ask(fmt.Sprintf(listTools, 4))
	paged.end()
	got := l.wantContracts("mcp/mcpkit/echo", "mcp/mcpkit/fail", "mcp/mcpkit/big", "mcp/mcpkit",
		"mcp/mcpkit/big", "mcp/mcpkit/echo", "mcp/mcpkit/fail", "mcp/mcpkit")
	if got[7].Refs["tools"] != want[3].Refs["tools"] || got[4].Refs["definition"] != want[2].Refs["definition"] {
		t.Errorf("pages give other digests: %v, want %v", got[7].Refs, want[3].Refs)
	}
}

func TestAContractWaitsForTheLedger(t *testing.T) {
	l := startLedger(t)
	state := t.TempDir()
	s := l.proxied(state, mcpkit.Env("", 0))
	s.ask(hello)
	l.stop()
	s.ask(fmt.Sprintf(listTools, 1))
	s.kill() // nothing was recorded, so nothing is known
	l.start()
	s = l.proxied(state, mcpkit.Env("", 0))
	s.ask(hello)
	s.ask(fmt.Sprintf(listTools, 1))
	s.end()
	l.wantContracts("mcp/mcpkit/echo", "mcp/mcpkit/fail", "mcp/mcpkit/big", "mcp/mcpkit")
}
