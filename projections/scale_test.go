//go:build !race

// The race detector multiplies memory and time, which are what is measured here.

package projections_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
)

// memory reads the resident memory of this process, garbage given back first:
// anonymous, and mapped files, which the kernel may drop at any time.
func memory(t testing.TB) (anon, file int64) {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc")
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 3 {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			switch f[0] {
			case "RssAnon:":
				anon = n << 10
			case "RssFile:":
				file = n << 10
			}
		}
	}
	return anon, file
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestEVI19_ManyAttemptsStayOnDisk folds 100,000 attempts, or a million with
// COUNTERFOIL_LONG, and bounds the memory that they cost. Most of it is Badger's
// buffers for flushes and compactions, which it gives back when it is idle.
func TestEVI19_ManyAttemptsStayOnDisk(t *testing.T) {
	n, long := 100_000, os.Getenv("COUNTERFOIL_LONG") != ""
	if long {
		n = 1_000_000
	}
	log, err := leaftest.NewFileLog(filepath.Join(t.TempDir(), "leaves"), leaftest.Actions(n, 50))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	dir := t.TempDir()
	before, _ := memory(t)
	start, used := time.Now(), cpu()
	db := views(t, dir)
	catchUp(t, db, log)
	folded, used := time.Since(start), cpu()-used
	after, _ := memory(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	db = views(t, dir)
	catchUp(t, db, log)
	reopened := time.Since(start)
	c, err := query.New(db, nil).Counts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if c.Attempts != uint64(n) || c.Receipts != uint64(2*n) || c.States[event.StatusUnknown] != uint64(n/10) || c.States["open"] != 0 || c.Parked != 0 {
		t.Errorf("counts %+v", c)
	}
	start = time.Now()
	if _, err := query.New(db, nil).Digest(t.Context(), uint64(2*n)); err != nil {
		t.Fatal(err)
	}
	digested := time.Since(start)
	again, mapped := memory(t)
	t.Logf("%d attempts, %d leaves: folded in %v (%.0f leaves/s, %v of CPU a leaf), reopened in %v, digest in %v",
		n, 2*n, folded, float64(2*n)/folded.Seconds(), used/time.Duration(2*n), reopened, digested)
	t.Logf("resident memory: %+d MiB after folding, %+d MiB after reopening and reading everything; mapped files %d MiB",
		(after-before)>>20, (again-before)>>20, mapped>>20)
	if after-before > 150<<20 || again-before > 150<<20 {
		t.Errorf("resident memory grew by more than 150 MiB")
	}
	if long && reopened > 5*time.Second {
		t.Errorf("reopened in %v", reopened)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func views(t *testing.T, dir string) *kv.DB {
	t.Helper()
	db, err := kv.Open(kv.Config{Dir: dir, Origin: leaftest.Origin, Tenant: leaftest.Tenant, Schema: follow.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // the test has closed it, unless it failed
	return db
}

func catchUp(t *testing.T, db *kv.DB, log follow.Source) {
	t.Helper()
	f, err := follow.New(follow.Config{DB: db, Source: log, Check: leaftest.NoCheck})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}
