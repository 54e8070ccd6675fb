package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"counterfoil/internal/testkit/fsck"
)

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v %s", err, out)
	}
}

// fill records attempts and returns what was acknowledged.
func fill(t testing.TB, p *process, name string, n int, got *acks) {
	t.Helper()
	for i := range n {
		invocation := fmt.Sprintf("%s-%d", name, i)
		got.sending(invocation)
		r, ok := p.send("/v1/attempts", beginBody(invocation))
		if !ok {
			t.Fatalf("begin %s-%d: status %d\n%s", name, i, r.Status, p.stderr)
		}
		got.add(r)
	}
}

// TestINV3_StreamIsHealedFromTheLog damages the stream while the ledger is
// down; every acknowledged event is there again, and intake goes on.
func TestINV3_StreamIsHealedFromTheLog(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir, old string){
		"deleted": func(t *testing.T, dir, _ string) {
			if err := os.RemoveAll(filepath.Join(dir, "stream")); err != nil {
				t.Fatal(err)
			}
		},
		"older copy": func(t *testing.T, dir, old string) {
			copyDir(t, filepath.Join(old, "stream"), filepath.Join(dir, "stream"))
		},
		"last block cut": func(t *testing.T, dir, _ string) {
			blks := blocks(t, dir)
			info, err := os.Stat(blks[len(blks)-1])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(blks[len(blks)-1], info.Size()/2+7); err != nil {
				t.Fatal(err)
			}
		},
		"first block deleted": func(t *testing.T, dir, _ string) {
			if err := os.Remove(blocks(t, dir)[0]); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir, old := filepath.Join(root, "data"), filepath.Join(root, "old")
			got := &acks{all: map[string]receipt{}}
			p := start(t, dir)
			fill(t, p, "a", 40, got)
			p.settled()
			p.stop()
			copyDir(t, dir, old)
			p = start(t, dir)
			fill(t, p, "b", 40, got)
			p.settled()
			p.stop()
			damage(t, dir, old)
			p = start(t, dir)
			got.check(t, p)
			for id, r := range got.all { // a repeat is still the same event
				again, ok := p.send("/v1/attempts", beginBody("a-0"))
				if !ok || (again.EventID == id && again.LeafIndex != r.LeafIndex) {
					t.Errorf("repeat: %+v", again)
				}
				break
			}
			fill(t, p, "c", 5, got)
			got.check(t, p)
			st, vkey := p.settled(), trustVKey(t, p)
			p.stop()
			fsck.Check(t, filepath.Join(dir, "log"), st.Origin, vkey)
		})
	}
}

func blocks(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.Command("find", filepath.Join(dir, "stream"), "-name", "*.blk").Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("no blocks found: %v", err)
	}
	return strings.Fields(string(out))
}

// TestINV4_NeverSignsARolledBackTree restores old copies of single parts; the
// start fails, says why, and the published checkpoint stays as it was.
func TestINV4_NeverSignsARolledBackTree(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir, old string)
		says   string
	}{
		"state deleted": {func(t *testing.T, dir, _ string) {
			if err := os.RemoveAll(filepath.Join(dir, "log", ".state")); err != nil {
				t.Fatal(err)
			}
		}, "rolled back"},
		"state restored old": {func(t *testing.T, dir, old string) {
			copyDir(t, filepath.Join(old, "log", ".state"), filepath.Join(dir, "log", ".state"))
		}, "rolled back"},
		"guard deleted": {func(t *testing.T, dir, _ string) {
			if err := os.RemoveAll(filepath.Join(dir, "guard")); err != nil {
				t.Fatal(err)
			}
		}, "guard"},
		"log restored old": {func(t *testing.T, dir, old string) {
			copyDir(t, filepath.Join(old, "log"), filepath.Join(dir, "log"))
		}, "rolled back"},
		"log deleted": {func(t *testing.T, dir, _ string) {
			if err := os.RemoveAll(filepath.Join(dir, "log")); err != nil {
				t.Fatal(err)
			}
		}, "rolled back"},
		"guard restored old": {func(t *testing.T, dir, old string) {
			copyDir(t, filepath.Join(old, "guard"), filepath.Join(dir, "guard"))
		}, "ahead of the guard"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir, old := filepath.Join(root, "data"), filepath.Join(root, "old")
			got := &acks{all: map[string]receipt{}}
			p := start(t, dir)
			fill(t, p, "a", 5, got)
			p.settled()
			p.stop()
			copyDir(t, dir, old)
			p = start(t, dir)
			fill(t, p, "b", 5, got)
			p.settled()
			p.stop()
			c.damage(t, dir, old)
			before, _ := os.ReadFile(filepath.Join(dir, "log", "checkpoint"))
			for range 2 { // the second start must not see a fresh log either
				if _, err := startErr(t, dir); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want a refusal that says %q", err, c.says)
				}
				after, _ := os.ReadFile(filepath.Join(dir, "log", "checkpoint"))
				if !bytes.Equal(before, after) {
					t.Errorf("the checkpoint changed:\n%s\n%s", before, after)
				}
			}
		})
	}
}

// TestCaseTwoProcesses starts a second ledger on one data directory.
func TestCaseTwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, dir)
	if _, err := startErr(t, dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second process: got %v, want a refusal", err)
	}
	if _, ok := p.send("/v1/attempts", beginBody("still here")); !ok {
		t.Error("the first process stopped serving")
	}
	p.stop()
}

// TestCaseStopWithoutViews takes the views away from a running ledger: it can
// no longer write them, and still stops in bounded time, asked to or not.
func TestCaseStopWithoutViews(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	got := &acks{all: map[string]receipt{}}
	p := start(t, dir)
	fill(t, p, "a", 5, got)
	p.settled()
	if err := os.RemoveAll(filepath.Join(dir, "views")); err != nil {
		t.Fatal(err)
	}
	// The ledger ends by itself when it notices; what it acknowledges until then
	// stays.
	for i := range 5 {
		if r, ok := p.send("/v1/attempts", beginBody(fmt.Sprintf("b-%d", i))); ok {
			got.add(r)
		}
	}
	p.kill(syscall.SIGTERM) // the test's own deadline is the bound
	p = start(t, dir)
	got.check(t, p)
	p.stop()
}
