package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"counterfoil/internal/testkit/freeport"
	"counterfoil/internal/testkit/fsck"
	"counterfoil/internal/testkit/natskit"
)

// TestCaseQuietStop_LOG13_KilledNATS kills an external NATS with a thousand
// calls in flight and starts it again. Callers that retry get every event
// recorded exactly once, the ledger says meanwhile that the stream is missing,
// and nothing stays behind afterwards.
func TestCaseQuietStop_LOG13_KilledNATS(t *testing.T) {
	t.Parallel()
	const events = 1000
	nats := natskit.Start(t, t.TempDir())
	p := start(t, filepath.Join(t.TempDir(), "data"), "--nats", nats.URL)
	got := &acks{all: map[string]receipt{}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	reasons := map[string]int{}
	reason := regexp.MustCompile(`"reason":"([a-z_]+)"`)
	for i := range events {
		wg.Go(func() {
			for {
				code, b, err := p.call(http.MethodPost, "/v1/attempts", beginBody(fmt.Sprintf("q-%d", i)))
				if err == nil && (code == http.StatusCreated || code == http.StatusOK) {
					got.add(parseReceipt(t, b))
					return
				}
				mu.Lock()
				if m := reason.FindSubmatch(b); code == http.StatusServiceUnavailable && m != nil {
					reasons[string(m[1])]++
				} else {
					t.Errorf("refused with %d %s %v", code, b, err)
				}
				mu.Unlock()
				if p.over() || t.Failed() {
					return
				}
				time.Sleep(50 * time.Millisecond) // as a caller does that is told to come later
			}
		})
	}
	eventually(t, "some are acknowledged", func() bool { return got.count() > 50 })
	nats.Kill()
	atKill := got.count()
	eventually(t, "readiness names the stream", func() bool { return slices.Contains(p.unready(), "stream") })
	if code, _, err := p.call(http.MethodGet, "/healthz", nil); err != nil || code != http.StatusOK {
		t.Errorf("healthz without NATS: %d %v", code, err)
	}
	nats.Restart()
	back := time.Now()
	wg.Wait()
	t.Logf("%d of %d acknowledged at the kill, all %v after the restart; refusals %v", atKill, events, time.Since(back).Round(time.Millisecond), reasons)
	if atKill == events {
		t.Error("nothing was in flight when NATS was killed: the test proves nothing")
	}
	eventually(t, "ready again", func() bool { return p.unready() == nil })
	got.check(t, p)
	if st := p.settled(); st.LogSize != events || len(got.all) != events || st.StreamLast != st.ViewSize {
		t.Errorf("%d leaves for %d events (%d receipts), stream %d, views %d", st.LogSize, events, len(got.all), st.StreamLast, st.ViewSize)
	}
	st, vkey := p.settled(), trustVKey(t, p)
	p.stop()
	fsck.Check(t, filepath.Join(p.dir, "log"), st.Origin, vkey)
}

// TestLOG13_ForeignStreamIsRefused starts a second ledger, with another origin
// and other keys, on a stream that belongs to the first.
func TestLOG13_ForeignStreamIsRefused(t *testing.T) {
	t.Parallel()
	nats := natskit.Start(t, t.TempDir())
	root := t.TempDir()
	p := start(t, filepath.Join(root, "a"), "--nats", nats.URL, "--origin", "example.com/one")
	got := &acks{all: map[string]receipt{}}
	fill(t, p, "a", 5, got)
	for name, c := range map[string]struct {
		origin string
		says   []string
	}{
		"another origin":             {"example.com/two", []string{"counterfoil.origin", `"example.com/one"`, `"example.com/two"`}},
		"the same origin, other key": {"example.com/one", []string{"counterfoil.tenant-key"}},
	} {
		dir := filepath.Join(root, "b "+name)
		for range 2 { // the second start is no first one
			_, err := startErr(t, dir, "--nats", nats.URL, "--origin", c.origin)
			if err == nil {
				t.Fatalf("%s: started", name)
			}
			for _, s := range c.says {
				if !strings.Contains(unescape(err.Error()), s) {
					t.Errorf("%s: got %v, want %q in it", name, err, s)
				}
			}
		}
	}
	fill(t, p, "b", 5, got)
	got.check(t, p)
	p.stop()
}

func unescape(s string) string { return strings.ReplaceAll(s, `\"`, `"`) }

// TestDUR04_ReadOnlyConsumers connects to the stream as an external consumer:
// it can read every message, each the leaf of its sequence, and change nothing.
func TestDUR04_ReadOnlyConsumers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	addr := freeport.Addr(t)
	p := start(t, dir, "--nats-listen", addr)
	got := &acks{all: map[string]receipt{}}
	fill(t, p, "a", 30, got)
	st := p.settled()
	token, err := os.ReadFile(filepath.Join(dir, "consumer.token"))
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "consumer.token")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("consumer.token has mode %v (%v), want 0600", fi.Mode(), err)
	}
	nc, js := natskit.Consumer(t, "nats://"+addr, "consumer", string(bytes.TrimSpace(token)))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	bodies := map[uint64][]byte{}
	cons, err := js.CreateOrUpdateConsumer(ctx, "COUNTERFOIL", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := cons.Fetch(int(st.StreamLast), jetstream.FetchMaxWait(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		md, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		bodies[md.Sequence.Stream] = m.Data()
	}
	if uint64(len(bodies)) != st.StreamLast || st.StreamLast == 0 {
		t.Fatalf("consumed %d messages of %d", len(bodies), st.StreamLast)
	}
	leaves := p.leaves()
	for seq, body := range bodies {
		if !bytes.Equal(leaves[seq-1], body) {
			t.Errorf("message %d is not leaf %d:\n%s\n%s", seq, seq-1, body, leaves[seq-1])
		}
	}
	// None of these may change anything.
	const forged = "counterfoil.v1.default.tool_action.attempt.00"
	short := func() context.Context {
		c, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		t.Cleanup(cancel)
		return c
	}
	for name, try := range map[string]func() error{
		"publish": func() error { _, err := js.Publish(short(), forged, []byte("x")); return err },
		"purge":   func() error { s, err := js.Stream(short(), "COUNTERFOIL"); return errors.Join(err, s.Purge(short())) },
		"delete message": func() error {
			s, err := js.Stream(short(), "COUNTERFOIL")
			return errors.Join(err, s.DeleteMsg(short(), 1))
		},
		"delete stream": func() error { return js.DeleteStream(short(), "COUNTERFOIL") },
		"change stream": func() error {
			_, err := js.UpdateStream(short(), jetstream.StreamConfig{Name: "COUNTERFOIL", MaxMsgs: 1})
			return err
		},
		"another stream": func() error {
			_, err := js.CreateStream(short(), jetstream.StreamConfig{Name: "X", Subjects: []string{"x.>"}})
			return err
		},
		"system requests": func() error { _, err := nc.RequestWithContext(short(), "$SYS.REQ.SERVER.PING", nil); return err },
	} {
		if err := try(); err == nil {
			t.Errorf("%s was not refused", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	// Without asking for an answer.
	_ = nc.Publish(forged, []byte("x"))
	_ = nc.Flush()
	if now := p.settled(); now.StreamLast != st.StreamLast {
		t.Errorf("the stream went from %d to %d", st.StreamLast, now.StreamLast)
	}
	fill(t, p, "b", 3, got)
	got.check(t, p)
	p.stop()
}
