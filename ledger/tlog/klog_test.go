package tlog

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

type recorder struct {
	slog.Handler
	mu      sync.Mutex
	records []slog.Record
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, rec)
	return nil
}

func TestTesseraTalksToTheLogger(t *testing.T) {
	b := newBench(t)
	rec := &recorder{}
	b.cfg.Logger = slog.New(rec)

	stderr := os.Stderr
	r, w, err := os.Pipe()
	must(t, err)
	os.Stderr = w
	b.close(b.open()) // "Initializing directory …"
	klog.Errorf("trouble")
	klog.Warningf("doubt")
	os.Stderr = stderr
	w.Close()
	if spilt, _ := io.ReadAll(r); len(spilt) > 0 {
		t.Errorf("on stderr: %q", spilt)
	}

	rec.mu.Lock()
	defer rec.mu.Unlock()
	levels := map[string]slog.Level{}
	for _, r := range rec.records {
		for _, key := range []string{"Initializing directory", "trouble", "doubt"} {
			if strings.Contains(r.Message, key) {
				levels[key] = r.Level
			}
		}
	}
	for key, want := range map[string]slog.Level{"Initializing directory": slog.LevelDebug, "trouble": slog.LevelWarn, "doubt": slog.LevelDebug} {
		if got, ok := levels[key]; !ok || got != want {
			t.Errorf("%q came at level %v (%v), expected %v", key, got, ok, want)
		}
	}
}

func TestCloseEndsEveryGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	b := newBench(t)
	l := b.open()
	for _, n := range []uint64{1, 5, 64, 300, 1024} {
		b.add(l, n)
	}
	b.publish(l)
	b.close(l)
	goleak.VerifyNone(t, before)
}
