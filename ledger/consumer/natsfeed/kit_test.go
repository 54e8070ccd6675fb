package natsfeed_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/freeport"
	"counterfoil/ledger/consumer"
	"counterfoil/ledger/consumer/natsfeed"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
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

// ledger is a ledger in this process, with an API and a NATS listener that keep
// their addresses over restarts.
type ledger struct {
	t      testing.TB
	cfg    app.Config
	server *app.Server // nil while it is stopped
	api    string      // base URL
	nats   string
	sent   int
}

func newLedger(t testing.TB, change ...func(*app.Config)) *ledger {
	t.Helper()
	l := &ledger{t: t, cfg: app.Config{Dir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Addr(t), NATSListen: freeport.Addr(t), Random: rand.Reader, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler)}}
	for _, c := range change {
		c(&l.cfg)
	}
	l.nats = "nats://" + l.cfg.NATSListen
	if l.cfg.NATS != "" {
		l.nats, l.cfg.NATSListen = l.cfg.NATS, ""
	}
	l.start()
	t.Cleanup(l.stop)
	return l
}

func (l *ledger) start() {
	l.t.Helper()
	l.server = must(app.Start(context.Background(), l.cfg))(l.t)
	l.api = l.server.Ready.Listening
}

func (l *ledger) stop() {
	l.t.Helper()
	if l.server != nil {
		if err := l.server.Stop(context.Background()); err != nil {
			l.t.Errorf("stop: %v", err)
		}
		l.server = nil
	}
}

func (l *ledger) get(path string) []byte {
	l.t.Helper()
	res := must(http.Get(l.api + path))(l.t)
	defer res.Body.Close()
	b := must(io.ReadAll(res.Body))(l.t)
	if res.StatusCode != http.StatusOK {
		l.t.Fatalf("GET %s: %s %s", path, res.Status, b)
	}
	return b
}

func (l *ledger) token() string {
	return strings.TrimSpace(string(must(os.ReadFile(filepath.Join(l.cfg.Dir, "token")))(l.t)))
}

func (l *ledger) consumerToken() string {
	if l.cfg.NATS != "" {
		return "" // a server that asks nobody
	}
	return strings.TrimSpace(string(must(os.ReadFile(filepath.Join(l.cfg.Dir, "consumer.token")))(l.t)))
}

// fill records n attempts; stage is what is waited for.
func (l *ledger) fill(n int, stage string) {
	l.t.Helper()
	if got := l.offer(n, stage); got != n {
		l.t.Fatalf("%d of a batch of %d were recorded", got, n)
	}
	l.sent += n
}

// offer offers the next n attempts and returns how many are recorded, now or
// before.
func (l *ledger) offer(n int, stage string) int {
	l.t.Helper()
	var body bytes.Buffer
	for i := range n {
		fmt.Fprintf(&body, `{"begin":{"source":{"runtimeId":"r","agentId":"a","invocationId":"call-%d","protocol":"mcp","implementation":"i"},`+
			`"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"tool","effectKind":"k","effectMode":"m"},"privateInput":1}}`+"\n", l.sent+i)
	}
	req := must(http.NewRequest(http.MethodPost, l.api+"/v1/events:batch?wait="+stage, &body))(l.t)
	req.Header.Set("Authorization", "Bearer "+l.token())
	res := must(http.DefaultClient.Do(req))(l.t)
	defer res.Body.Close()
	out := must(io.ReadAll(res.Body))(l.t)
	return bytes.Count(out, []byte(`"status":201`)) + bytes.Count(out, []byte(`"status":200`))
}

func (l *ledger) config() consumer.Config {
	l.t.Helper()
	file := must(trust.Parse(bytes.TrimSpace(l.get("/v1/trust"))))(l.t)
	return consumer.Config{Log: must(tiles.HTTP(l.api+"/log", tiles.HTTPConfig{Attempts: 1}))(l.t), Trust: file, Poll: 200 * time.Millisecond}
}

func (l *ledger) natsFeed() *natsfeed.Feed {
	l.t.Helper()
	f := must(natsfeed.Connect(natsfeed.Config{URL: l.nats, Token: l.consumerToken(), Origin: l.server.Ready.Origin}))(l.t)
	l.t.Cleanup(f.Close)
	return f
}

func (l *ledger) eventsFeed() *consumer.Events {
	l.t.Helper()
	f := must(consumer.NewEvents(consumer.EventsConfig{Server: l.api, Token: l.token()}))(l.t)
	l.t.Cleanup(f.Close)
	return f
}

// follow reads until n events are there, each index once and in order.
func follow(t testing.TB, f *consumer.Follower, from, n int) (events []consumer.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(events) < n {
		b, err := f.Next(ctx)
		if err != nil {
			t.Fatalf("after %d events: %v", len(events), err)
		}
		for _, e := range b.Events {
			if e.Index != uint64(from+len(events)) || e.Invalid != nil {
				t.Fatalf("event %d is leaf %d: %v", from+len(events), e.Index, e.Invalid)
			}
			events = append(events, e)
		}
	}
	return events
}

// fillWhenItCan records n attempts, of which some may be recorded already: the
// same again is the same event.
func (l *ledger) fillWhenItCan(n int) {
	l.t.Helper()
	for {
		if l.offer(n, "published") == n {
			l.sent += n
			return
		}
		if l.t.Context().Err() != nil {
			l.t.Fatal("the test is over")
		}
	}
}
