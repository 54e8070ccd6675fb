package audit_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
	"counterfoil/witness/rule"
)

// ledgerLog is a log that the real engine writes.
type ledgerLog struct {
	t    testing.TB
	dir  string // of the log
	log  *tlog.Log
	cfg  tlog.Config
	skey string
	vkey string
}

func tempDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if fi, err := os.Stat(memory); err != nil || !fi.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "audit-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newLog(t testing.TB) *ledgerLog {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, leaftest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	return openLog(t, tempDir(t), skey, vkey)
}

// fork is an empty log of the same key.
func (l *ledgerLog) fork() *ledgerLog {
	l.t.Helper()
	return openLog(l.t, tempDir(l.t), l.skey, l.vkey)
}

func openLog(t testing.TB, dir, skey, vkey string) *ledgerLog {
	t.Helper()
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledgerLog{t: t, dir: filepath.Join(dir, "log"), skey: skey, vkey: vkey}
	l.cfg = tlog.Config{Dir: l.dir, GuardDir: filepath.Join(dir, "guard"), Origin: leaftest.Origin, Signer: signer, VerifierKey: vkey, Create: true,
		CheckLeaf: func(uint64, []byte) error { return nil }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if l.log, err = tlog.Open(context.Background(), l.cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.log.Close(context.Background()) })
	return l
}

// add appends leaves and publishes the tree.
func (l *ledgerLog) add(leaves ...[]byte) *ledgerLog {
	l.t.Helper()
	if len(leaves) > 0 {
		if _, err := l.log.Append(context.Background(), leaves); err != nil {
			l.t.Fatal(err)
		}
	}
	if _, err := l.log.Publish(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	return l
}

func (l *ledgerLog) key() trust.VerifierKey {
	l.t.Helper()
	k, err := trust.ParseVerifierKey(l.vkey)
	if err != nil {
		l.t.Fatal(err)
	}
	return k
}

// trust trusts leaftest.Key for all leaves.
func (l *ledgerLog) trust(keys ...trust.EventKey) *trust.File {
	l.t.Helper()
	if len(keys) == 0 {
		keys = []trust.EventKey{eventKey(leaftest.Key)}
	}
	set, err := trust.NewEventKeys(keys)
	if err != nil {
		l.t.Fatal(err)
	}
	return &trust.File{Log: l.key(), EventKeys: set}
}

func eventKey(k ed25519.PrivateKey) trust.EventKey {
	pub := k.Public().(ed25519.PublicKey)
	return trust.EventKey{KeyID: event.KeyID(pub), PublicKey: pub}
}

func (l *ledgerLog) file(p tiles.Path) string {
	return filepath.Join(l.dir, filepath.FromSlash(p.String()))
}

// change alters a stored file.
func change(t testing.TB, name string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, how(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = slices.Clone(b)
		b[at] ^= 1
		return b
	}
}

// entryAt is where an entry's bytes begin in a bundle.
func entryAt(t testing.TB, bundle []byte, n int) int {
	t.Helper()
	at := 0
	for range n {
		at += 2 + int(bundle[at])<<8 + int(bundle[at+1])
	}
	return at + 2
}

// config audits the log from its directory.
func (l *ledgerLog) config(change ...func(*audit.Config)) audit.Config {
	l.t.Helper()
	cfg := audit.Config{Source: tiles.Dir(l.dir), Trust: l.trust(), TempDir: tempDir(l.t),
		Now: func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

func run(t testing.TB, cfg audit.Config) *audit.Report {
	t.Helper()
	r, err := audit.Run(context.Background(), cfg)
	if r == nil {
		t.Fatal("no report")
	}
	if err != nil && r.Error == "" {
		t.Errorf("error %v is not in the report", err)
	}
	return r
}

// verified demands a clean audit.
func verified(t testing.TB, cfg audit.Config) *audit.Report {
	t.Helper()
	r := run(t, cfg)
	if r.Status != audit.Verified || r.ExitCode() != 0 {
		t.Fatalf("%s", text(r))
	}
	return r
}

// refused demands exit code 1 and exactly these kinds of findings.
func refused(t testing.TB, cfg audit.Config, kinds ...audit.Kind) *audit.Report {
	t.Helper()
	r := run(t, cfg)
	if r.Status != audit.NotVerified || r.ExitCode() != 1 {
		t.Fatalf("expected findings %v, got %s", kinds, text(r))
	}
	var got []audit.Kind
	for _, f := range r.Findings.Listed {
		got = append(got, f.Kind)
	}
	if !slices.Equal(got, kinds) {
		t.Fatalf("findings %v, expected %v: %s", got, kinds, text(r))
	}
	if len(r.Claims) > 0 {
		t.Errorf("an audit that failed claims %q", r.Claims)
	}
	return r
}

func text(r *audit.Report) string {
	b, err := r.JSON()
	return fmt.Sprintf("%s %v", b, err)
}

// story makes n leaves of lawful attempts with outcomes.
func story(n int) [][]byte {
	var out [][]byte
	for i := 0; len(out) < n; i++ {
		b := leaftest.Begin(fmt.Sprintf("call-%d", i), nil)
		out = append(out, leaftest.Leaf(b))
		o := leaftest.After(b, event.Outcome, event.StatusSucceeded, "observed", nil)
		out = append(out, leaftest.Leaf(o))
	}
	return out[:n]
}

// files is every file below a directory with its content.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		if !strings.HasPrefix(rel, ".") {
			out[rel] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// copy is the stored log in a directory of its own, without its engine.
func (l *ledgerLog) copy() *ledgerLog {
	l.t.Helper()
	dir := filepath.Join(tempDir(l.t), "log")
	if err := os.CopyFS(dir, os.DirFS(l.dir)); err != nil {
		l.t.Fatal(err)
	}
	return &ledgerLog{t: l.t, dir: dir, skey: l.skey, vkey: l.vkey}
}

// witness is a key that cosigns.
type witness struct {
	key  trust.VerifierKey
	priv ed25519.PrivateKey
}

func newWitness(t testing.TB, name string) witness {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k, err := trust.NewVerifierKey(name, trust.TypeCosignature, pub)
	if err != nil {
		t.Fatal(err)
	}
	return witness{k, priv}
}

// cosign adds a cosignature to the log's checkpoint.
func (w witness) cosign(t testing.TB, l *ledgerLog, at uint64) {
	t.Helper()
	change(t, l.file(tiles.Path{Kind: tiles.Checkpoint}), func(b []byte) []byte {
		n, err := trust.ParseNote(b)
		if err != nil {
			t.Fatal(err)
		}
		line, err := rule.Cosignature(w.key, at, n.Text, ed25519.Sign(w.priv, rule.CosignatureMessage(at, n.Text)))
		if err != nil {
			t.Fatal(err)
		}
		n.Signatures = append(n.Signatures, line)
		return n.Append(nil)
	})
}
