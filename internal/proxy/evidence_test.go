package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"counterfoil/internal/testkit/mcpkit"
)

func TestOPR07_WithoutEvidenceNothingIsSent(t *testing.T) {
	l := startLedger(t)
	calls := filepath.Join(t.TempDir(), "calls")
	s := l.proxied(t.TempDir(), mcpkit.Env(calls, 0), "--evidence-timeout", "300ms")
	s.ask(hello)
	s.call(1, "echo", `{}`)
	l.stop()
	for _, id := range []string{`2`, `"ä\u0001"`, `3.0`} {
		r := refused(t, s.ask(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"echo"}}`))
		if string(r.ID) != id || r.Error.Data.Code != "evidence_unavailable" || r.Error.Data.Reason != "the ledger does not answer" {
			t.Errorf("%s: got %+v", id, r)
		}
	}
	batch := s.ask(`[{"id":4,"method":"tools/call","params":{"name":"echo"}},{"id":5,"method":"ping"},{"method":"tools/call"}]`)
	var all []refusal
	if err := json.Unmarshal([]byte(batch), &all); err != nil || len(all) != 2 || string(all[1].ID) != "5" {
		t.Errorf("got %s, %v", batch, err)
	}
	s.send(`{"method":"tools/call","params":{"name":"echo"}}`) // nobody waits for an answer
	refused(t, s.ask(`{"id":1,"method":"tools/call",}`))
	if got := s.ask(`{"jsonrpc":"2.0","id":6,"method":"ping"}`); !strings.Contains(got, `"id":6,`) {
		t.Errorf("other messages do not pass: %s", got)
	}
	if got := reached(t, calls); len(got) != 1 {
		t.Errorf("the server got %q", got)
	}
	l.start()
	s.call(7, "echo", `{}`)
	s.end()
	none := "echo not_started not_dispatched"
	want := []string{"echo succeeded", "echo succeeded", none, none, none, none, none, "unnamed not_started not_dispatched", "unnamed not_started not_dispatched"}
	got := l.calls()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the ledger holds\n%s", strings.Join(got, "\n"))
	}
	if got := reached(t, calls); len(got) != 2 {
		t.Errorf("the server got %q", got)
	}
}

func TestEVI17_ALedgerThatStartsAgainLosesNoCall(t *testing.T) {
	l := startLedger(t)
	calls := filepath.Join(t.TempDir(), "calls")
	s := l.proxied(t.TempDir(), mcpkit.Env(calls, 0))
	s.ask(hello)
	s.call(1, "echo", `{}`)
	l.stop()
	s.send(callLine(2, "echo", `{}`), callLine(3, "fail", `{}`)) // they wait
	l.start()
	for _, want := range []string{`"id":2,"result"`, `"id":3,"result"`} {
		if got := s.read(); !strings.Contains(got, want) {
			t.Errorf("got %s", got)
		}
	}
	s.end()
	l.wantCalls("echo succeeded", "echo succeeded", "fail failed tool_error")
	if got := reached(t, calls); len(got) != 3 {
		t.Errorf("the server got %q", got)
	}
}

func TestEVI09_AnAnswerDoesNotWaitForALedgerThatIsGone(t *testing.T) {
	l := startLedger(t)
	s := l.proxied(t.TempDir(), mcpkit.Env("", 0), "--evidence-timeout", "300ms")
	s.ask(hello)
	s.send(callLine(1, "gate", `{}`))
	l.wantCalls("gate")
	l.stop()
	refused(t, s.call1(2, "open")) // now the ledger is known to be gone
	s.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	s.read()
	_ = s.in.Close() // and the server ends: its outcome waits in the proxy
	l.start()
	s.end()
	l.wantCalls("gate unknown server_exited", "open not_started not_dispatched")
}

func (s *session) call1(id int, tool string) string { return s.call(id, tool, `{}`) }

func TestOPR09_FailOpenCountsWhatPassed(t *testing.T) {
	l := startLedger(t)
	state, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	flags := []string{"--fail-open", "--evidence-timeout", "300ms"}
	s := l.proxied(state, mcpkit.Env(calls, 0), flags...)
	s.ask(hello)
	s.call1(1, "echo")
	l.stop()
	s.call1(2, "echo")
	s.call1(3, "fail")
	s.kill() // the count is on the disk
	s = l.proxied(state, mcpkit.Env(calls, 0), flags...)
	s.ask(hello)
	s.call1(4, "echo")
	l.start()
	l.wantCalls("echo succeeded", "proxy.gap unknown evidence_gap")
	s.call1(5, "echo")
	s.end()
	l.wantCalls("echo succeeded", "proxy.gap unknown evidence_gap", "echo succeeded")
	if got := reached(t, calls); len(got) != 5 {
		t.Errorf("the server got %q", got)
	}
	for _, r := range l.receipts(url.Values{"tool": {"proxy.gap"}, "lifecycle": {"attempt"}}) {
		var count int
		var from, to string
		if n, err := fmt.Sscanf(r.Subject.ID, "proxy.gap count=%d from=%24s to=%24s", &count, &from, &to); n != 3 || err != nil || from > to || to != r.OccurredAt {
			t.Errorf("subject %q, at %s", r.Subject.ID, r.OccurredAt)
		}
		if count != 3 { // of both runs
			t.Errorf("the gap has %d calls", count)
		}
	}
	if _, err := os.Stat(filepath.Join(state, "gap.json")); !os.IsNotExist(err) {
		t.Errorf("gap.json is still there: %v", err)
	}
}

// A call whose outcome was lost is not made again by anybody who starts again.
func TestOPR09_OPR12_AKilledProxyLeavesUnknownAndOthersAlone(t *testing.T) {
	l := startLedger(t)
	state, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	other := l.proxied(t.TempDir(), mcpkit.Env("", 0))
	other.ask(hello)
	other.send(callLine(1, "gate", `{}`))
	l.wantCalls("gate")
	s := l.proxied(state, mcpkit.Env(calls, 0))
	s.ask(hello)
	s.call1(1, "echo")
	s.send(callLine(2, "hang", `{}`))
	l.wantCalls("gate", "echo succeeded", "hang")
	s.kill()
	l.stop() // everything starts again
	l.start()
	s = l.proxied(state, mcpkit.Env(calls, 0))
	s.ask(hello)
	s.send(callLine(1, "gate", `{}`))
	l.wantCalls("gate", "echo succeeded", "hang unknown recorder_restarted", "gate")
	s.call1(2, "open")
	s.read()
	s.end()
	other.call1(2, "open")
	other.end()
	l.wantCalls("gate succeeded", "echo succeeded", "hang unknown recorder_restarted", "gate succeeded", "open succeeded", "open succeeded")
	if got := reached(t, calls); strings.Count(strings.Join(got, "\n"), `"hang"`) > 1 || strings.Count(strings.Join(got, "\n"), `"echo"`) != 1 {
		t.Errorf("the server got %q", got)
	}
	runtimes := map[string]map[string]bool{}
	for _, r := range l.receipts(url.Values{"lifecycle": {"attempt"}}) {
		if runtimes[r.Source.RuntimeID] == nil {
			runtimes[r.Source.RuntimeID] = map[string]bool{}
		}
		runtimes[r.Source.RuntimeID][r.Source.InvocationID] = true
	}
	if len(runtimes) != 2 {
		t.Errorf("two proxies are %v", runtimes)
	}
	for _, ids := range runtimes {
		if len(ids) != 2 && len(ids) != 4 {
			t.Errorf("invocations %v", ids)
		}
	}
}

func TestEVI06_OneStateDirectoryHasOneProxy(t *testing.T) {
	l := startLedger(t)
	state := t.TempDir()
	first := l.proxied(state, mcpkit.Env("", 0))
	first.ask(hello)
	second := l.proxied(state, mcpkit.Env("", 0))
	if code, out := second.end(); code != 1 || out != "" || !strings.Contains(second.errs.String(), "another proxy runs on the state directory") || !strings.Contains(second.errs.String(), "hint: ") {
		t.Errorf("exit code %d, %q, %s", code, out, second.errs)
	}
	first.call1(1, "echo")
	first.end()
}

// Many clients at once, on one ledger, each with calls that do not wait for one
// another: every call that reached a server has its evidence, in the order of
// each client, and there is none of any other.
func TestEVI18_TwoProxiesOnOneLedgerKeepEachOrder(t *testing.T) {
	l := startLedger(t)
	const n = 40
	var sessions []*session
	for range 2 {
		s := l.proxied(t.TempDir(), mcpkit.Env("", 0))
		s.ask(hello)
		sessions = append(sessions, s)
	}
	for i := range n {
		for _, s := range sessions {
			s.send(callLine(i, fmt.Sprintf("tool-%d", i), `{}`))
		}
	}
	for _, s := range sessions {
		for i := range n {
			if got := s.read(); !strings.Contains(got, fmt.Sprintf(`"id":%d,`, i)) {
				t.Fatalf("answer %d is %s", i, got)
			}
		}
		s.end()
	}
	next := map[string]int{}
	var count int
	for _, r := range l.receipts(nil) {
		switch r.Lifecycle {
		case "attempt":
			if want := fmt.Sprintf("tool-%d", next[r.Source.RuntimeID]); r.Action.Name != want {
				t.Fatalf("%s has %s, want %s", r.Source.RuntimeID, r.Action.Name, want)
			}
			next[r.Source.RuntimeID]++
		case "outcome":
			count++
		}
	}
	if len(next) != 2 || count != 2*n {
		t.Errorf("attempts %v, %d outcomes", next, count)
	}
}
