package gate

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"counterfoil/internal/proxy/state"
	"counterfoil/internal/toolcontract"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

var (
	digest = event.DigestOf([]byte("x")).String()
	review = event.DigestOf([]byte("x")).EventID()
)

func good() client.Disposition {
	return client.Disposition{TreeSize: 1, Contract: "c", Known: true, Call: "queue", Reason: "contract_reported", ContractDigest: digest, ReviewEventID: review, ReasonCodes: []string{"a_b"}}
}

func TestREV28_WhatIsNoAnswerLetsNothingPass(t *testing.T) {
	ok := good()
	if err := check(&ok, "c"); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*client.Disposition){
		"another contract": func(d *client.Disposition) { d.Contract = "d" },
		"another word":     func(d *client.Disposition) { d.Call = "Allow" },
		"no word":          func(d *client.Disposition) { d.Call = "" },
		"unknown, passes":  func(d *client.Disposition) { d.Known = false },
		"without a digest": func(d *client.Disposition) { d.ContractDigest = "" },
		"no digest":        func(d *client.Disposition) { d.ContractDigest = "sha256:1" },
		"allow, a reason":  func(d *client.Disposition) { d.Call = "allow" },
		"no reason":        func(d *client.Disposition) { d.Reason = "" },
		"a text as reason": func(d *client.Disposition) { d.Reason = "do as I say" },
		"no event id":      func(d *client.Disposition) { d.ReviewEventID = digest },
		"a long message":   func(d *client.Disposition) { d.Message = strings.Repeat("x", maxMessage+1) },
		"no UTF-8":         func(d *client.Disposition) { d.Message = "\xff" },
		"a text as code":   func(d *client.Disposition) { d.ReasonCodes = []string{"do as I say"} },
		"many codes":       func(d *client.Disposition) { d.ReasonCodes = make([]string, maxReasons+1) },
		"no tools":         func(d *client.Disposition) { d.Tools = "all" },
	} {
		d := good()
		if change(&d); check(&d, "c") == nil {
			t.Errorf("%s: taken as an answer", name)
		}
	}
}

// asked is a ledger that answers when it is told to.
type asked struct {
	mu      sync.Mutex
	n       int
	release chan struct{}
	tools   string
}

func (a *asked) Disposition(ctx context.Context, _ string) (*client.Answer[client.Disposition], error) {
	a.mu.Lock()
	a.n++
	a.mu.Unlock()
	select {
	case <-a.release:
		d := good()
		d.Tools = a.tools
		return &client.Answer[client.Disposition]{Value: d}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func open(t *testing.T, l Ledger) *Gate {
	t.Helper()
	dir, err := state.Open(t.TempDir(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(Config{Ledger: l, State: dir, Contract: "c", Grace: DefaultGrace, Patience: 10 * time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// Calls that come together ask once, and wait no longer than one of them would.
func TestREV28_CallsThatComeTogetherAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &asked{release: make(chan struct{})}
		g := open(t, l)
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				if v := g.Ask(t.Context(), Shown{}); v.Refusal != nil || v.Refs["review"] != review {
					t.Errorf("got %+v", v)
				}
			})
		}
		synctest.Wait()
		close(l.release)
		calls.Wait()
		if g.Ask(t.Context(), Shown{}); l.n != 1 {
			t.Errorf("asked %d times", l.n)
		}
		time.Sleep(Fresh)
		if g.Ask(t.Context(), Shown{}); l.n != 1 {
			t.Errorf("asked %d times for an answer of 30 seconds", l.n)
		}
		time.Sleep(time.Millisecond)
		if g.Ask(t.Context(), Shown{}); l.n != 2 {
			t.Errorf("asked %d times for an older one", l.n)
		}
	})
}

// A ledger that hangs holds up the first calls for the patience, and later ones
// briefly.
func TestREV28_ALedgerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := open(t, &asked{release: make(chan struct{})})
		began := time.Now()
		if v := g.Ask(t.Context(), Shown{}); v.Refusal == nil || v.Refusal.Reason != ReasonNoAnswer || time.Since(began) != 10*time.Second {
			t.Errorf("got %+v after %v", v, time.Since(began))
		}
		began = time.Now()
		if v := g.Ask(t.Context(), Shown{}); v.Refusal == nil || time.Since(began) != briefly {
			t.Errorf("got %+v after %v", v, time.Since(began))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if v := g.Ask(gone, Shown{}); v.Refusal == nil {
			t.Errorf("got %+v", v)
		}
	})
}

// A server that shows its clients different lists cannot hide one behind the other.
func TestREV28_EachConnectionWasShownThePinnedTools(t *testing.T) {
	list := func(description string) []toolcontract.Tool {
		return []toolcontract.Tool{{Name: "t", Raw: []byte(`{"name":"t","description":"` + description + `"}`)}}
	}
	d, _ := toolcontract.Digest(list("good")[0].Raw)
	pinned := toolcontract.DigestList(map[string]string{"t": d.Definition})
	l := &asked{release: make(chan struct{}), tools: pinned}
	close(l.release)
	g := open(t, l)
	passes := func(s Shown, want bool) {
		t.Helper()
		if v := g.Ask(t.Context(), s); (v.Refusal == nil) != want || !want && v.Refusal.Reason != ReasonTools {
			t.Errorf("got %+v, want passes %v", v, want)
		}
	}
	var a, b, c Shown // c never lists
	passes(c, false)
	a = g.Saw(a, list("good"), true)
	passes(a, true)
	passes(c, true)
	b = g.Saw(b, list("evil"), true)
	for _, s := range []Shown{a, b, c} {
		passes(s, false)
	}
	a = g.Saw(a, list("good"), true)
	passes(a, true)
	passes(b, false)
	b = g.Saw(b, list("good"), false) // a page makes nothing good
	passes(b, false)
	b = g.Saw(b, list("good"), true)
	b = g.Saw(b, list("evil"), false)
	passes(a, false)
	a = g.Saw(a, list("good"), true)
	passes(a, true)
	passes(b, false)
	b = g.Saw(b, list("good"), true)
	passes(b, true)
	b = g.Changed()
	passes(a, false)
	a = g.Saw(a, list("good"), true)
	passes(a, true)
	passes(b, false)
}
