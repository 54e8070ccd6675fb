package consumer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// identity is a log's key. Two logs can have the same: that is a fork.
type identity struct {
	signer note.Signer
	vkey   string
}

func newIdentity(t testing.TB) identity {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, leaftest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	return identity{must(note.NewSigner(skey))(t), vkey}
}

// testLog is a log of the real kind, and a server in front of it that lies as
// the test wishes.
type testLog struct {
	t    testing.TB
	id   identity
	dir  string
	log  *tlog.Log
	http *httptest.Server

	mu       sync.Mutex
	change   map[string]func([]byte) []byte // path → what is served instead; nil is 404
	requests map[string]int
	from     string // directory that is served
}

func newLog(t testing.TB, id identity) *testLog {
	t.Helper()
	root := tempDir(t)
	l := &testLog{t: t, id: id, dir: filepath.Join(root, "log"), change: map[string]func([]byte) []byte{}, requests: map[string]int{}}
	l.from = l.dir
	l.log = must(tlog.Open(context.Background(), tlog.Config{Dir: l.dir, GuardDir: filepath.Join(root, "guard"), Origin: leaftest.Origin,
		Signer: id.signer, VerifierKey: id.vkey, Create: true, CheckLeaf: func(uint64, []byte) error { return nil }, Logger: slog.New(slog.DiscardHandler)}))(t)
	l.http = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(func() {
		l.http.Close()
		_ = l.log.Close(context.Background())
	})
	return l
}

// tempDir is in memory where that is possible: no test here can tell whether a
// flush reaches a disk.
func tempDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if fi, err := os.Stat(memory); err == nil && fi.IsDir() {
		if dir, err := os.MkdirTemp(memory, "consumer-test-"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			return dir
		}
	}
	return t.TempDir()
}

func (l *testLog) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[path]++
	data, err := os.ReadFile(filepath.Join(l.from, filepath.FromSlash(path)))
	if change := l.change[path]; change != nil {
		err = nil
		data = change(data)
	}
	if err != nil || data == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(data)
}

// add appends leaves and publishes.
func (l *testLog) add(leaves ...[]byte) *testLog {
	l.t.Helper()
	for len(leaves) > 0 {
		n := min(len(leaves), 1024)
		if _, err := l.log.Append(l.t.Context(), leaves[:n]); err != nil {
			l.t.Fatal(err)
		}
		leaves = leaves[n:]
	}
	if _, err := l.log.Publish(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	return l
}

// lie changes what is served at a path; nil serves the truth again.
func (l *testLog) lie(path string, change func([]byte) []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change[path] = change
}

// serveFrom serves the tiles and checkpoints of another log.
func (l *testLog) serveFrom(other *testLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = other.dir
}

func (l *testLog) asked(prefix string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, times := range l.requests {
		if strings.HasPrefix(p, prefix) {
			n += times
		}
	}
	return n
}

// checkpoint is the note that the log has published.
func (l *testLog) checkpoint() []byte {
	l.t.Helper()
	return must(os.ReadFile(filepath.Join(l.dir, "checkpoint")))(l.t)
}

func always(b []byte) func([]byte) []byte { return func([]byte) []byte { return b } }

func withheld([]byte) []byte { return nil }

// flip flips one bit of a byte; negative counts from the end.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = append([]byte(nil), b...)
		if at < 0 {
			b[len(b)+at] ^= 1
		} else {
			b[at] ^= 1
		}
		return b
	}
}

// source is the log over HTTP, without retries of its own.
func (l *testLog) source() tiles.Source {
	l.t.Helper()
	return must(tiles.HTTP(l.http.URL, tiles.HTTPConfig{Attempts: 1}))(l.t)
}

func (id identity) trust(t testing.TB) *trust.File {
	t.Helper()
	pub := leaftest.Key.Public().(ed25519.PublicKey)
	keys := must(trust.NewEventKeys([]trust.EventKey{{KeyID: event.KeyID(pub), PublicKey: pub}}))(t)
	return &trust.File{Log: must(trust.ParseVerifierKey(id.vkey))(t), EventKeys: keys}
}

