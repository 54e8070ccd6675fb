package natsfeed_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"counterfoil/internal/testkit/freeport"
	"counterfoil/internal/testkit/natskit"
	"counterfoil/ledger/consumer"
	"counterfoil/ledger/consumer/natsfeed"
	"counterfoil/ledger/tiles"
)

func TestMain(m *testing.M) {
	natskit.Child()
	os.Exit(m.Run())
}

// front is what stands between a follower and the log's server.
type front struct {
	*httptest.Server
	bundles    atomic.Int64 // requests for entry bundles
	mu         sync.Mutex
	checkpoint []byte // served instead of the ledger's; nil for that
}

func newFront(t testing.TB, l *ledger) *front {
	t.Helper()
	to := must(url.Parse(l.api))(t)
	proxy := httputil.NewSingleHostReverseProxy(to)
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		held := f.checkpoint
		f.mu.Unlock()
		if held != nil && r.URL.Path == "/log/checkpoint" {
			_, _ = w.Write(held)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/log/tile/entries/") {
			f.bundles.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *front) hold(checkpoint []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checkpoint = checkpoint
}

func (f *front) source(t testing.TB) tiles.Source {
	t.Helper()
	return must(tiles.HTTP(f.URL+"/log", tiles.HTTPConfig{Attempts: 1}))(t)
}

// Tiles, event stream and NATS give the same events; with a feed the leaves
// themselves are not read from the tiles.
func TestLOG12_EveryWayGivesTheSame(t *testing.T) {
	l := newLedger(t)
	l.fill(600, "published")
	plain := follow(t, must(consumer.New(l.config()))(t), 0, 600)
	for name, feed := range map[string]consumer.Feed{"nats": l.natsFeed(), "events": l.eventsFeed()} {
		for _, from := range []int{0, 1, 300, 599} {
			front := newFront(t, l)
			cfg := l.config()
			cfg.Feed, cfg.From, cfg.Log, cfg.Batch = feed, uint64(from), front.source(t), 100
			cfg.Waiting = func(err error, _ time.Duration) { t.Errorf("%s: %v", name, err) }
			events := follow(t, must(consumer.New(cfg))(t), from, 600-from)
			for i, e := range events {
				if want := plain[from+i]; e.Hash != want.Hash || string(e.Leaf) != string(want.Leaf) || e.KeyID != want.KeyID {
					t.Fatalf("%s from %d: event %d differs", name, from, i)
				}
			}
			if n := front.bundles.Load(); n > 0 {
				t.Errorf("%s from %d: %d bundles were read", name, from, n)
			}
		}
	}
}

// A follower at the end of the log hears of every new event by its feed, without
// waiting for its next look.
func TestLOG12_FeedWakesTheFollower(t *testing.T) {
	l := newLedger(t)
	l.fill(1, "published")
	for name, feed := range map[string]consumer.Feed{"nats": l.natsFeed(), "events": l.eventsFeed()} {
		cfg := l.config()
		cfg.Feed, cfg.Poll, cfg.From = feed, time.Hour, uint64(l.sent-1)
		f := must(consumer.New(cfg))(t)
		follow(t, f, l.sent-1, 1)
		for range 5 {
			done := make(chan []consumer.Event, 1)
			at := l.sent
			go func() { done <- follow(t, f, at, 3) }()
			l.fill(3, "accepted")
			if events := <-done; len(events) != 3 {
				t.Fatalf("%s: %d events", name, len(events))
			}
		}
	}
}

// What NATS brings is held back until a checkpoint covers it.
func TestLOG12_MessagesWaitForTheCheckpoint(t *testing.T) {
	l := newLedger(t)
	l.fill(4, "published")
	front := newFront(t, l)
	front.hold(l.get("/log/checkpoint"))
	cfg := l.config()
	cfg.Log, cfg.Feed = front.source(t), l.natsFeed()
	pauses := 0
	cfg.Pause = func(ctx context.Context, _ time.Duration) error { // a pause with a feed means that its messages wait
		if pauses++; pauses == 10 {
			front.hold(nil)
		}
		return ctx.Err()
	}
	f := must(consumer.New(cfg))(t)
	follow(t, f, 0, 4)
	l.fill(7, "published")
	b, err := f.Next(t.Context())
	if err != nil || pauses < 10 || b.Events[0].Index != 4 || b.Checkpoint.Size != 11 {
		t.Errorf("after %d pauses: %+v, %v", pauses, b, err)
	}
}

// copyStream makes a NATS server of which the stream holds what change makes of
// the leaves.
func copyStream(t *testing.T, leaves []consumer.Event, origin string, change func(i int, leaf []byte) []byte) string {
	t.Helper()
	srv := natskit.Start(t, t.TempDir())
	refill(t, srv.URL, leaves, origin, change)
	return srv.URL
}

func refill(t *testing.T, addr string, leaves []consumer.Event, origin string, change func(i int, leaf []byte) []byte) {
	t.Helper()
	nc := must(nats.Connect(addr))(t)
	defer nc.Close()
	js := must(jetstream.New(nc))(t)
	if err := js.DeleteStream(t.Context(), natsfeed.DefaultStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: natsfeed.DefaultStream, Subjects: []string{"x"}, Metadata: map[string]string{"counterfoil.origin": origin}}))(t)
	for i, e := range leaves {
		must(js.Publish(t.Context(), "x", change(i, e.Leaf)))(t)
	}
}

