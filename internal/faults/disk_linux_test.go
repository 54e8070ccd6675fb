package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of 64 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ballast is what another program wrote: up to size bytes, or until the disk is
// full to the last byte. It returns how many there were.
func ballast(t *testing.T, path string, size int64) (n int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for n < size && len(chunk) > 0 {
		w, err := f.Write(chunk[:min(int64(len(chunk)), size-n)])
		n += int64(w)
		if errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2] // into the last gap
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func free(t *testing.T, dir string) int64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// TestCaseDiskFull_DUR06_ServiceComesBackByItself fills a small disk with
// events. The ledger refuses more with 503 disk_full, reads go on, and once
// there is space it serves again, without a restart; nothing is lost.
func TestCaseDiskFull_DUR06_ServiceComesBackByItself(t *testing.T) {
	disk := smallDisk(t)
	dir, other := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	ballast(t, other, 12<<20)
	p := start(t, dir)
	got := &acks{all: map[string]receipt{}}
	stop := make(chan struct{})
	var full atomic.Int64
	done := p.load(got, "fill", 16, stop, func(code int, b []byte, err error) {
		var r refusal
		if err != nil || code != http.StatusServiceUnavailable || json.Unmarshal(b, &r) != nil || r.Error.Reason != "disk_full" {
			t.Errorf("refused with %d %s %v, want 503 disk_full", code, b, err)
		}
		if full.Add(1) == 200 {
			close(stop)
		}
	})
	done()
	if t.Failed() {
		t.Fatalf("after %d events with %d bytes free: %s", len(got.all), free(t, disk), tail(p.stderr.String()))
	}
	t.Logf("full after %d events; %d bytes free", len(got.all), free(t, disk))
	// A database may give space back in this moment; then nothing is wrong any more.
	if names := p.unready(); !slices.Contains(names, "disk") && free(t, disk) < 16<<20 {
		t.Errorf("unready: %v, want disk among it, with %d bytes free", names, free(t, disk))
	}
	// What was accepted is published out of the reserve, and reads work.
	eventually(t, "all that was acknowledged is published", func() bool {
		var st status
		_, b, err := p.call(http.MethodGet, "/v1/status", nil)
		return err == nil && json.Unmarshal(b, &st) == nil && st.ViewSize >= st.StreamLast
	})
	for _, r := range got.all {
		for _, path := range []string{"/v1/attempts/" + r.AttemptID, "/v1/receipts/" + r.EventID, "/v1/attempts/" + r.AttemptID + "/bundle", "/v1/attempts?limit=3", "/log/checkpoint"} {
			if code, b, err := p.call(http.MethodGet, path, nil); err != nil || code != http.StatusOK {
				t.Errorf("while full, %s: %d %s %v", path, code, b, err)
			}
		}
		break
	}
	t.Logf("%d bytes free after everything was projected", free(t, disk))
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	eventually(t, "service is back", func() bool {
		r, ok := p.send("/v1/attempts", beginBody("back again"))
		if ok {
			got.add(r)
		}
		return ok
	})
	got.check(t, p)
	p.wholeAfterwards(got)
}

// TestCaseDiskFull_LOG14_AnotherProgramTakesTheLastByte fills the disk in an
// instant while events come in. The ledger may refuse, and its databases may
// even be killed by the system; when there is space again, and after a start if
// it needs one, every acknowledged event is there and nothing needs repair.
func TestCaseDiskFull_LOG14_AnotherProgramTakesTheLastByte(t *testing.T) {
	disk := smallDisk(t)
	dir, other := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	got := &acks{all: map[string]receipt{}}
	p := start(t, dir)
	for round := range 4 {
		had, stop := got.count(), make(chan struct{})
		var taken atomic.Bool
		var refused, enough atomic.Int64
		done := p.load(got, fmt.Sprintf("r%d", round), 16, stop, func(code int, b []byte, err error) {
			if !taken.Load() && round == 0 {
				t.Errorf("round %d: refused before the disk was full: %d %s %v", round, code, b, err)
			}
			refused.Add(1)
		})
		eventually(t, "there is load", func() bool { return got.count() > had+200 })
		taken.Store(true)
		n := ballast(t, other, 1<<40)
		// A second of trying on a full disk, or its end.
		eventually(t, "the full disk is noticed", func() bool {
			select {
			case <-p.ended:
				return true
			default:
				return enough.Add(1) > 100 && refused.Load() > 0
			}
		})
		full := free(t, disk)
		died := p.over()
		if died {
			// Nothing starts on a full disk, and that harms nothing.
			if _, err := startErr(t, dir); err == nil || !strings.Contains(err.Error(), "bytes free") {
				t.Errorf("round %d: start on a full disk: %v", round, err)
			}
		}
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		close(stop)
		done()
		back := time.Now()
		how := "refused, and came back by itself"
		if !died {
			eventually(t, "service is back or the process ends", func() bool { return p.over() || p.unready() == nil })
			died = p.over()
		}
		if died {
			how = "ended and was started again: " + ending(p)
			p = start(t, dir)
		}
		t.Logf("round %d: %d bytes of ballast, %d free, %d refusals, %d events so far; it %s within %v", round, n, full, refused.Load(), got.count(), how, time.Since(back).Round(time.Millisecond))
		got.check(t, p)
		if t.Failed() {
			t.Fatal(tail(p.stderr.String()))
		}
	}
	p.wholeAfterwards(got)
}

// ending is why a process ended, in a line.
func ending(p *process) string {
	for line := range strings.Lines(p.stderr.String()) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "unexpected fault") || strings.HasPrefix(line, "counterfoil:") {
			return p.cmd.ProcessState.String() + ": " + strings.TrimSpace(line)
		}
	}
	return p.cmd.ProcessState.String()
}