// signed signs a checkpoint text with the log's key, whatever it says.
func (id identity) signed(t testing.TB, cp trust.Checkpoint) []byte {
	t.Helper()
	return must(note.Sign(&note.Note{Text: cp.Text()}, id.signer))(t)
}

// witness is a cosigner.
type witness struct {
	key     trust.VerifierKey
	signer  note.Signer
	private ed25519.PrivateKey
}

func newWitness(t testing.TB, name string) witness {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	public := private.Public().(ed25519.PublicKey)
	plain := must(trust.NewVerifierKey(name, trust.TypeEd25519, public))(t)
	key := must(trust.NewVerifierKey(name, trust.TypeCosignature, public))(t)
	skey := fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, plain.ID, base64.StdEncoding.EncodeToString(append([]byte{1}, seed[:]...)))
	return witness{key, must(cosign.NewSignerForCosignatureV1(skey))(t), private}
}

// cosigned adds the cosignatures of witnesses to a note.
func cosigned(t testing.TB, raw []byte, ws ...witness) []byte {
	t.Helper()
	for _, w := range ws {
		n := must(trust.ParseNote(raw))(t)
		only := must(note.Sign(&note.Note{Text: n.Text}, w.signer))(t)
		raw = append(append([]byte(nil), raw...), only[len(n.Text)+1:]...)
	}
	return raw
}

// records are n signed records of different attempts.
func records(prefix string, n int) [][]byte {
	leaves := make([][]byte, n)
	for i := range leaves {
		leaves[i] = leaftest.Leaf(leaftest.Begin(fmt.Sprintf("%s-%d", prefix, i), nil))
	}
	return leaves
}

// collect reads to the end, and demands that nothing is wrong.
func collect(t testing.TB, cfg consumer.Config) []consumer.Event {
	t.Helper()
	events, err := collectErr(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func collectErr(t testing.TB, cfg consumer.Config) (events []consumer.Event, err error) {
	t.Helper()
	cfg.Stop = true
	if cfg.Pause == nil {
		cfg.Pause = noPause
	}
	f := must(consumer.New(cfg))(t)
	for e, err := range f.Events(t.Context()) {
		if err != nil {
			again, second := f.Next(t.Context())
			var u *consumer.UnavailableError
			var q *consumer.QuorumError
			if again != nil || !errors.As(err, &u) && !errors.As(err, &q) && second != err {
				t.Errorf("after the error %q: %v, %v", err, again, second)
			}
			return events, err
		}
		events = append(events, *e)
	}
	return events, nil
}

func noPause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// same demands that events are exactly the leaves from an index on.
func same(t testing.TB, events []consumer.Event, leaves [][]byte, from int) {
	t.Helper()
	if len(events) != max(0, len(leaves)-from) {
		t.Fatalf("%d events, want %d", len(events), max(0, len(leaves)-from))
	}
	for i, e := range events {
		want := leaves[from+i]
		if e.Index != uint64(from+i) || string(e.Leaf) != string(want) || e.Hash != tiles.LeafHashOf(want) || (e.Record == nil) != (e.Invalid != nil) {
			t.Fatalf("event %d is %d, %.80q", from+i, e.Index, e.Leaf)
		}
	}
}

// timeless adds a cosignature with time 0 to a note.
func timeless(t testing.TB, raw []byte, w witness) []byte {
	t.Helper()
	n := must(trust.ParseNote(raw))(t)
	sig := append(make([]byte, 8), ed25519.Sign(w.private, []byte("cosignature/v1\ntime 0\n"+n.Text))...)
	n.Signatures = append(n.Signatures, trust.NoteSignature{Name: w.key.Name, ID: w.key.ID, Sig: sig})
	return n.Append(nil)
}
