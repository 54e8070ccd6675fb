package faults

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEVI17_LOG14_FailedVaultEndsTheProcess makes one flush of the vault fail.
// What the disk holds is unknown then, so the process ends with an error, for
// whoever supervises it; the caller gets no acknowledgement, and after a start
// the same call does.
func TestEVI17_LOG14_FailedVaultEndsTheProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, dir)
	got := &acks{all: map[string]receipt{}}
	fill(t, p, "a", 5, got)
	p.settled()
	logs, err := filepath.Glob(filepath.Join(dir, "vault", "*.mem"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("write-ahead logs: %v %v", logs, err)
	}
	// Badger has the file open; the flusher opens it by its name, which is a
	// link to itself for a while.
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.Rename(logs[0], kept); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(logs[0]), logs[0]); err != nil {
		t.Fatal(err)
	}
	code, b, err := p.call(http.MethodPost, "/v1/attempts", beginBody("in doubt"))
	var r refusal
	if err == nil && (code != http.StatusServiceUnavailable || json.Unmarshal(b, &r) != nil || r.Error.Code != "unavailable") {
		t.Errorf("got %d %s, want 503", code, b)
	}
	eventually(t, "the process ends", p.over)
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.stderr.String(), "vault has failed") {
		t.Errorf("exit code %d, want 1 and the reason: %s", code, tail(p.stderr.String()))
	}
	if err := os.Rename(kept, logs[0]); err != nil {
		t.Fatal(err)
	}
	q := start(t, dir)
	in, ok := q.send("/v1/attempts", beginBody("in doubt"))
	if !ok || in.LeafIndex != 5 {
		t.Errorf("the same again: %+v, want leaf 5", in)
	}
	got.add(in)
	got.check(t, q)
	q.wholeAfterwards(got)
}
