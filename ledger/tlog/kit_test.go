package tlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/fsck"
)

const origin = "log.test/one"

// bench is one log directory that a test opens, closes and damages.
type bench struct {
	t    testing.TB
	dir  string // parent of log/ and guard/
	skey string
	vkey string
	cfg  Config // what the next open uses
}

func newBench(t testing.TB) *bench {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: tempDir(t), skey: skey, vkey: vkey}
	b.cfg = Config{
		Dir: b.path("log"), GuardDir: b.path("guard"), Origin: origin, Signer: signer, VerifierKey: vkey, Create: true,
		CheckLeaf: checkLeaf,
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	return b
}

// tempDir is in memory where that is possible: these tests flush thousands of
// times, and none of them can tell whether a flush reaches a disk. Benchmarks
// and long runs use the disk.
func tempDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	_, benchmark := t.(*testing.B)
	if fi, err := os.Stat(memory); err != nil || !fi.IsDir() || benchmark || os.Getenv("COUNTERFOIL_LONG") != "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "tlog-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (b *bench) path(elem ...string) string {
	return filepath.Join(append([]string{b.dir}, elem...)...)
}

// leaf is the one acceptable leaf at an index.
func leaf(index uint64) []byte {
	return fmt.Appendf(nil, "leaf %d %0*d", index, int(index*7919%300), 0)
}

func leavesFrom(from, n uint64) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = leaf(from + uint64(i))
	}
	return out
}

var errLeaf = errors.New("not the leaf of this index")

func checkLeaf(index uint64, data []byte) error {
	if string(data) != string(leaf(index)) {
		return errLeaf
	}
	return nil
}

// open opens the log and closes it with the test at the latest.
func (b *bench) open() *Log {
	b.t.Helper()
	l, err := Open(context.Background(), b.cfg)
	if err != nil {
		b.t.Fatalf("Open: %v", err)
	}
	b.t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

func (b *bench) close(l *Log) {
	b.t.Helper()
	if err := l.Close(context.Background()); err != nil {
		b.t.Fatalf("Close: %v", err)
	}
}

// add appends the next n lawful leaves.
func (b *bench) add(l *Log, n uint64) {
	b.t.Helper()
	from := l.Size()
	size, err := l.Append(context.Background(), leavesFrom(from, n))
	if err != nil || size != from+n || l.Size() != size {
		b.t.Fatalf("Append of %d at %d: size %d, Size %d, %v", n, from, size, l.Size(), err)
	}
}

func (b *bench) publish(l *Log) Checkpoint {
	b.t.Helper()
	cp, err := l.Publish(context.Background())
	if err != nil {
		b.t.Fatalf("Publish: %v", err)
	}
	if want := rootAt(cp.Size); string(cp.Root[:]) != string(want) {
		b.t.Fatalf("published root %x at size %d, the leaves give %x", cp.Root, cp.Size, want)
	}
	return cp
}

// fsck re-derives the published tree with Tessera's checker.
func (b *bench) fsck() {
	b.t.Helper()
	fsck.Check(b.t, b.path("log"), origin, b.vkey)
}

// refused opens the log, expects an error of that kind, and that nothing was
// published, stored or appended by it.
func (b *bench) refused(want error) error {
	b.t.Helper()
	before := b.files()
	l, err := Open(context.Background(), b.cfg)
	if err == nil {
		_ = l.Close(context.Background())
		b.t.Fatalf("Open succeeded, expected: %v", want)
	}
	if !errors.Is(err, want) {
		b.t.Fatalf("Open: %v\nexpected: %v", err, want)
	}
	after := b.files()
	for name, data := range after {
		if before[name] != data && name != "log.lock" {
			b.t.Errorf("the refused Open wrote %s", name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			b.t.Errorf("the refused Open removed %s", name)
		}
	}
	// Nor does a second one, which finds what the first left behind.
	if l, err := Open(context.Background(), b.cfg); !errors.Is(err, want) {
		if err == nil {
			_ = l.Close(context.Background())
		}
		b.t.Errorf("second Open: %v\nexpected: %v", err, want)
	}
	return err
}

// files is every file below the bench's directory with its content.
func (b *bench) files() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(b.dir, path)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) read(elem ...string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(b.path(elem...))
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

func (b *bench) write(data []byte, elem ...string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(elem...), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) remove(elem ...string) {
	b.t.Helper()
	if err := os.RemoveAll(b.path(elem...)); err != nil {
		b.t.Fatal(err)
	}
}

// save copies a directory aside; restore puts the copy back in its place.
func (b *bench) save(from, to string) {
	b.t.Helper()
	if err := os.CopyFS(b.path(to), os.DirFS(b.path(from))); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) restore(from, to string) {
	b.t.Helper()
	b.remove(to)
	b.save(from, to)
}

var reference = testonly.New(rfc6962.DefaultHasher)

// rootAt is the root of the first size lawful leaves by merkle's reference
// tree. Tests of this package do not run in parallel.
func rootAt(size uint64) []byte {
	for i := reference.Size(); i < size; i++ {
		reference.AppendData(leaf(i))
	}
	return reference.HashAt(size)
}