// A message that was not logged yet and was lost, so that its sequence is that of
// another now, is no lie of the stream.
func TestLOG12_StreamThatWasHealed(t *testing.T) {
	l := newLedger(t)
	l.fill(4, "published")
	front := newFront(t, l)
	front.hold(l.get("/log/checkpoint"))
	l.fill(3, "published")
	all := follow(t, must(consumer.New(l.config()))(t), 0, 7)
	keep := func(_ int, leaf []byte) []byte { return leaf }
	addr := copyStream(t, all, l.server.Ready.Origin, func(i int, leaf []byte) []byte {
		if i == 5 {
			return []byte("lost")
		}
		return leaf
	})
	feed := must(natsfeed.Connect(natsfeed.Config{URL: addr}))(t)
	defer feed.Close()
	cfg := l.config()
	cfg.Log, cfg.Feed = front.source(t), feed
	cfg.Pause = func(ctx context.Context, _ time.Duration) error { // 4 to 6 wait
		refill(t, addr, all, l.server.Ready.Origin, keep)
		front.hold(nil)
		return ctx.Err()
	}
	f := must(consumer.New(cfg))(t)
	follow(t, f, 0, 4)
	for i, e := range follow(t, f, 4, 3) {
		if e.Hash != all[4+i].Hash {
			t.Errorf("event %d is another", 4+i)
		}
	}
}

// A message that is not the leaf is an error with both digests, and nothing from
// there on is handed out.
func TestLOG12_MessageThatDiffers(t *testing.T) {
	l := newLedger(t)
	l.fill(300, "published")
	all := follow(t, must(consumer.New(l.config()))(t), 0, 300)
	for name, change := range map[string]func([]byte) []byte{
		"a bit": func(b []byte) []byte { b = append([]byte(nil), b...); b[100] ^= 1; return b },
		"empty": func([]byte) []byte { return nil },
		"other": func([]byte) []byte { return all[5].Leaf },
	} {
		for _, at := range []int{0, 123, 299} {
			wrong := change(all[at].Leaf)
			addr := copyStream(t, all, l.server.Ready.Origin, func(i int, leaf []byte) []byte {
				if i == at {
					return wrong
				}
				return leaf
			})
			feed := must(natsfeed.Connect(natsfeed.Config{URL: addr, Origin: l.server.Ready.Origin}))(t)
			cfg := l.config()
			cfg.Feed, cfg.Batch, cfg.Stop = feed, 50, true
			f := must(consumer.New(cfg))(t)
			n := 0
			var err error
			for err == nil {
				var b *consumer.Batch
				if b, err = f.Next(t.Context()); err == nil {
					n += len(b.Events)
				}
			}
			feed.Close()
			var e *consumer.DisagreeError
			if !errors.As(err, &e) || e.Index != uint64(at) || e.LeafDigest != fmt.Sprintf("sha256:%x", sha256.Sum256(all[at].Leaf)) ||
				e.MessageDigest != fmt.Sprintf("sha256:%x", sha256.Sum256(wrong)) || !strings.Contains(err.Error(), e.LeafDigest) || !strings.Contains(err.Error(), e.MessageDigest) || n > at {
				t.Errorf("%s at %d: %d events, then %v", name, at, n, err)
			}
		}
	}
}

