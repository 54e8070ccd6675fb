package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/rule"
)

// auditedLog is a log that the real engine writes, served as static files.
type auditedLog struct {
	t       *testing.T
	dir     string
	log     *tlog.Log
	history // its key
	url     string
	down    atomic.Bool
}

func newAuditedLog(t *testing.T) *auditedLog {
	t.Helper()
	h := newHistory(t, leaftest.Origin, "", 0)
	dir := t.TempDir()
	l := &auditedLog{t: t, dir: filepath.Join(dir, "log"), history: h}
	var err error
	l.log, err = tlog.Open(context.Background(), tlog.Config{Dir: l.dir, GuardDir: filepath.Join(dir, "guard"), Origin: leaftest.Origin, Signer: h.signer,
		VerifierKey: h.key.String(), Create: true, CheckLeaf: func(uint64, []byte) error { return nil }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.log.Close(context.Background()) })
	static := http.FileServer(http.Dir(l.dir))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.down.Load() {
			http.Error(w, "down", http.StatusNotImplemented)
			return
		}
		static.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	l.url = srv.URL
	return l
}

// grow appends leaves, publishes, and returns the request for a cosignature.
func (l *auditedLog) grow(leaves ...[]byte) string {
	l.t.Helper()
	old := l.log.PublishedSize()
	if _, err := l.log.Append(context.Background(), leaves); err != nil {
		l.t.Fatal(err)
	}
	cp, err := l.log.Publish(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	return l.body(old, cp.Size, cp.Note)
}

func (l *auditedLog) body(old, size uint64, signed []byte) string {
	l.t.Helper()
	r := rule.Request{Old: old}
	var err error
	if r.Note, err = trust.ParseNote(signed); err != nil {
		l.t.Fatal(err)
	}
	if r.Proof, err = tiles.NewReader(tiles.Dir(l.dir), tiles.Options{}).Consistency(context.Background(), old, size); err != nil {
		l.t.Fatal(err)
	}
	return string(r.Append(nil))
}

func lawful(from, n int) (out [][]byte) {
	for i := from; len(out) < n; i++ {
		b := leaftest.Begin("call-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), nil)
		out = append(out, leaftest.Leaf(b), leaftest.Leaf(leaftest.After(b, event.Outcome, event.StatusSucceeded, "e", nil)))
	}
	return out[:n]
}

func TestLOG11_AuditedWitnessCosignsOnlyWhatPasses(t *testing.T) {
	l := newAuditedLog(t)
	dir, args := place(t, l.history)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := trust.File{Log: l.key}
	var err error
	if file.EventKeys, err = trust.NewEventKeys([]trust.EventKey{leaftestKey()}); err != nil {
		t.Fatal(err)
	}
	write("trust.json", string(file.Append(nil)))
	args = append(args, "--audit", write("audit", "# logs\n"+leaftest.Origin+" "+l.url+" trust.json\n"))
	c, err := start(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	answered := func(body string, want int, say string) {
		t.Helper()
		resp, err := http.Post(c.Listening+"/add-checkpoint", "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != want || !strings.Contains(string(b), say) {
			t.Errorf("%d %s, expected %d and %q", resp.StatusCode, b, want, say)
		}
		if (resp.Header.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("Retry-After %q with %d", resp.Header.Get("Retry-After"), want)
		}
	}
	first := l.grow(lawful(0, 300)...)
	l.down.Store(true)
	answered(first, 503, "not audited yet")
	l.down.Store(false)
	answered(first, 200, "— witness.example/w1 ")
	answered(first, 409, "300") // the old size is wrong now; nothing is audited for that

	// A restart after a kill goes on with the new leaves.
	c.kill()
	if c, err = start(t, args...); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(l.dir, "tile", "entries", "000")
	if err := os.Rename(hidden, hidden+".away"); err != nil {
		t.Fatal(err)
	}
	answered(l.grow(lawful(1000, 300)...), 200, "— witness.example/w1 ")
	if err := os.Rename(hidden+".away", hidden); err != nil {
		t.Fatal(err)
	}

	// A fork is refused for what it is, not for its leaves.
	forged, err := note.Sign(&note.Note{Text: trust.Checkpoint{Origin: leaftest.Origin, Size: 600, Root: [32]byte{1}}.Text()}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	answered(l.body(600, 600, forged), 422, "another root")

	bad := l.grow(leaftest.LeafBy(leaftest.Other, leaftest.Begin("forged", nil)))
	answered(bad, 403, "no signature of leaf 600 is by a trusted event key")
	resp, err := http.Get(c.Listening + "/" + hexOf(leaftest.Origin) + "/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); !bytes.HasPrefix(b, []byte(leaftest.Origin+"\n600\n")) {
		t.Errorf("the latest cosigned checkpoint is %s", b)
	}
}

func TestAuditFileIsReadStrictly(t *testing.T) {
	l := newAuditedLog(t)
	dir, args := place(t, l.history)
	file := trust.File{Log: l.key}
	var err error
	if file.EventKeys, err = trust.NewEventKeys([]trust.EventKey{leaftestKey()}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"trust.json": string(file.Append(nil)), "bad.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"":                               "names no log",
		"a b":                            "line 1: 2 words",
		"\n\nx " + l.url + " trust.json": "line 3: the trust file is of log",
		leaftest.Origin + " " + l.url + " gone.json":                    "no such file",
		leaftest.Origin + " " + l.url + " bad.json":                     "malformed trust file",
		leaftest.Origin + " ftp://x trust.json":                         "expected http",
		leaftest.Origin + " " + l.url + " trust.json allow-parked many": "no number",
		strings.Repeat(leaftest.Origin+" "+l.url+" trust.json\n", 2):    "audited twice",
	} {
		path := filepath.Join(dir, "audit")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := start(t, append(args, "--audit", path)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
			if c != nil {
				c.kill()
			}
		}
	}
}

func leaftestKey() trust.EventKey {
	pub := leaftest.Key.Public().(ed25519.PublicKey)
	return trust.EventKey{KeyID: event.KeyID(pub), PublicKey: pub}
}

func hexOf(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:])
}
