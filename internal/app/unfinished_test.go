package app_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/internal/app"
)

// TestOPR12_UnfinishedAttemptsAreCountedWithTheirAge: whoever watches a ledger
// sees how many attempts nobody knows the end of, and since when; they leave the
// count when they are resolved, and by nothing else.
func TestOPR12_UnfinishedAttemptsAreCountedWithTheirAge(t *testing.T) {
	var later atomic.Int64
	start := time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)
	l := startLedger(t, filepath.Join(t.TempDir(), "data"), func(c *app.Config) {
		c.Now = func() time.Time { return start.Add(time.Duration(later.Load())) }
	})
	shows := func(when string, want ...string) {
		t.Helper()
		l.Ledger.CatchUp(context.Background())
		metrics := string(l.get("/metrics"))
		for _, line := range want {
			if !strings.Contains(metrics, "\n"+line+"\n") {
				t.Errorf("%s: no line %q", when, line)
			}
		}
	}
	shows("empty", `counterfoil_attempts{state="open"} 0`, `counterfoil_oldest_attempt_age_seconds{state="open"} 0`,
		`counterfoil_attempts{state="unknown"} 0`, `counterfoil_oldest_attempt_age_seconds{state="unknown"} 0`)
	first := text(l.begin("1"), "attemptId")
	later.Store(int64(90 * time.Second))
	second := text(l.begin("2"), "attemptId")
	l.append(second, "o", `"lifecycle":"outcome","status":"unknown"`)
	later.Store(int64(100 * time.Second))
	shows("one of each", `counterfoil_attempts{state="open"} 1`, `counterfoil_oldest_attempt_age_seconds{state="open"} 100`,
		`counterfoil_attempts{state="unknown"} 1`, `counterfoil_oldest_attempt_age_seconds{state="unknown"} 10`)
	l.append(second, "r", `"lifecycle":"reconciliation","readback":{"source":"s","observed":"unreachable"}`)
	shows("a source that is not reached resolves nothing", `counterfoil_attempts{state="unknown"} 1`)
	l.append(second, "r2", `"lifecycle":"reconciliation","readback":{"source":"s","observed":"absent"}`)
	l.append(first, "o", `"lifecycle":"outcome","status":"succeeded"`)
	shows("resolved", `counterfoil_attempts{state="open"} 0`, `counterfoil_oldest_attempt_age_seconds{state="open"} 0`,
		`counterfoil_attempts{state="unknown"} 0`, `counterfoil_oldest_attempt_age_seconds{state="unknown"} 0`)
}
