package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/internal/app"
)

// TestCaseClocks_LOG05_SteppingBack turns the ledger's clock back while it runs
// and before it starts again. Events go on to be published, in the order of the
// log; checkpoints, which hold no time, only grow; and what the clock said is
// what capturedAt says, with a skew flag against the source's.
func TestCaseClocks_LOG05_SteppingBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var offset atomic.Int64
	clock := func(c *app.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	}
	l := startLedger(t, dir, clock)
	var size float64
	index := 0.0
	record := func(name string) {
		t.Helper()
		code, r := l.do("POST", "/v1/attempts?wait=published", beginBody(name, `1`))
		if code != http.StatusCreated || r["leafIndex"] != index {
			t.Fatalf("%s: %d %v, want leaf %v", name, code, r, index)
		}
		index++
		if got := r["treeSize"].(float64); got <= size {
			t.Errorf("%s: tree size %v after %v", name, got, size)
		} else {
			size = got
		}
		captured, err := time.Parse(time.RFC3339Nano, r["capturedAt"].(string))
		now := time.Now().Add(time.Duration(offset.Load()))
		if err != nil || captured.After(now.Add(time.Second)) || captured.Before(now.Add(-time.Minute)) {
			t.Errorf("%s: capturedAt %v (%v), the clock says %v", name, captured, err, now)
		}
		_, cp := l.raw("GET", "/log/checkpoint", nil, "")
		var n float64
		if _, err := fmt.Sscan(strings.Split(string(cp), "\n")[1], &n); err != nil || n < size {
			t.Errorf("%s: the checkpoint has size %v (%v), want at least %v", name, n, err, size)
		}
	}
	steps := []time.Duration{0, -5 * time.Second, -time.Hour, -365 * 24 * time.Hour, time.Hour, 0}
	for i, step := range steps {
		offset.Store(int64(step))
		for j := range 3 {
			record(fmt.Sprintf("step %d %d", i, j))
		}
		if code, st := l.do("GET", "/v1/status", nil); code != http.StatusOK || st["ready"] != true {
			t.Errorf("clock at %v: %d %v", step, code, st)
		}
		if i%2 == 1 { // and a restart with the clock where it is
			l.stop()
			l = startLedger(t, dir, clock)
		}
	}
}

// TestCaseClocks_SkewIsAFlag: a source's clock may be anywhere. Beyond 60 s the
// receipt says so; equal times are no error; order is the leaf index.
func TestCaseClocks_SkewIsAFlag(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	l := startLedger(t, filepath.Join(t.TempDir(), "data"), func(c *app.Config) { c.Now = func() time.Time { return now } })
	for i, c := range []struct {
		source time.Duration
		skew   bool
	}{{0, false}, {45 * time.Second, false}, {60 * time.Second, false}, {61 * time.Second, true}, {10 * time.Minute, true}, {-72 * time.Hour, true}} {
		at := now.Add(c.source).Format("2006-01-02T15:04:05.000Z")
		body := strings.Replace(string(beginBody(fmt.Sprintf("skew-%d", i), "1")), "2026-07-28T00:00:00.000Z", at, 1)
		code, r := l.do("POST", "/v1/attempts", []byte(body))
		if code != http.StatusCreated || r["occurredAt"] != at || r["capturedAt"] != "2026-07-28T12:00:00.000Z" || (r["clockSkew"] == true) != c.skew || r["leafIndex"] != float64(i) {
			t.Errorf("source %v off: %d %v, want skew %v", c.source, code, r, c.skew)
		}
	}
}
