package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// filled is a stopped ledger with some events.
func filled(t *testing.T, n int) (dir string, got *acks) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	got = &acks{all: map[string]receipt{}}
	p := start(t, dir)
	fill(t, p, "a", n, got)
	p.settled()
	p.stop()
	return dir, got
}

// TestINV5_LOG03_DerivedFilesAreMadeAgain loses or damages what is derived while
// the ledger is down. It starts, answers as before, and a repeat is a repeat.
func TestINV5_LOG03_DerivedFilesAreMadeAgain(t *testing.T) {
	t.Parallel()
	garbage := bytes.Repeat([]byte("not a file of Badger "), 1000)
	tables := func(t *testing.T, pattern string) {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, n := range names {
			if err := os.WriteFile(n, garbage, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		starts int // how many may end in the middle
	}{
		"no views": {func(t *testing.T, dir string) { remove(t, dir, "views") }, 0},
		"no index": {func(t *testing.T, dir string) { remove(t, dir, "index") }, 0},
		"neither":  {func(t *testing.T, dir string) { remove(t, dir, "views", "index") }, 0},
		"stubs": {func(t *testing.T, dir string) {
			plant(t, filepath.Join(dir, "index", "00077.mem"))
			plant(t, filepath.Join(dir, "index", "000077.vlog"))
			plant(t, filepath.Join(dir, "views", "gen-00000001", "00077.mem"))
			plant(t, filepath.Join(dir, "views", "gen-00000001", "000077.vlog"))
		}, 0},
		"garbage tables in the index": {func(t *testing.T, dir string) { tables(t, filepath.Join(dir, "index", "*.sst")) }, 2},
		"garbage tables in the views": {func(t *testing.T, dir string) { tables(t, filepath.Join(dir, "views", "gen-*", "*.sst")) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, got := filled(t, 30)
			c.damage(t, dir)
			p, err := startErr(t, dir)
			for n := 0; err != nil && n < c.starts; n++ {
				t.Logf("start %d: %s", n+1, p.cmd.ProcessState)
				p, err = startErr(t, dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			got.check(t, p)
			before := p.settled().LogSize
			if r, ok := p.send("/v1/attempts", beginBody("a-7")); !ok || r.Status != 200 || got.all[r.EventID].LeafIndex != r.LeafIndex {
				t.Errorf("a repeat: %+v", r)
			}
			if after := p.settled().LogSize; after != before {
				t.Errorf("a repeat made the log grow from %d to %d", before, after)
			}
			fill(t, p, "b", 3, got)
			got.check(t, p)
			p.stop()
			rebuildEqual(t, dir)
		})
	}
}

func remove(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
}

func plant(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEVI17_ATT14_MissingSecretsAreRefused loses what cannot be made again. The
// start fails and says what is missing, creates nothing over it, and works again
// when it is given back.
func TestEVI17_ATT14_MissingSecretsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost string
		says []string
	}{
		"vault":        {"vault", []string{"vault", "missing", "restore"}},
		"keys":         {"keys", []string{"keys"}},
		"log key":      {"keys/log.key", []string{"log.key"}},
		"event key":    {"keys/event.key", []string{"event.key"}},
		"tenant's key": {"keys/tenant.key", []string{"tenant.key"}},
		"registry":     {"keys/registry.json", []string{"registry.json"}},
		"identity":     {"ledger.json", []string{"ledger.json", "missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, got := filled(t, 5)
			kept := filepath.Join(t.TempDir(), "kept")
			if err := os.Rename(filepath.Join(dir, c.lost), kept); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second start is no first one
				_, err := startErr(t, dir)
				if err == nil {
					t.Fatal("it started")
				}
				for _, s := range c.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("got %v, want %q in it", err, s)
					}
				}
				if _, err := os.Lstat(filepath.Join(dir, c.lost)); err == nil {
					t.Fatalf("%s was created anew", c.lost)
				}
			}
			if err := os.Rename(kept, filepath.Join(dir, c.lost)); err != nil {
				t.Fatal(err)
			}
			p := start(t, dir)
			got.check(t, p)
			p.stop()
		})
	}
}

// TestCaseStopped_SIGSTOP freezes the process under load for longer than the
// stream's silences and goes on: every call gets its answer.
func TestCaseStopped_SIGSTOP(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "data"))
	got := &acks{all: map[string]receipt{}}
	stop := make(chan struct{})
	var refused atomic.Int64
	done := p.load(got, "s", 16, stop, func(code int, b []byte, err error) {
		refused.Add(1)
		t.Logf("refused: %d %s %v", code, b, err)
	})
	for round := range 2 {
		had := got.count()
		eventually(t, "there is load", func() bool { return got.count() > had+100 })
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(2+4*round) * time.Second) // the time for which a real process stands still
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		still := got.count()
		eventually(t, "it goes on", func() bool { return got.count() > still+100 })
	}
	close(stop)
	done()
	t.Logf("%d events, %d refusals", got.count(), refused.Load())
	got.check(t, p)
	p.wholeAfterwards(got)
}
