package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/logkit"
	"counterfoil/internal/testkit/outkit"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
	"counterfoil/witness/server"
	"counterfoil/witness/state"
)

const origin = "example.com/log"

// testLog is a log that signs whatever it is asked to. Two logs of one name have
// one key; those of different labels have other leaves from index fork on.
type testLog struct {
	*testonly.Tree
	signer note.Signer
	key    trust.VerifierKey

	mu      sync.Mutex
	durable uint64 // size of the own tree; leaves beyond are others'
	coming  uint64 // size that it will reach
	fault   error  // of everything that reads it
}

func newLog(t testing.TB, name string, n, fork int, label string) *testLog {
	t.Helper()
	l := logkit.New(t, name, n, logkit.Forked(fork, label))
	return &testLog{Tree: l.Tree, signer: l.Signer, key: l.Key, durable: uint64(n), coming: uint64(n)}
}

func (l *testLog) has(durable, coming uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durable, l.coming = durable, coming
}

func (l *testLog) Consistency(_ context.Context, old, size uint64) ([][]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault != nil || old == 0 || old == size {
		return nil, l.fault
	}
	return l.ConsistencyProof(old, size)
}

func (l *testLog) Judge(_ context.Context, size uint64, root [32]byte) (Fit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fault != nil:
		return 0, l.fault
	case size > l.coming:
		return SetBack, nil
	case size > l.durable:
		return Behind, nil
	case [32]byte(l.HashAt(size)) == root:
		return Holds, nil
	}
	return Differs, nil
}

func (l *testLog) checkpoint(t testing.TB, size uint64) []byte {
	t.Helper()
	c := trust.Checkpoint{Origin: l.key.Name, Size: size, Root: [32]byte(l.HashAt(size))}
	b, err := note.Sign(&note.Note{Text: c.Text()}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *testLog) request(t testing.TB, old, size uint64) []byte {
	t.Helper()
	r := rule.Request{Old: old}
	var err error
	if r.Note, err = trust.ParseNote(l.checkpoint(t, size)); err != nil {
		t.Fatal(err)
	}
	if r.Proof, err = l.Consistency(context.Background(), old, size); err != nil {
		t.Fatal(err)
	}
	return r.Append(nil)
}

// witnessed is a real witness that is reached without a network, so that its
// time is that of a bubble.
type testWitness struct {
	name  string
	key   *server.Key
	store *state.Store
	srv   http.Handler

	mu   sync.Mutex
	bad  http.HandlerFunc // answers in place of it
	asks []rule.Request   // what it was asked
}

func newWitness(t testing.TB, name string, logs ...*testLog) *testWitness {
	t.Helper()
	dir := t.TempDir()
	w := &testWitness{name: name}
	var err error
	if w.key, err = server.GenerateKey(filepath.Join(dir, "key"), name+".example", logkit.Seed(name)); err != nil {
		t.Fatal(err)
	}
	if w.store, err = state.Open(state.Config{Dir: filepath.Join(dir, "state"), Witness: w.key.Verifier()}); err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		if _, err := w.store.Import([]state.Log{{Key: l.key, Origin: l.key.Name, QPD: 1 << 40, Contact: "c"}}); err != nil {
			t.Fatal(err)
		}
	}
	w.srv = server.New(server.Config{Store: w.store, Key: w.key, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	return w
}

// knows brings the witness to a size of a log.
func (w *testWitness) knows(t testing.TB, l *testLog, size uint64) *testWitness {
	t.Helper()
	rec := httptest.NewRecorder()
	w.srv.ServeHTTP(rec, httptest.NewRequest("POST", "/add-checkpoint", bytes.NewReader(l.request(t, w.size(), size))))
	if rec.Code != http.StatusOK {
		t.Fatalf("%s at %d: %d %s", w.name, size, rec.Code, rec.Body)
	}
	return w
}

func (w *testWitness) size() uint64 {
	l, _ := w.store.Latest(origin)
	return l.Checkpoint.Size
}

func (w *testWitness) misbehave(f http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = f
}

func (w *testWitness) asked() []rule.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]rule.Request(nil), w.asks...)
}

func (w *testWitness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	bad := w.bad
	if r.Method == http.MethodPost {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if req, err := rule.ParseRequest(b); err == nil {
			w.asks = append(w.asks, *req)
		} else {
			panic(fmt.Sprintf("a malformed request: %v: %q", err, b))
		}
	}
	w.mu.Unlock()
	if bad != nil {
		bad(rw, r)
		return
	}
	w.srv.ServeHTTP(rw, r)
}

