package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cosign "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/logkit"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
	"counterfoil/witness/state"
)

const origin = "example.com/log"

// testLog is a log that signs whatever it is asked to, by code of others.
type testLog struct {
	*testonly.Tree
	signer note.Signer
	key    trust.VerifierKey
}

// newLog has n leaves; two logs of different labels differ from index fork on.
func newLog(t testing.TB, name string, n, fork int, label string) testLog {
	t.Helper()
	l := logkit.New(t, name, n, logkit.Forked(fork, label))
	return testLog{l.Tree, l.Signer, l.Key}
}

func (l testLog) checkpoint(t testing.TB, size uint64) string {
	t.Helper()
	return l.sign(t, trust.Checkpoint{Origin: l.key.Name, Size: size, Root: [32]byte(l.HashAt(size))}.Text())
}

func (l testLog) sign(t testing.TB, text string) string {
	t.Helper()
	b, err := note.Sign(&note.Note{Text: text}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (l testLog) request(t testing.TB, old, proofFrom, size uint64) string {
	t.Helper()
	r := rule.Request{Old: old}
	var err error
	if r.Note, err = trust.ParseNote([]byte(l.checkpoint(t, size))); err != nil {
		t.Fatal(err)
	}
	if proofFrom > 0 && proofFrom < size {
		if r.Proof, err = l.ConsistencyProof(proofFrom, size); err != nil {
			t.Fatal(err)
		}
	}
	return string(r.Append(nil))
}

func (l testLog) grow(t testing.TB, old, size uint64) string { return l.request(t, old, old, size) }

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type witness struct {
	url   string
	dir   string
	key   *Key
	store *state.Store
	srv   *Server
	clock *clock
}

func newWitness(t testing.TB, qpd uint64, logs ...testLog) *witness {
	t.Helper()
	dir := t.TempDir()
	key, err := GenerateKey(filepath.Join(dir, "key"), "witness.example/w1", logkit.Seed("witness"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := state.Open(state.Config{Dir: filepath.Join(dir, "state"), Witness: key.Verifier()})
	if err != nil {
		t.Fatal(err)
	}
	var list []state.Log
	for _, l := range logs {
		list = append(list, state.Log{Key: l.key, Origin: l.key.Name, QPD: qpd, Contact: "c"})
	}
	if _, err := store.Import(list); err != nil {
		t.Fatal(err)
	}
	w := &witness{dir: filepath.Join(dir, "state"), key: key, store: store, clock: &clock{now: time.Unix(1_800_000_000, 0)}}
	w.srv = New(Config{Store: store, Key: key, Now: w.clock.Now, Logger: slog.New(slog.DiscardHandler)})
	hs := httptest.NewServer(w.srv)
	w.url = hs.URL
	t.Cleanup(func() {
		hs.Close()
		_ = store.Close()
	})
	return w
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (w *witness) post(t testing.TB, body string) reply {
	t.Helper()
	resp, err := http.Post(w.url+"/add-checkpoint", "", strings.NewReader(body))
	return read(t, resp, err)
}

func (w *witness) get(t testing.TB, path string) reply {
	t.Helper()
	resp, err := http.Get(w.url + path)
	return read(t, resp, err)
}

func read(t testing.TB, resp *http.Response, err error) reply {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// verify opens a checkpoint with cosignature by the code of others, and returns
// the time of the cosignature.
func (w *witness) verify(t testing.TB, signed string, l testLog) time.Time {
	t.Helper()
	v, err := cosign.NewVerifierForCosignatureV1(w.key.Verifier().String())
	if err != nil {
		t.Fatal(err)
	}
	lv, err := note.NewVerifier(l.key.String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(v, lv))
	if err != nil {
		t.Fatalf("%v\n%s", err, signed)
	}
	if len(n.Sigs) != 2 || len(n.UnverifiedSigs) != 0 {
		t.Fatalf("%d signatures verify, %d are unknown", len(n.Sigs), len(n.UnverifiedSigs))
	}
	for _, s := range n.Sigs {
		if s.Name == w.key.Verifier().Name {
			at, err := cosign.CoSigV1Timestamp(s)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatal("no cosignature")
	return time.Time{}
}
