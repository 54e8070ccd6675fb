package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"counterfoil/internal/app"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/tlog/fetch"
)

// behind is how many leaves a node lacks in these tests: more than it takes one by one.
const behind = 5000

// fillNodes records events through all nodes that run.
func (ns *nodes) fillNodes(prefix string, n int) {
	ns.t.Helper()
	for i := 0; i < n; i += 1000 {
		l := ns.all[(i/1000)%3]
		if l == nil {
			l = ns.all[(i/1000+1)%3]
		}
		l.fill(fmt.Sprintf("%s-%d", prefix, i), min(1000, n-i))
	}
}

// said keeps what a node logs.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.b.String(), text)
}

// listenTo keeps what the node says at its next start.
func (ns *nodes) listenTo(i int) *said {
	s := &said{}
	ns.change = append(ns.change, func(cfg *app.Config) {
		if cfg.Dir == ns.data(i) {
			cfg.Logger = slog.New(slog.NewTextHandler(s, nil))
		}
	})
	return s
}

const (
	wasFetched = "this node has the log of the others' checkpoint"
	byStream   = "the log cannot be taken from the tiles of the others"
)

// TestCLU11_NodeFarBehindFetches: a node that was away takes what it missed from the
// others' tiles, one that lost its disk all of it, and each answers for all of it.
func TestCLU11_NodeFarBehindFetches(t *testing.T) {
	ns := threeNodes(t)
	id := ns.all[0].kept("kept", `{"secret":"of the attempt"}`)
	ns.settled(1)
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	ns.fillNodes("missed", behind)
	for _, state := range []string{"away", "emptied"} {
		if state == "emptied" {
			ns.stop(w)
			ns.wipe(w)
		}
		heard := ns.listenTo(w)
		ns.start(w)
		if !heard.has(wasFetched) {
			t.Errorf("%s: it did not take the tiles of the others", state)
		}
		ns.settled(behind + 1)
		if code := ns.all[w].repeat("kept", `{"secret":"of the attempt"}`); code != http.StatusOK {
			t.Errorf("%s: the same again: %d", state, code)
		}
		// What it did not see happen, its index knows: the same event is the same receipt.
		ns.all[w].want(http.StatusOK, "POST", "/v1/attempts", beginBody("missed-4000-999", `{"i":999,"text":"<&>é\u2028"}`))
		ns.all[w].verified(ns.all[w].get("/v1/attempts/" + id + "/bundle"))
	}
	ns.all[w].begin("afterwards")
	ns.settled(behind + 2)
	ns.stop(w)
	ns.fsck(w)
}

// TestCLU11_WrongTilesAndTheStream: where the others' addresses lead to somebody who
// serves wrong bytes, a node says so and catches up by the stream.
func TestCLU11_WrongTilesAndTheStream(t *testing.T) {
	ns := newNodes(t)
	var lies atomic.Int64
	var at [3]atomic.Pointer[url.URL] // of the nodes
	for i := range at {
		at[i].Store(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
		between := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at[i].Load()) },
			ModifyResponse: func(r *http.Response) error {
				if strings.Contains(r.Request.URL.Path, "/tile/entries/") {
					lies.Add(1)
					r.Body, r.ContentLength = http.NoBody, 0
					r.Header.Set("Content-Length", "0")
				}
				return nil
			},
		})
		t.Cleanup(between.Close)
		ns.change = append(ns.change, func(cfg *app.Config) {
			if cfg.Dir == ns.data(i) {
				cfg.ExternalURL = between.URL
			}
		})
	}
	ns.start(0, 1, 2)
	for i, l := range ns.all {
		u, err := url.Parse(l.Ready.Listening)
		if err != nil {
			t.Fatal(err)
		}
		at[i].Store(u)
	}
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	ns.fillNodes("missed", behind)
	ns.wipe(w)
	heard := ns.listenTo(w)
	ns.start(w)
	if lies.Load() == 0 || !heard.has(byStream) || !heard.has("a node is not asked for tiles any more") || heard.has(wasFetched) {
		t.Errorf("%d wrong answers; it said: %s", lies.Load(), heard.b.String())
	}
	ns.settled(behind)
	ns.all[w].begin("afterwards")
	ns.settled(behind + 1)
	ns.stop(w)
	ns.fsck(w)
}

// TestCLU11_NodeWithAnotherLeafStops: it says so with the place and both digests.
func TestCLU11_NodeWithAnotherLeafStops(t *testing.T) {
	ns := threeNodes(t)
	w := (ns.signer() + 1) % 3
	ns.fillNodes("call", behind)
	ns.settled(behind)
	ns.stop(w)
	for _, name := range []string{"log", "guard", "index", "views"} {
		if err := os.RemoveAll(filepath.Join(ns.data(w), name)); err != nil {
			t.Fatal(err)
		}
	}
	ns.fork(w, "not what the others have")
	_, err := app.Start(context.Background(), ns.config(w))
	var differ *fetch.DifferError
	if !errors.Is(err, tlog.ErrDisagrees) || !errors.As(err, &differ) || differ.Index != 0 || differ.Own == differ.Signed {
		t.Fatalf("a node with another leaf: %v", err)
	}
}

// TestVaultFailsBesideTheStart: a node's vault opens beside the other parts; that it
// does not open ends the start, with the reason.
func TestVaultFailsBesideTheStart(t *testing.T) {
	ns := threeNodes(t)
	ns.all[0].begin("one")
	ns.settled(1)
	w := (ns.signer() + 1) % 3
	ns.stop(w)
	if err := os.WriteFile(filepath.Join(ns.data(w), "vault", "MANIFEST"), []byte("not a manifest of anything"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := app.Start(context.Background(), ns.config(w))
	if err == nil || !strings.Contains(err.Error(), "vault: ") {
		t.Fatalf("a node whose vault is damaged: %v", err)
	}
}