// later answers after a time, unless the client goes.
func (w *testWitness) later(d time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
			return
		}
		w.srv.ServeHTTP(rw, r)
	}
}

// wire reaches witnesses by their names.
type wire map[string]http.Handler

func (x wire) RoundTrip(r *http.Request) (*http.Response, error) {
	h := x[r.URL.Host]
	if h == nil {
		return nil, fmt.Errorf("no route to %s", r.URL.Host)
	}
	done := make(chan *http.Response, 1)
	go func() {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		done <- rec.Result()
	}()
	select {
	case res := <-done:
		return res, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// kit is a gatherer for a log, in a bubble.
type kit struct {
	*Gatherer
	t    testing.TB
	log  *testLog
	logs *outkit.Buffer
	end  func()
}

func policyOf(t testing.TB, l *testLog, k int, ws ...*testWitness) *trust.Policy {
	t.Helper()
	text := fmt.Sprintf("log %s\n", l.key)
	group := fmt.Sprintf("group g %d", k)
	for _, w := range ws {
		text += fmt.Sprintf("witness %s %s http://%s/prefix/\n", w.name, w.key.Verifier(), w.name)
		group += " " + w.name
	}
	if k == 0 {
		text += "quorum none\n"
	} else {
		text += group + "\nquorum g\n"
	}
	p, err := trust.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func configOf(t testing.TB, dir string, l *testLog, k int, ws ...*testWitness) Config {
	x := wire{}
	for _, w := range ws {
		x[w.name] = http.StripPrefix("/prefix", w)
	}
	return Config{Policy: policyOf(t, l, k, ws...), Log: l.key, Dir: dir, Tree: l, Transport: x, UserAgent: "test", Random: rand.Reader, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler)}
}

// gather runs a gatherer; stop ends it.
func gather(t testing.TB, dir string, l *testLog, k int, ws ...*testWitness) *kit {
	t.Helper()
	logs := &outkit.Buffer{}
	cfg := configOf(t, dir, l, k, ws...)
	cfg.Logger = slog.New(slog.NewTextHandler(logs, nil))
	g, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &kit{Gatherer: g, t: t, log: l, logs: logs}
}

func (k *kit) start() *kit {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		k.Run(ctx)
		close(done)
	}()
	k.end = func() {
		cancel()
		<-done
	}
	return k
}

func (k *kit) stop() { k.end() }

func (k *kit) offer(size uint64) {
	k.t.Helper()
	if err := k.Offer(k.log.checkpoint(k.t, size)); err != nil {
		k.t.Fatal(err)
	}
}

// settle waits until nothing happens without time passing.
func settle() { synctest.Wait() }

func (k *kit) witness(name string) WitnessStatus {
	k.t.Helper()
	for _, w := range k.Status().Witnesses {
		if w.Name == name {
			return w
		}
	}
	k.t.Fatalf("no witness %s", name)
	return WitnessStatus{}
}

// over is the checkpoint shown for a leaf.
func (k *kit) over(leaf uint64) Checkpoint {
	k.t.Helper()
	c, ok := k.Covering(leaf)
	if !ok {
		k.t.Fatalf("no checkpoint covers leaf %d", leaf)
	}
	return c
}

// verify demands that a note is the log's, byte for byte, with lines of the
// witnesses and no others.
func (k *kit) verify(c Checkpoint, ws ...*testWitness) {
	k.t.Helper()
	own := string(k.log.checkpoint(k.t, c.Size))
	if !strings.HasPrefix(string(c.Note), own) {
		k.t.Errorf("the note does not begin with the log's:\n%s", c.Note)
	}
	n, err := trust.ParseNote(c.Note)
	if err != nil {
		k.t.Fatal(err)
	}
	if len(n.Signatures) != 1+len(ws) {
		k.t.Errorf("%d signatures, want %d:\n%s", len(n.Signatures), 1+len(ws), c.Note)
	}
	for _, w := range ws {
		if v, err := n.VerifyBy(w.key.Verifier()); err != nil || v.Lines != 1 || v.Timestamp == 0 {
			k.t.Errorf("%s: %v %v", w.name, v, err)
		}
	}
}

func hash(origin string) string {
	h := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(h[:])
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
