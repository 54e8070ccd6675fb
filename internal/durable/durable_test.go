package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteFileReplacesAndSetsMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "f")
	for i, perm := range []fs.FileMode{0o600, 0o644, 0o640} {
		want := fmt.Appendf(nil, "content %d", i)
		if err := WriteFile(path, want, perm); err != nil {
			t.Fatal(err)
		}
		mustHold(t, path, want)
		fi, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode() != perm {
			t.Errorf("mode = %v, want %v", fi.Mode(), perm)
		}
	}
	mustNames(t, filepath.Dir(path), "f")
}

func TestWriteFileReplacesTheLinkNotItsTarget(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	mustDo(t, os.WriteFile(target, []byte("kept"), 0o600))
	mustDo(t, os.Symlink(target, link))
	mustDo(t, WriteFile(link, []byte("new"), 0o600))
	mustHold(t, target, []byte("kept"))
	mustHold(t, link, []byte("new"))
}

func TestCreateIsExclusive(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	mustDo(t, Create(path, []byte("first"), 0o600))
	err := Create(path, []byte("second"), 0o600)
	if !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second create: %v, want fs.ErrExist", err)
	}
	mustHold(t, path, []byte("first"))

	dangling := filepath.Join(dir, "dangling")
	mustDo(t, os.Symlink(filepath.Join(dir, "nowhere"), dangling))
	if err := Create(dangling, nil, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("create over a dangling link: %v, want fs.ErrExist", err)
	}
	mustNames(t, dir, "dangling", "f")
}

func TestCreateRaceHasOneWinner(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	errs := make([]error, 16)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = Create(path, fmt.Append(nil, i), 0o600) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("both %d and %d created the file", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("loser %d: %v", i, err)
		}
	}
	mustHold(t, path, fmt.Append(nil, winner))
	mustNames(t, dir, "f")
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	mustDo(t, os.WriteFile(path, nil, 0o600))
	mustDo(t, Remove(path))
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("still there: %v", err)
	}
	var log recorder
	if err := (disk{log.do}).remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("second remove: %v, want fs.ErrNotExist", err)
	}
	if diff := cmp.Diff([]step{stepRemove, stepSyncDir}, log.steps); diff != "" {
		t.Errorf("a repeated remove must flush the directory too (-want +got):\n%s", diff)
	}
}

