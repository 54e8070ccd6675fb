package app_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/ledger/trust"
	"counterfoil/witness/server"
	"counterfoil/witness/state"
)

// witness is one of our own witnesses behind a proxy that can misbehave.
type witness struct {
	t     testing.TB
	name  string // in the policy, and of the key
	dir   string
	key   *server.Key
	store *state.Store
	http  *httptest.Server
	// bad answers instead of the witness; nil lets everything through.
	bad  atomic.Pointer[func(w http.ResponseWriter, r *http.Request, honest http.Handler)]
	asks atomic.Int64 // add-checkpoint requests
}

// newWitness runs a witness that knows one log.
func newWitness(t testing.TB, name string, log trust.VerifierKey) *witness {
	t.Helper()
	w := &witness{t: t, name: name, dir: t.TempDir()}
	var err error
	if w.key, err = server.GenerateKey(filepath.Join(w.dir, "key"), name, rand.Reader); err != nil {
		t.Fatal(err)
	}
	if w.store, err = state.Open(state.Config{Dir: filepath.Join(w.dir, "state"), Witness: w.key.Verifier()}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Import([]state.Log{{Key: log, Origin: log.Name, QPD: 1 << 40, Contact: "c"}}); err != nil {
		t.Fatal(err)
	}
	honest := server.New(server.Config{Store: w.store, Key: w.key, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	w.http = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.asks.Add(1)
		}
		if f := w.bad.Load(); f != nil {
			(*f)(rw, r, honest)
			return
		}
		honest.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		w.http.CloseClientConnections()
		w.http.Close()
		_ = w.store.Close()
	})
	return w
}

// misbehave lets f answer from now on; nil ends it.
func (w *witness) misbehave(f func(w http.ResponseWriter, r *http.Request, honest http.Handler)) {
	if f == nil {
		w.bad.Store(nil)
		return
	}
	w.bad.Store(&f)
}

// status answers everything with a status.
func status(code int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(w, "no", code) }
}

// lose lets the witness do its work and answers with 502.
func lose(w http.ResponseWriter, r *http.Request, honest http.Handler) {
	honest.ServeHTTP(httptest.NewRecorder(), r)
	http.Error(w, "bad gateway", http.StatusBadGateway)
}

// size is that of the latest checkpoint that the witness cosigned of the log.
func (w *witness) size(origin string) uint64 {
	l, _ := w.store.Latest(origin)
	return l.Checkpoint.Size
}

// home is a data directory whose log has its key, and which no ledger runs on.
type home struct {
	dir string
	log trust.VerifierKey
}

func newHome(t testing.TB) home {
	t.Helper()
	h := home{dir: filepath.Join(t.TempDir(), "data")}
	l := startLedger(t, h.dir)
	h.log = l.trust().Log
	l.stop()
	return h
}

// policy writes a policy of k of the witnesses.
func (h home) policy(t testing.TB, k int, ws ...*witness) string {
	t.Helper()
	b := fmt.Appendf(nil, "log %s\n", h.log)
	group := fmt.Sprintf("group all-of-them %d", k)
	for _, w := range ws {
		b = fmt.Appendf(b, "witness %s %s %s\n", w.name, w.key.Verifier(), w.http.URL)
		group += " " + w.name
	}
	b = append(b, group+"\nquorum all-of-them\n"...)
	path := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (h home) start(t testing.TB, k int, ws ...*witness) *ledger {
	t.Helper()
	path := h.policy(t, k, ws...)
	return startLedger(t, h.dir, func(c *app.Config) { c.WitnessPolicy = path })
}

// grow adds events until the log has n leaves, published.
func (l *ledger) grow(n int) {
	l.t.Helper()
	at := int(l.streamLast())
	var body []byte
	for i := at; i < n; i++ {
		body = fmt.Appendf(append(body, `{"begin":`...), `%s}`+"\n", beginBody(fmt.Sprintf("grow-%d", i), "1"))
	}
	code, b := l.raw("POST", "/v1/events:batch?wait=published", body, l.Token)
	if code != http.StatusOK || bytes.Count(b, []byte(`"status":201`)) != n-at {
		l.t.Fatalf("grow to %d: %d %.500s", n, code, b)
	}
}

// public is the checkpoint that everybody is shown.
func (l *ledger) public() (*trust.Note, trust.Checkpoint) {
	l.t.Helper()
	n, err := trust.ParseNote(l.get("/log/checkpoint"))
	if err != nil {
		l.t.Fatal(err)
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		l.t.Fatal(err)
	}
	return n, cp
}

// signed reports whether a witness cosigned a note.
func (w *witness) signed(n *trust.Note) bool {
	w.t.Helper()
	v, err := n.VerifyBy(w.key.Verifier())
	if err != nil {
		w.t.Fatal(err)
	}
	return v.Lines > 0 && v.Timestamp > 0
}

// until asks again until ok, without a limit of its own: go test has one.
func until(ok func() bool) {
	for !ok() {
		runtime.Gosched()
	}
}

// witnessed waits until the public checkpoint has size and the cosignatures of
// the witnesses.
func (l *ledger) witnessed(size uint64, ws ...*witness) *trust.Note {
	l.t.Helper()
	var note *trust.Note
	until(func() bool {
		n, cp := l.public()
		for _, w := range ws {
			if cp.Size < size || !w.signed(n) {
				return false
			}
		}
		note = n
		return cp.Size >= size
	})
	return note
}

// check is a check of readyz.
func (l *ledger) check(name string) (ok bool, detail string) {
	l.t.Helper()
	_, b := l.raw("GET", "/readyz", nil, "")
	for _, c := range decoded(l.t, b)["checks"].([]any) {
		if text(c, "name") == name {
			ok, _ = at(c, "ok").(bool)
			return ok, text(c, "detail")
		}
	}
	l.t.Fatalf("readyz has no check %q: %s", name, b)
	return false, ""
}