// A stream of another log, one that is shorter, and one that is not there cost
// nothing but the feed.
func TestLOG12_UselessStreams(t *testing.T) {
	l := newLedger(t)
	l.fill(300, "published")
	all := follow(t, must(consumer.New(l.config()))(t), 0, 300)
	keep := func(_ int, leaf []byte) []byte { return leaf }
	for name, c := range map[string]struct{ addr, stream, says string }{
		"another log": {addr: copyStream(t, nil, "ledger.example/other", keep), says: "ledger.example/other"},
		"shorter":     {addr: copyStream(t, all[:10], l.server.Ready.Origin, keep), says: "deadline"},
		"not there":   {addr: copyStream(t, nil, "", keep), stream: "NONE", says: "not found"},
	} {
		feed := must(natsfeed.Connect(natsfeed.Config{URL: c.addr, Stream: c.stream, Origin: l.server.Ready.Origin}))(t)
		var told []string
		cfg := l.config()
		cfg.Feed, cfg.Batch = feed, 50
		cfg.Waiting = func(err error, _ time.Duration) {
			var e *consumer.FeedError
			if !errors.As(err, &e) {
				t.Errorf("%s: %v", name, err)
			}
			told = append(told, err.Error())
		}
		follow(t, must(consumer.New(cfg))(t), 0, 300)
		feed.Close()
		if len(told) == 0 || !strings.Contains(told[0], c.says) {
			t.Errorf("%s: told %q", name, told)
		}
	}
}

func TestLOG12_NATSCredentials(t *testing.T) {
	l := newLedger(t)
	for name, cfg := range map[string]natsfeed.Config{
		"nobody":         {URL: l.nats},
		"wrong token":    {URL: l.nats, Token: "wrong"},
		"wrong user":     {URL: l.nats, User: "counterfoil", Token: l.consumerToken()},
		"no creds file":  {URL: l.nats, CredsFile: filepath.Join(t.TempDir(), "none")},
		"two of them":    {URL: l.nats, Token: "x", CredsFile: "y"},
		"nobody listens": {URL: "nats://" + freeport.Addr(t)},
	} {
		if f, err := natsfeed.Connect(cfg); err == nil {
			f.Close()
			t.Errorf("%s: connected", name)
		} else if strings.Contains(err.Error(), l.consumerToken()) {
			t.Errorf("%s shows the token: %v", name, err)
		}
	}
}

func TestLOG12_FeedsLeaveNothingBehind(t *testing.T) {
	l := newLedger(t)
	l.fill(400, "published")
	api := &http.Client{Transport: &http.Transport{}}
	for _, most := range []int{1, 400} {
		before := goleak.IgnoreCurrent()
		n := must(natsfeed.Connect(natsfeed.Config{URL: l.nats, Token: l.consumerToken()}))(t)
		e := must(consumer.NewEvents(consumer.EventsConfig{Server: l.api, Token: l.token(), Client: api}))(t)
		for _, feed := range []consumer.Feed{n, e} {
			for _, from := range []uint64{0, 7} {
				if leaves, err := feed.Next(t.Context(), from, most); err != nil || len(leaves) == 0 {
					t.Fatal(err)
				}
			}
		}
		n.Close()
		e.Close()
		api.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
		// The server's side of the connections ends by itself.
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*Server).Serve"), goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"))
	}
}
