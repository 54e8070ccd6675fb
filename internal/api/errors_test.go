package api

import (
	"strings"
	"testing"
	"time"
)

// TestDUR06_FailuresAreThinnedOut: storage trouble is told once a second and
// counted in between, each kind by itself, also when the clock steps back.
func TestDUR06_FailuresAreThinnedOut(t *testing.T) {
	var f failures
	at := time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		kind   string
		after  time.Duration
		unsaid int
		ok     bool
	}{
		{"unavailable disk_full", 0, 0, true},
		{"unavailable disk_full", 10 * time.Millisecond, 0, false},
		{"unavailable stream_unavailable", 0, 0, true},
		{"unavailable disk_full", 989 * time.Millisecond, 0, false},
		{"unavailable disk_full", time.Millisecond, 2, true},
		{"unavailable disk_full", -time.Hour, 0, true},
	} {
		at = at.Add(c.after)
		if n, ok := f.tell(c.kind, at); n != c.unsaid || ok != c.ok {
			t.Errorf("step %d: %d, %v; want %d, %v", i, n, ok, c.unsaid, c.ok)
		}
	}
}

// TestDUR06_HintsSayWhatPasses: nobody is told to try again what only an operator
// can put right.
func TestDUR06_HintsSayWhatPasses(t *testing.T) {
	for reason, operator := range map[string]bool{
		"disk_full": false, "stream_unavailable": false, "starting": false, "stopping": false, "log_behind": false,
		"log_disagrees": true, "log_set_back": true, "vault_unavailable": true, "key_missing": true,
	} {
		e, _ := toError(&Unavailable{Reason: reason})
		if strings.Contains(e.Hint, "operator") != operator || strings.HasPrefix(e.Hint, "send the same again later") == operator {
			t.Errorf("%s: hint %q, want an operator named: %t", reason, e.Hint, operator)
		}
	}
	// Another node has to be asked: the same again at this one does not help.
	if e, _ := toError(&Unavailable{Reason: "not_signer"}); !strings.Contains(e.Hint, "--server") {
		t.Errorf("not_signer: hint %q", e.Hint)
	}
}
