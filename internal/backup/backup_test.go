package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/trust"
	"counterfoil/ledger/vault"
)

const origin = "backup.test/log"

// world is a real log and a real vault.
type world struct {
	t     *testing.T
	dir   string
	log   *tlog.Log
	vault *vault.Vault
	vkey  string
	skey  string
	n     int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	skey, vkey, err := note.GenerateKey(nil, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: t.TempDir(), vkey: vkey, skey: skey}
	if w.log, err = tlog.Open(t.Context(), tlog.Config{Dir: filepath.Join(w.dir, "log"), GuardDir: filepath.Join(w.dir, "guard"), Origin: origin, Signer: signer,
		VerifierKey: vkey, Create: true, CheckLeaf: func(uint64, []byte) error { return errors.New("no leaf is adopted here") }, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.log.Close(context.Background()) })
	if w.vault, err = vault.Open(filepath.Join(w.dir, "vault"), [32]byte{1}, vault.Options{MinFree: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.vault.Close() })
	return w
}

func (w *world) grow(n int) {
	w.t.Helper()
	var leaves [][]byte
	for range n {
		w.n++
		leaves = append(leaves, []byte(strings.Repeat("leaf ", 20)+time.Unix(int64(w.n), 0).UTC().String()))
		if err := w.vault.Put(attempt(w.n), [32]byte{byte(w.n), byte(w.n >> 8)}); err != nil {
			w.t.Fatal(err)
		}
	}
	for len(leaves) > 0 {
		k := min(len(leaves), 256)
		if _, err := w.log.Append(w.t.Context(), leaves[:k]); err != nil {
			w.t.Fatal(err)
		}
		leaves = leaves[k:]
	}
	if _, err := w.log.Publish(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func attempt(n int) string {
	return "att_" + strings.Repeat("0", n%7) + time.Unix(int64(n), 0).UTC().Format("150405")
}

func (w *world) source() *Source {
	w.t.Helper()
	snap, err := w.log.Snapshot()
	if err != nil {
		w.t.Fatal(err)
	}
	return &Source{Origin: origin, Tenant: "default", VKey: w.vkey, Identity: []byte("{}\n"), Tree: snap, Tiles: tiles.Dir(filepath.Join(w.dir, "log")),
		Vault: w.vault.Backup, Files: []Named{{"keys/registry.json", []byte("{}")}, {"witness/checkpoints.json", []byte("x")}},
		Secrets: []Named{{"keys/log.key", []byte(w.skey)}}, Now: time.Unix(1, 0)}
}

func (w *world) backup(from Point, passphrase string) (string, *Manifest) {
	w.t.Helper()
	src := w.source()
	src.Passphrase = passphrase
	var out bytes.Buffer
	m, err := Write(w.t.Context(), &out, src, from)
	if err != nil {
		w.t.Fatal(err)
	}
	name := filepath.Join(w.t.TempDir(), "backup")
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return name, m
}

func restore(t *testing.T, files ...string) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	_, err := Restore(t.Context(), dir, files, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		for _, d := range []string{dir, dir + ".restoring"} {
			if _, err := os.Stat(d); err == nil {
				t.Errorf("%s was left behind", filepath.Base(d))
			}
		}
	}
	return dir, err
}

// TestDUR03_ChainsOfBackups: whatever the sizes, the restored log opens with the
// guard of the copy and has exactly the files of its size.
func TestDUR03_ChainsOfBackups(t *testing.T) {
	w := newWorld(t)
	var files []string
	from := Point{}
	for _, n := range []int{3, 250, 3, 0, 1, 300, 65_100, 200} {
		w.grow(n)
		name, m := w.backup(from, "")
		files, from = append(files, name), m.To
	}
	dir, err := restore(t, files...)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	err = filepath.WalkDir(filepath.Join(dir, "log", "tile"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(filepath.Join(dir, "log"), path)
			got[filepath.ToSlash(rel)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tiles.Paths(0, from.Size, func(p tiles.Path) bool {
		if !got[p.String()] {
			t.Errorf("%s is missing", p)
		}
		delete(got, p.String())
		return true
	})
	if len(got) > 0 {
		t.Errorf("files of no use: %v", got)
	}
	signer, err := note.NewSigner(w.skey)
	if err != nil {
		t.Fatal(err)
	}
	log, err := tlog.Open(t.Context(), tlog.Config{Dir: filepath.Join(dir, "log"), GuardDir: filepath.Join(dir, "guard"), Origin: origin, Signer: signer,
		VerifierKey: w.vkey, CheckLeaf: func(uint64, []byte) error { return errors.New("no leaf is beyond the guard") }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close(context.Background())
	if _, err := log.Append(t.Context(), [][]byte{[]byte("next")}); err != nil || log.Size() != from.Size+1 {
		t.Errorf("size %d, %v", log.Size(), err)
	}
	v, err := vault.Open(filepath.Join(dir, "vault"), [32]byte{1}, vault.Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, n := range []int{1, 200, 500, w.n} {
		if _, err := v.Key(attempt(n)); err != nil {
			t.Errorf("attempt %d: %v", n, err)
		}
	}
}

// TestDUR03_ADamagedBackupIsRefused: cut anywhere, or with any file changed,
// missing, doubled or foreign, nothing is restored.
func TestDUR03_ADamagedBackupIsRefused(t *testing.T) {
	w := newWorld(t)
	w.grow(300)
	name, _ := w.backup(Point{}, "p")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	bad := func(what string, b []byte) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t, file); err == nil {
			t.Errorf("%s: restored", what)
		}
	}
	for _, n := range []int{0, 1, 511, 512, 1024, len(whole) / 2, len(whole) - 2048} {
		bad("cut", whole[:n])
	}
	type file struct {
		h    tar.Header
		data []byte
	}
	var files []file
	for r := tar.NewReader(bytes.NewReader(whole)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{*h, data})
	}
	pack := func(files []file) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, f := range files {
			f.h.Size = int64(len(f.data))
			if err := errors.Join(w.WriteHeader(&f.h), second(w.Write(f.data))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	for i, f := range files {
		copied := func() []file { return append([]file{}, files...) }
		if len(f.data) > 0 {
			c := copied()
			c[i].data = append([]byte{}, f.data...)
			c[i].data[len(f.data)/2] ^= 1
			bad("changed "+f.h.Name, pack(c))
		}
		bad("without "+f.h.Name, pack(append(copied()[:i], files[i+1:]...)))
		bad("twice "+f.h.Name, pack(append(copied()[:i+1], files[i:]...)))
	}
	for _, name := range []string{"../evil", "/etc/evil", "log/../evil", "log/tile/0/../../../evil", "vault/1", "keys/evil", "witness/../../evil", "witness/.x", "aside/a/b/c", "log/tile/0/000.p/256"} {
		f := file{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600}, []byte("x")}
		bad("foreign "+name, pack(append([]file{f}, files...)))
	}
	link := file{tar.Header{Typeflag: tar.TypeSymlink, Name: "log/checkpoint", Linkname: "/etc/passwd"}, nil}
	bad("a link", pack(append([]file{link}, files...)))
	if _, err := restore(t, name); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func second(_ int, err error) error { return err }

func TestDUR03_WhatDoesNotFitIsRefused(t *testing.T) {
	w := newWorld(t)
	w.grow(10)
	whole, m := w.backup(Point{}, "right")
	w.grow(10)
	more, m2 := w.backup(m.To, "")
	w.grow(10)
	last, _ := w.backup(m2.To, "")
	other := newWorld(t)
	other.grow(10)
	foreign, _ := other.backup(Point{}, "")
	for name, files := range map[string][]string{
		"none": {}, "continuation alone": {more}, "one left out": {whole, last}, "wrong order": {whole, last, more},
		"one twice": {whole, more, more}, "whole twice": {whole, whole}, "of another log": {whole, foreign}, "not there": {whole + ".none"},
	} {
		if _, err := restore(t, files...); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
	into := t.TempDir()
	if err := durable.WriteFile(filepath.Join(into, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	opts := Options{Logger: slog.New(slog.DiscardHandler)}
	if _, err := Restore(t.Context(), into, []string{whole}, opts); err == nil {
		t.Error("restored over files")
	}
	opts.Passphrase = "wrong"
	if _, err := Restore(t.Context(), filepath.Join(t.TempDir(), "d"), []string{whole}, opts); err == nil || !strings.Contains(err.Error(), "do not open") {
		t.Errorf("wrong passphrase: %v", err)
	}
	if _, err := Restore(t.Context(), filepath.Join(t.TempDir(), "d"), []string{foreign}, opts); err == nil {
		t.Error("a passphrase for a backup without keys was ignored")
	}
	// A key that came after the backup with the keys is named as missing.
	dirs := filepath.Join(t.TempDir(), "d")
	opts.Passphrase = "right"
	if r, err := Restore(t.Context(), dirs, []string{whole}, opts); err != nil || len(r.Missing) != 2 || r.Missing[1] != "keys/event.key" {
		t.Errorf("missing %+v, %v", r, err)
	}
	dir := filepath.Join(t.TempDir(), "d")
	if _, err := Restore(t.Context(), dir, []string{whole, more, last}, opts); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "keys", "log.key")); err != nil || string(b) != w.skey {
		t.Errorf("the key: %v", err)
	}
	src := w.source()
	if _, err := Write(t.Context(), io.Discard, src, Point{Size: 31}); err == nil {
		t.Error("continued a larger backup")
	}
}

// TestDUR03_VerifyWritesNothing: and says whether a witness has seen more.
func TestDUR03_VerifyWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.grow(10)
	name, m := w.backup(Point{}, "")
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(t.Context(), dir, []string{name}, Options{VerifyOnly: true, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	w.grow(5)
	cp, err := w.log.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	served := cp.Checkpoint.Note
	witness := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if served == nil {
			http.NotFound(rw, r)
			return
		}
		_, _ = rw.Write(served)
	}))
	defer witness.Close()
	policy := &trust.Policy{Witnesses: []trust.PolicyWitness{{Name: "w", URL: witness.URL}, {Name: "no URL"}}}
	ask := func() Seen {
		t.Helper()
		seen, err := Ask(t.Context(), policy, m, tiles.HTTPConfig{Attempts: 1})
		if err != nil || len(seen) != 1 {
			t.Fatalf("%v, %v", seen, err)
		}
		return seen[0]
	}
	if s := ask(); s.Err != nil || s.Size != 15 || s.Size <= m.To.Size {
		t.Errorf("ahead: %+v", s)
	}
	served = nil
	if s := ask(); s.Err != nil || s.Size != 0 {
		t.Errorf("without one: %+v", s)
	}
	other := newWorld(t)
	other.grow(3)
	snap, err := other.log.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	served = snap.Checkpoint.Note
	if s := ask(); s.Err == nil {
		t.Errorf("of another key: %+v", s)
	}
}

// TestDUR03_ADamagedLogIsNotBackedUp: a backup that nobody could restore is not
// made; one that continues an earlier one looks at what it holds.
func TestDUR03_ADamagedLogIsNotBackedUp(t *testing.T) {
	for _, path := range []string{"tile/entries/000", "tile/0/000", "tile/1/000.p/1"} {
		w := newWorld(t)
		w.grow(300)
		_, m := w.backup(Point{}, "")
		name := filepath.Join(w.dir, "log", path)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Write(t.Context(), io.Discard, w.source(), Point{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := Write(t.Context(), io.Discard, w.source(), m.To); path == "tile/entries/000" && err != nil {
			t.Errorf("%s, continued: %v", path, err)
		}
	}
}