func TestMkdirAllFlushesEveryParent(t *testing.T) {
	base := t.TempDir()
	var log recorder
	mustDo(t, disk{log.do}.mkdirAll(filepath.Join(base, "a", "b", "c"), 0o700))
	want := []string{
		"flush directory " + filepath.Dir(base),
		"make directory " + filepath.Join(base, "a"), "flush directory " + base,
		"make directory " + filepath.Join(base, "a/b"), "flush directory " + filepath.Join(base, "a"),
		"make directory " + filepath.Join(base, "a/b/c"), "flush directory " + filepath.Join(base, "a/b"),
	}
	if diff := cmp.Diff(want, log.lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fi, err := os.Stat(filepath.Join(base, "a/b/c"))
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}

	log = recorder{}
	mustDo(t, disk{log.do}.mkdirAll(filepath.Join(base, "a/b/c"), 0o700))
	if diff := cmp.Diff([]string{"flush directory " + filepath.Join(base, "a/b")}, log.lines); diff != "" {
		t.Errorf("existing directory (-want +got):\n%s", diff)
	}
	mustDo(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	if err := MkdirAll(filepath.Join(base, "file"), 0o700); err == nil {
		t.Error("a file was taken for a directory")
	}
	if err := MkdirAll(filepath.Join(base, "file", "below"), 0o700); err == nil {
		t.Error("a directory was made below a file")
	}
}

func TestRenameDirectory(t *testing.T) {
	base := t.TempDir()
	mustDo(t, os.Mkdir(filepath.Join(base, "old"), 0o700))
	mustDo(t, os.WriteFile(filepath.Join(base, "old", "f"), []byte("x"), 0o600))
	mustDo(t, os.Mkdir(filepath.Join(base, "sub"), 0o700))
	var log recorder
	mustDo(t, disk{log.do}.rename(filepath.Join(base, "old"), filepath.Join(base, "sub", "new")))
	mustHold(t, filepath.Join(base, "sub", "new", "f"), []byte("x"))
	want := []string{
		"rename into place " + filepath.Join(base, "sub/new"),
		"flush directory " + filepath.Join(base, "sub"),
		"flush directory " + base,
	}
	if diff := cmp.Diff(want, log.lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrderOfSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var log recorder
	mustDo(t, disk{log.do}.create(path, []byte("a"), 0o600))
	mustDo(t, disk{log.do}.writeFile(path, []byte("b"), 0o600))
	want := []step{
		stepCreate, stepWrite, stepSyncFile, stepLink, stepSyncDir,
		stepCreate, stepWrite, stepSyncFile, stepRename, stepSyncDir,
	}
	if diff := cmp.Diff(want, log.steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFaults lets each step fail, once without effect and once after it took
// effect: the file holds the old or the new content, whole, and only a failure
// from the commit point on may leave the new one.
func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	calls := map[string]func(d disk, path string) error{
		"write":  func(d disk, path string) error { return d.writeFile(path, []byte("new"), 0o600) },
		"create": func(d disk, path string) error { return d.create(path, []byte("new"), 0o600) },
	}
	for _, tc := range []struct {
		call string
		at   step
		kept bool // the step takes effect, then reports an error
		want string
	}{
		{"write", stepCreate, false, "old"},
		{"write", stepCreate, true, "old"},
		{"write", stepWrite, false, "old"},
		{"write", stepWrite, true, "old"},
		{"write", stepSyncFile, false, "old"},
		{"write", stepSyncFile, true, "old"},
		{"write", stepRename, false, "old"},
		{"write", stepRename, true, "new"},
		{"write", stepSyncDir, false, "new"},
		{"write", stepSyncDir, true, "new"},
		{"create", stepCreate, false, ""},
		{"create", stepWrite, true, ""},
		{"create", stepSyncFile, false, ""},
		{"create", stepLink, false, ""},
		{"create", stepLink, true, "new"},
		{"create", stepSyncDir, false, "new"},
	} {
		t.Run(fmt.Sprintf("%s/%s/kept=%v", tc.call, tc.at, tc.kept), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			if tc.call == "write" {
				mustDo(t, os.WriteFile(path, []byte("old"), 0o600))
			}
			d := disk{func(s step, _ string, op func() error) error {
				if s != tc.at {
					return op()
				}
				if tc.kept {
					mustDo(t, op())
				}
				return boom
			}}
			if err := calls[tc.call](d, path); !errors.Is(err, boom) {
				t.Fatalf("err = %v, want the fault", err)
			}
			if tc.want == "" {
				mustNames(t, dir)
				return
			}
			mustHold(t, path, []byte(tc.want))
			mustNames(t, dir, "f")
		})
	}
}

func TestPathsThatNameNothing(t *testing.T) {
	for _, path := range []string{"", ".", "..", "/", "a/.."} {
		if err := WriteFile(path, nil, 0o600); err == nil {
			t.Errorf("WriteFile(%q) succeeded", path)
		}
		if err := Create(path, nil, 0o600); err == nil {
			t.Errorf("Create(%q) succeeded", path)
		}
		if err := Remove(path); err == nil {
			t.Errorf("Remove(%q) succeeded", path)
		}
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "none", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing parent: %v", err)
	}
}

func TestFreeBytes(t *testing.T) {
	if n, err := FreeBytes(t.TempDir()); err != nil || n == 0 {
		t.Errorf("FreeBytes = %d, %v", n, err)
	}
	if free, size, err := Space(t.TempDir()); err != nil || free == 0 || free > size {
		t.Errorf("Space = %d, %d, %v", free, size, err)
	}
	if _, err := FreeBytes(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error for a missing path")
	}
}

type recorder struct {
	steps []step
	lines []string
}

func (r *recorder) do(s step, path string, op func() error) error {
	r.steps = append(r.steps, s)
	r.lines = append(r.lines, string(s)+" "+filepath.Clean(path))
	return op()
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustHold(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %q, want %q", path, got, want)
	}
}

// mustNames also proves that no temporary file is left.
func mustNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Fatalf("entries of the directory (-want +got):\n%s", diff)
	}
}

// Holes do not count, a directory below does not, and nobody counts beyond the limit.
func TestOccupied(t *testing.T) {
	dir := t.TempDir()
	mustDo(t, os.WriteFile(filepath.Join(dir, "full"), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	mustDo(t, os.WriteFile(filepath.Join(dir, "hole"), nil, 0o600))
	mustDo(t, os.Truncate(filepath.Join(dir, "hole"), 1<<30))
	mustDo(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	mustDo(t, os.WriteFile(filepath.Join(dir, "below", "more"), bytes.Repeat([]byte("x"), 4<<20), 0o600))
	for _, c := range []struct {
		dir              string
		limit, low, high uint64
	}{
		{dir, 1 << 40, 1 << 20, 2 << 20},
		{dir, 1 << 19, 1 << 19, 1 << 19},
		{filepath.Join(dir, "absent"), 1 << 40, 0, 0},
	} {
		if n, err := Occupied(c.dir, c.limit); err != nil || n < c.low || n > c.high {
			t.Errorf("%s, at most %d: %d, %v; want %d to %d", c.dir, c.limit, n, err, c.low, c.high)
		}
	}
}
