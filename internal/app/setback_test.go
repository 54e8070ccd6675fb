package app_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
)

// grownSince is a ledger of 60 events, not running, and its copy of 40.
func grownSince(t *testing.T) (dir, old string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	old = dir + ".old"
	grow := func(from, to int) {
		l := startLedger(t, dir)
		for i := from; i < to; i++ {
			l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody(fmt.Sprint("inv-", i), `1`))
		}
		l.settled("/v1/attempts?limit=1")
		l.stop()
	}
	grow(0, 40)
	copyDir(t, dir, old)
	grow(40, 60)
	return dir, old
}

// TestINV4_LogAndGuardSetBackGoOnFromTheStream restores log and guard together from
// an old copy beside today's stream and views: the views wait for the log.
func TestINV4_LogAndGuardSetBackGoOnFromTheStream(t *testing.T) {
	dir, old := grownSince(t)
	for _, part := range []string{"log", "guard"} {
		copyDir(t, filepath.Join(old, part), filepath.Join(dir, part))
	}
	l := startLedger(t, dir)
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("new", `1`))
	if r["leafIndex"] != 60.0 {
		t.Errorf("the next event has leaf %v, want 60", r["leafIndex"])
	}
	l.settled("/v1/attempts?limit=1")
	l.stop()
}

// TestINV4_ViewsTellThatTheLogWentBack restores log, guard and stream together. The
// views have seen more: nothing is signed, nothing is noted as lost, and with the
// newest copies the ledger goes on as if nothing had been.
func TestINV4_ViewsTellThatTheLogWentBack(t *testing.T) {
	dir, old := grownSince(t)
	parts := []string{"log", "guard", "stream"}
	for _, part := range parts {
		copyDir(t, filepath.Join(dir, part), filepath.Join(dir+".new", part))
		copyDir(t, filepath.Join(old, part), filepath.Join(dir, part))
	}
	for range 2 {
		s, err := app.Start(context.Background(), app.Config{Dir: dir, Listen: "127.0.0.1:0",
			Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), "the log went back") || !strings.Contains(err.Error(), "size 60") {
			if err == nil {
				_ = s.Stop(context.Background())
			}
			t.Fatalf("start: %v, want a refusal that says how far the log was", err)
		}
	}
	if cp, err := os.ReadFile(filepath.Join(dir, "log", "checkpoint")); err != nil || !strings.Contains(string(cp), "\n40\n") {
		t.Errorf("the checkpoint is now %q %v", cp, err)
	}
	for _, part := range parts {
		copyDir(t, filepath.Join(dir+".new", part), filepath.Join(dir, part))
	}
	l := startLedger(t, dir)
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("new", `1`))
	if r["leafIndex"] != 60.0 {
		t.Errorf("the next event has leaf %v, want 60: a loss was announced", r["leafIndex"])
	}
	l.stop()
}
