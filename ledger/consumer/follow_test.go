package consumer_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
)

// Every leaf comes, in order, whatever the batch; those that are no record come
// as that.
func TestLOG12_EveryIndexIsHandedOut(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 700)
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32)))
	strange := leaftest.Begin("strange", func(e *event.Event) { e.Ledger = "ledger.example/other" })
	late := leaftest.Leaf(leaftest.Begin("late", nil))
	bad := map[int]string{0: consumer.Unparseable, 255: consumer.Unparseable, 256: consumer.WrongOrigin, 300: consumer.BadSignature, 699: consumer.BadSignature}
	leaves[0], leaves[255], leaves[256] = []byte{}, []byte("{ }"), leaftest.Leaf(strange)
	leaves[300], leaves[699] = leaftest.LeafBy(other, leaftest.Begin("forged", nil)), late
	l := newLog(t, id).add(leaves[:1]...).add(leaves[1:257]...).add(leaves[257:]...)

	file := id.trust(t)
	keys := file.EventKeys.Keys()
	retired := uint64(699)
	keys[0].ToIndex = &retired
	file.EventKeys = must(trust.NewEventKeys(keys))(t)
	for batch, sources := range map[int]map[string]tiles.Source{0: {"http": l.source()}, 1: {"dir": tiles.Dir(l.dir)}, 100: {"dir": tiles.Dir(l.dir)}, 256: {"http": l.source()}, 257: {"http": l.source()}} {
		for name, src := range sources {
			events := collect(t, consumer.Config{Log: src, Trust: file, Batch: batch})
			same(t, events, leaves, 0)
			for i, e := range events {
				switch {
				case e.Invalid == nil && bad[i] != "", e.Invalid != nil && e.Invalid.Reason != bad[i]:
					t.Errorf("%s, batch %d: leaf %d: %v", name, batch, i, e.Invalid)
				case e.Invalid == nil && (e.KeyID != keys[0].KeyID || e.Record.Event.Ledger != leaftest.Origin):
					t.Errorf("%s, batch %d: leaf %d: key %s", name, batch, i, e.KeyID)
				}
			}
			if k := events[699].Invalid.Key; k != trust.KeyRetired {
				t.Errorf("leaf 699: %s", k)
			}
			if k := events[300].Invalid.Key; k != trust.UnknownKey {
				t.Errorf("leaf 300: %s", k)
			}
		}
	}
}

func TestLOG12_EmptyLogAndBeyondTheEnd(t *testing.T) {
	id := newIdentity(t)
	empty := newLog(t, id)
	if _, err := empty.log.Publish(t.Context()); err != nil {
		t.Skip("a log without leaves publishes nothing: ", err)
	}
	same(t, collect(t, consumer.Config{Log: empty.source(), Trust: id.trust(t)}), nil, 0)
	leaves := records("a", 3)
	empty.add(leaves...)
	for from := range 6 {
		same(t, collect(t, consumer.Config{Log: empty.source(), Trust: id.trust(t), From: uint64(from)}), leaves, from)
	}
}

// A follower that waits is given what is published meanwhile; one that began
// beyond the end begins where it was told to.
func TestLOG12_FollowsAsTheLogGrows(t *testing.T) {
	id := newIdentity(t)
	l := newLog(t, id)
	leaves := records("a", 600)
	l.add(leaves[:1]...)
	steps := []int{2, 5, 255, 256, 257, 511, 600}
	for _, from := range []int{0, 1, 3, 256, 400} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			at := int(l.log.Size())
			var pauses []time.Duration
			pause := func(ctx context.Context, d time.Duration) error {
				pauses = append(pauses, d)
				for _, s := range steps {
					if s > at {
						l.add(leaves[at:s]...)
						at = s
						break
					}
				}
				return ctx.Err()
			}
			f := must(consumer.New(consumer.Config{Log: l.source(), Trust: id.trust(t), From: uint64(from), Pause: pause, Batch: 100}))(t)
			var events []consumer.Event
			for e, err := range f.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if events = append(events, *e); e.Index == 599 {
					break
				}
			}
			same(t, events, leaves, from)
		})
	}
}

