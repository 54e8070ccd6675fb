package api

import (
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
