package toolresult

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// Effect tags of two different values.
var (
	tagA = "hmac-sha256:" + strings.Repeat("aa", 32)
	tagB = "hmac-sha256:" + strings.Repeat("bb", 32)
)

// chain is an attempt that is built event by event, by the ledger's own rules.
type chain struct {
	t      interface{ Fatalf(string, ...any) }
	state  lifecycle.State
	events []*event.Event
	// lenient leaves out what the rules refuse.
	lenient bool
}

func begin(t interface{ Fatalf(string, ...any) }) *chain {
	e := &event.Event{
		Schema: event.Schema, Ledger: "ledger.example/log", Tenant: "default", Revision: 1, Lifecycle: event.Attempt,
		Subject:    event.Subject{Kind: event.ToolAction, ID: "pay"},
		OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:00:00.100Z",
		Source: event.Source{RuntimeID: "runtime-7", AgentID: "agent-7", InvocationID: "invocation-7", Protocol: "mcp", Implementation: "server-7",
			Assurance: event.SelfAsserted},
		TraceID: "trace-7", Action: event.Action{Name: "pay", EffectKind: "payment", EffectMode: "one_time"}, Status: event.StatusRequested,
		Commitments: map[string]string{"input": "sha256:" + strings.Repeat("cc", 32)},
		Tags:        map[string]string{lifecycle.TagExpectedEffect: tagA},
	}
	e.AttemptID = event.NewAttemptID(event.ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID).Shard(), [15]byte{7})
	e.ClaimBoundary = event.ClaimBoundaryFor(e.Lifecycle, e.Subject.Kind)
	c := &chain{t: t}
	c.apply(e)
	return c
}

func (c *chain) apply(e *event.Event) {
	err := e.Validate()
	if err == nil {
		if v := c.state.Apply(e, event.DigestOf(e.Append(nil))); v != nil {
			err = v
		}
	}
	if err != nil && c.lenient {
		return
	}
	if err != nil {
		c.t.Fatalf("test event %s %s: %v", e.Lifecycle, e.Status, err)
	}
	c.events = append(c.events, e)
}

// add appends an event. what is its status, or what a read-back observed: once
// for the expected value, other for another one, absent or unreachable.
func (c *chain) add(l event.Lifecycle, what string) *chain {
	e := *c.events[0]
	head, _ := c.state.Head()
	e.Revision, e.Previous, e.Lifecycle, e.Status, e.Tags = c.state.Revision()+1, head.String(), l, what, nil
	e.Source.EventID = fmt.Sprintf("event-%d", e.Revision)
	e.ClaimBoundary = event.ClaimBoundaryFor(l, e.Subject.Kind)
	last := ""
	for i, entry := range c.state.Entries {
		if entry.Lifecycle == event.Outcome {
			last = c.state.Entries[i].Digest.EventID()
		}
	}
	switch l {
	case event.Outcome:
		e.Refs = nil
		if last != "" {
			e.Refs = map[string]string{lifecycle.RefCorrects: last}
		}
	case event.Reversal:
		e.Refs = map[string]string{lifecycle.RefReverses: last}
	case event.Reconciliation:
		rb := event.ReadBack{Source: "bank.example", Observed: what}
		switch what {
		case "once":
			rb.Observed, e.Tags = event.ObservedPresent, map[string]string{lifecycle.TagReadBack: tagA}
		case "other":
			rb.Observed, e.Tags = event.ObservedPresent, map[string]string{lifecycle.TagReadBack: tagB}
		}
		e.Status, e.Statement = c.state.Derive(rb, e.Tags[lifecycle.TagReadBack]), rb.Value()
	}
	c.apply(&e)
	return c
}

func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash("../../docs/spec/tool-result.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// section is the text under a heading of the page.
func section(t *testing.T, title string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page(t), "\n## "+title+"\n")
	if !ok {
		t.Fatalf("docs/spec/tool-result.md has no section %s", title)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// table is the cells of the rows of a table, without its head and without the
// marks of code.
func table(t *testing.T, title string) [][]string {
	t.Helper()
	var rows [][]string
	for line := range strings.Lines(section(t, title)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "`", "")
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("section %s has no table", title)
	}
	return rows[2:]
}
