package proxy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/testkit/mcpkit"
)

// TestEVI22_NoCallWithoutEvidenceAndNoneWithoutItsCall lets many calls fly and,
// in the middle of them, kills the proxy, kills the server, or stops the ledger,
// and starts everything again. At the end every call that reached the server is
// on record, every attempt has an outcome that fits what the server got, and
// attempts are in the order of the calls.
func TestEVI22_NoCallWithoutEvidenceAndNoneWithoutItsCall(t *testing.T) {
	rounds := 9
	if os.Getenv("COUNTERFOIL_LONG") != "" {
		rounds = 200
	}
	l := startLedger(t)
	state, file := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	r := rand.New(rand.NewPCG(7, 7))
	sent := 0
	for round := range rounds {
		s := l.proxied(state, mcpkit.Env(file, 0), "--evidence-timeout", "2s")
		s.ask(hello)
		fly := func(n int) {
			for range n {
				sent++
				s.send(callLine(sent, fmt.Sprintf("tool-%d", sent), `{}`))
			}
		}
		fly(20)
		for range r.IntN(20) {
			s.read()
		}
		switch round % 3 {
		case 0: // the proxy
			s.kill()
		case 1: // the server
			s.send(callLine(0, "die", `{}`))
			s.end()
		case 2: // the ledger
			l.stop()
			fly(5)
			l.start()
			s.end()
		}
	}
	s := l.proxied(state, mcpkit.Env(file, 0)) // it ends what is open
	s.ask(hello)
	s.call1(0, "last")
	defer s.end()

	got := map[string]bool{}
	for _, line := range reached(t, file) {
		var m struct{ Params struct{ Name string } }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if got[m.Params.Name] && strings.HasPrefix(m.Params.Name, "tool-") {
			t.Errorf("%s was sent twice", m.Params.Name)
		}
		got[m.Params.Name] = true
	}
	for len(l.open(t)) > 0 && t.Context().Err() == nil { // until recovery has been through
	}
	attempts, outcomes := map[string]string{}, map[string]string{}
	last := 0
	for _, e := range l.receipts(url.Values{"kind": {"tool_action"}}) {
		if e.Lifecycle == "outcome" {
			outcomes[attempts[e.AttemptID]] = e.Action.Status + " " + strings.Join(e.ReasonCodes, " ")
			continue
		}
		attempts[e.AttemptID] = e.Action.Name
		n := 0
		if _, err := fmt.Sscanf(e.Action.Name, "tool-%d", &n); err != nil {
			continue
		}
		// What was refused is recorded later, and is no call that left.
		if got[e.Action.Name] && n < last {
			t.Errorf("%s is on record after tool-%d", e.Action.Name, last)
		} else if got[e.Action.Name] {
			last = n
		}
	}
	count := map[string]int{}
	for _, tool := range attempts {
		outcome := outcomes[tool]
		count[outcome]++
		status, _, _ := strings.Cut(outcome, " ")
		switch {
		case status == "succeeded" && !got[tool], status == "not_started" && got[tool], outcome == "":
			t.Errorf("%s is %q, and reached the server: %v", tool, outcome, got[tool])
		}
		delete(got, tool)
	}
	for tool := range got {
		t.Errorf("%s reached the server and is not on record", tool)
	}
	t.Logf("%d calls sent, %d attempts: %v", sent, len(attempts), count)
}

// open are the attempts without an outcome.
func (l *ledger) open(t testing.TB) []string {
	t.Helper()
	page, err := l.client.Attempts(t.Context(), url.Values{"state": {"open"}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range page.Value.Attempts {
		ids = append(ids, a.AttemptID)
	}
	return ids
}
