package state

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/logkit"
	"counterfoil/ledger/trust"
)

// logKey is a log's signer and key.
func logKey(t testing.TB, name string) (note.Signer, trust.VerifierKey) {
	t.Helper()
	return logkit.Key(t, name, logkit.Seed(name))
}

func witnessKey(t testing.TB, name string) trust.VerifierKey {
	t.Helper()
	_, k := logKey(t, name)
	w, err := trust.NewVerifierKey(name, trust.TypeCosignature, k.Public)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// latest is a signed checkpoint whose root is made from its size and a label.
func latest(t testing.TB, origin string, size uint64, label string, at uint64) Latest {
	t.Helper()
	s, _ := logKey(t, origin)
	c := trust.Checkpoint{Origin: origin, Size: size, Root: sha256.Sum256([]byte(label + strconv.FormatUint(size, 10)))}
	b, err := note.Sign(&note.Note{Text: c.Text()}, s)
	if err != nil {
		t.Fatal(err)
	}
	return Latest{Checkpoint: c, Note: string(b), Timestamp: at}
}

func config(t testing.TB) Config {
	dir := t.TempDir()
	return Config{Dir: filepath.Join(dir, "state"), GuardDir: filepath.Join(dir, "guard"), Markers: []string{filepath.Join(dir, "key.state")}, Witness: witnessKey(t, "witness.example")}
}

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func addLogs(t testing.TB, s *Store, origins ...string) {
	t.Helper()
	var list []Log
	for _, o := range origins {
		_, k := logKey(t, o)
		list = append(list, Log{Key: k, Origin: o, QPD: 100, Contact: "c"})
	}
	if _, err := s.Import(list); err != nil {
		t.Fatal(err)
	}
}

// set replaces the latest checkpoint of a log whatever it was.
func set(s *Store, l Latest) error {
	return s.Update(context.Background(), l.Checkpoint.Origin, func(Latest) (Latest, error) { return l, nil })
}

func mustSet(t testing.TB, s *Store, l Latest) {
	t.Helper()
	if err := set(s, l); err != nil {
		t.Fatal(err)
	}
}

func wantLatest(t testing.TB, s *Store, want Latest) {
	t.Helper()
	if got, _ := s.Latest(want.Checkpoint.Origin); got != want {
		t.Errorf("latest is %+v, want %+v", got, want)
	}
}

func wantRefused(t testing.TB, cfg Config, want error) {
	t.Helper()
	s, err := Open(cfg)
	if err == nil {
		_ = s.Close()
		t.Fatalf("opened, want %v", want)
	}
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
