package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"counterfoil/ledger/trust"
)

// smallDisk mounts a file system of one MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestLOG09_DiskFull: a witness whose disk is full answers 503, signs nothing
// and ends with 1. With space again it starts where its last answer was.
func TestLOG09_DiskFull(t *testing.T) {
	const leaves = 4000
	h := newHistory(t, "example.com/log", "leaf ", leaves)
	disk := smallDisk(t)
	_, args := place(t, h)
	for i, a := range args {
		if a == "--state" {
			args[i+1] = filepath.Join(disk, "state")
		}
	}
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := start(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	size, full := uint64(0), false
	for size < leaves && !full {
		body, err := h.request(size, size+1)
		if err != nil {
			t.Fatal(err)
		}
		status, answer, err := post(c.Listening, body)
		switch {
		case err != nil:
			t.Fatalf("no answer at %d: %v", size, err)
		case status == http.StatusOK:
			size++
		case status == http.StatusServiceUnavailable && !strings.Contains(answer, "—"):
			full = true
		default:
			t.Fatalf("%d at %d: %s", status, size, answer)
		}
	}
	if !full || size == 0 {
		t.Fatalf("the disk held %d updates", size)
	}
	var exit interface{ ExitCode() int }
	if err := c.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(c.log.String(), "hint: a new start") || !strings.Contains(c.log.String(), "no space left") {
		t.Errorf("it says %q", c.log)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if c, err = start(t, args...); err != nil {
		t.Fatal(err)
	}
	key, err := trust.ParseVerifierKey(c.VKey)
	if err != nil {
		t.Fatal(err)
	}
	// What was answered is there; the update behind it may be.
	found := checkLatest(t, c.Listening, key)
	if found.Size != size && found.Size != size+1 {
		t.Fatalf("came back at %d, had answered %d", found.Size, size)
	}
	body, err := h.request(found.Size, found.Size+1)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer, err := post(c.Listening, body); err != nil || status != http.StatusOK {
		t.Errorf("after that: %d %s, %v", status, answer, err)
	}
}