// Nothing runs on when a caller goes away in the middle, or its context ends.
func TestLOG12_LeavesNothingBehind(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 1000)
	l := newLog(t, id).add(leaves...)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	src := must(tiles.HTTP(l.http.URL, tiles.HTTPConfig{Client: client}))(t)
	for _, most := range []int{1, 300, 1000} {
		ctx, cancel := context.WithCancel(t.Context())
		f := must(consumer.New(consumer.Config{Log: src, Trust: id.trust(t), Batch: 256}))(t)
		n := 0
		for _, err := range f.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == most {
				break
			}
		}
		cancel()
		if _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func TestLOG12_BackOffIsBoundedAndStartsAnew(t *testing.T) {
	id := newIdentity(t)
	l := newLog(t, id).add(records("a", 2)...)
	var pauses []time.Duration
	ctx, cancel := context.WithCancel(t.Context())
	more := records("b", 1)
	f := must(consumer.New(consumer.Config{Log: l.source(), Trust: id.trust(t), Poll: 300 * time.Millisecond, Pause: func(ctx context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		switch len(pauses) {
		case 5:
			l.add(more...)
		case 7:
			cancel()
		}
		return ctx.Err()
	}}))(t)
	for i := range 2 {
		if b, err := f.Next(ctx); err != nil || len(b.Events) != 2-i {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	if _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	const ms = time.Millisecond
	if want := fmt.Sprint([]time.Duration{50 * ms, 100 * ms, 200 * ms, 300 * ms, 300 * ms, 50 * ms, 100 * ms}); fmt.Sprint(pauses) != want {
		t.Errorf("pauses %v, want %s", pauses, want)
	}
}

// From every index, and from the cursor behind every event, with a log that had
// grown meanwhile or not, exactly the same sequence comes.
func TestLOG12_ResumeFromEveryIndex(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 21)
	leaves[5] = []byte("garbage")
	l := newLog(t, id).add(leaves[:4]...).add(leaves[4:13]...)
	cfg := consumer.Config{Log: l.source(), Trust: id.trust(t), Batch: 6}
	cursors := [][]byte{}
	for _, e := range collect(t, cfg) {
		cursors = append(cursors, e.Cursor().Append(nil))
	}
	for _, grown := range []int{13, 21} {
		if grown > 13 {
			l.add(leaves[13:]...)
		}
		for from := range grown + 2 {
			c := cfg
			c.From = uint64(from)
			same(t, collect(t, c), leaves[:grown], from)
		}
		for i, text := range cursors {
			c := cfg
			c.Cursor = must(consumer.ParseCursor(text))(t)
			if c.Cursor.Next != uint64(i+1) || string(c.Cursor.Append(nil)) != string(text) {
				t.Fatalf("cursor %d reads as %d", i+1, c.Cursor.Next)
			}
			events := collect(t, c)
			same(t, events, leaves[:grown], i+1)
			if grown == 13 && len(events) > 0 && string(events[0].Cursor().Append(nil)) != string(cursors[i+1]) {
				t.Errorf("the cursor behind event %d is another than before", i+1)
			}
		}
	}
}

// A long log costs about a request a bundle and one a tile, whatever its size,
// and not one a leaf; what is at its end costs a handful.
func TestLOG12_CostIsByBundle(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 3000)
	l := newLog(t, id).add(leaves...)
	same(t, collect(t, consumer.Config{Log: l.source(), Trust: id.trust(t)}), leaves, 0)
	if n, most := l.asked(""), 12*2+8; n > most {
		t.Errorf("%d requests for 12 bundles, want at most %d", n, most)
	}
}

func TestLOG12_RunSavesTheCursorBehindTheHandler(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 40)
	l := newLog(t, id).add(leaves...)
	store := consumer.File(t.TempDir() + "/cursor")
	var got []consumer.Event
	failed := errors.New("the handler failed")
	fail := true
	run := func() error {
		return consumer.Run(t.Context(), consumer.Config{Log: l.source(), Trust: id.trust(t), Batch: 10, Stop: true}, store, func(_ context.Context, b *consumer.Batch) error {
			if b.Events[0].Index == 20 && fail {
				fail = false
				return failed
			}
			got = append(got, b.Events...)
			return nil
		})
	}
	if err := run(); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if c := must(consumer.Load(store))(t); c.Next != 20 {
		t.Fatalf("the cursor is at %d, want 20: what the handler refused comes again", c.Next)
	}
	for range 2 {
		if err := run(); err != nil {
			t.Fatal(err)
		}
		same(t, got, leaves, 0)
	}
}

func TestLOG12_BadConfigurations(t *testing.T) {
	id := newIdentity(t)
	l := newLog(t, id).add(records("a", 1)...)
	good := consumer.Config{Log: l.source(), Trust: id.trust(t)}
	for name, change := range map[string]func(*consumer.Config){
		"no log":           func(c *consumer.Config) { c.Log = nil },
		"no trust file":    func(c *consumer.Config) { c.Trust = nil },
		"trust in nobody":  func(c *consumer.Config) { c.Trust = &trust.File{} },
		"batch":            func(c *consumer.Config) { c.Batch = consumer.MaxBatch + 1 },
		"negative":         func(c *consumer.Config) { c.Poll = -1 },
		"index":            func(c *consumer.Config) { c.From = trust.MaxIndex + 1 },
		"policy of others": func(c *consumer.Config) { c.Policy = newIdentity(t).trust(t).Policy() },
		"from and cursor":  func(c *consumer.Config) { c.From, c.Cursor = 1, &consumer.Cursor{} },
	} {
		c := good
		change(&c)
		if _, err := consumer.New(c); err == nil || !strings.HasPrefix(err.Error(), "consumer: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
