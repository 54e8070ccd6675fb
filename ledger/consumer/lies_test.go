package consumer_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
)

// One flipped bit in a leaf: it is named, with both hashes, and neither it nor
// anything behind it is handed out.
func TestLOG12_FlippedBitInALeaf(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 600)
	l := newLog(t, id).add(leaves...)
	for _, c := range []struct {
		path  string
		leaf  int
		batch int
	}{{"tile/entries/000", 255, 256}, {"tile/entries/001", 511, 256}, {"tile/entries/002.p/88", 599, 100}, {"tile/entries/000", 255, 1000}} {
		l.lie(c.path, flip(-1)) // in the last leaf of the bundle
		events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: id.trust(t), Batch: c.batch})
		l.lie(c.path, nil)
		wrong := flip(-1)(leaves[c.leaf])
		var e *consumer.LeafError
		if !errors.As(err, &e) || e.Index != uint64(c.leaf) || !e.Proven || e.Expected != tiles.LeafHashOf(leaves[c.leaf]) || e.Got != tiles.LeafHashOf(wrong) {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		for _, want := range []string{fmt.Sprintf("leaf %d ", c.leaf), fmt.Sprintf("%x", e.Expected), fmt.Sprintf("%x", e.Got)} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not name %s", c.path, err, want)
			}
		}
		if len(events) > c.leaf {
			t.Errorf("%s: %d events before leaf %d", c.path, len(events), c.leaf)
		}
		same(t, events, leaves[:len(events)], 0)
	}
}

// Tiles and leaves that fit each other, and not the checkpoint.
func TestLOG12_AnotherTreeUnderTheCheckpoint(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 300)
	l := newLog(t, id).add(leaves...)
	events := collect(t, consumer.Config{Log: l.source(), Trust: id.trust(t)})
	forged := append([][]byte(nil), leaves...)
	forged[7] = records("b", 1)[0]
	other := newLog(t, id).add(forged...)
	other.lie("checkpoint", always(l.checkpoint()))
	for _, c := range []*consumer.Cursor{nil, events[2].Cursor(), events[9].Cursor()} {
		got, err := collectErr(t, consumer.Config{Log: other.source(), Trust: id.trust(t), Cursor: c, Batch: 4})
		var e *consumer.TreeError
		if !errors.As(err, &e) || e.Size != 300 || e.Expected == e.Got || len(got) > 0 {
			t.Errorf("%d events, %v", len(got), err)
		}
	}
	// The rest of the tree is the honest one.
	for _, path := range []string{"tile/0/000", "tile/entries/000"} {
		l.lie(path, always(must(os.ReadFile(filepath.Join(other.dir, path)))(t)))
	}
	for _, batch := range []int{4, 256, 300} {
		got, err := collectErr(t, consumer.Config{Log: l.source(), Trust: id.trust(t), Batch: batch})
		var e *consumer.TreeError
		if !errors.As(err, &e) || e.From != 0 || e.Expected == e.Got || len(got) > 0 {
			t.Errorf("batches of %d: %d events, %v", batch, len(got), err)
		}
	}
}

// A server that keeps the tiles of its newest size alone is followed while it
// grows.
func TestLOG12_OldPartialTilesAreGone(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 310)
	for stop, rest := range map[bool]int{false: 54, true: 44} {
		l := newLog(t, id).add(leaves[:300]...)
		f := must(consumer.New(consumer.Config{Log: l.source(), Trust: id.trust(t), Batch: 256, Pause: noPause, Stop: stop}))(t)
		if b := must(f.Next(t.Context()))(t); len(b.Events) != 256 {
			t.Fatalf("%d events", len(b.Events))
		}
		l.add(leaves[300:]...)
		for _, path := range []string{"tile/0/001.p/44", "tile/entries/001.p/44"} {
			l.lie(path, withheld)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if b, err := f.Next(ctx); err != nil || len(b.Events) != rest || b.Checkpoint.Size != 310 {
			t.Errorf("%+v, %v", b, err)
		}
		if stop {
			if _, err := f.Next(ctx); !errors.Is(err, consumer.ErrEnd) {
				t.Errorf("at the end: %v", err)
			}
		}
	}
}

// Whatever bit of whatever file a server flips, nothing but the truth comes.
func TestLOG12_AnyFlippedBit(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 300)
	l := newLog(t, id).add(leaves[:200]...)
	early := collect(t, consumer.Config{Log: l.source(), Trust: id.trust(t)})
	l.add(leaves[200:]...)
	cursor := early[150].Cursor()
	const flips = 5
	for _, c := range []struct {
		path    string
		refused [2]int // at least, without and with a cursor: what a follower does not need it does not read
	}{
		{"checkpoint", [2]int{flips, flips}}, {"tile/0/000", [2]int{flips, flips}}, {"tile/0/001.p/44", [2]int{flips, flips}},
		{"tile/1/000.p/1", [2]int{0, 0}}, {"tile/entries/000", [2]int{flips, 1}}, {"tile/entries/001.p/44", [2]int{flips, flips}},
	} {
		size := len(must(os.ReadFile(filepath.Join(l.dir, c.path)))(t))
		for visit, cursor := range []*consumer.Cursor{nil, cursor} {
			refused, from := 0, 0
			if cursor != nil {
				from = int(cursor.Next)
			}
			for i := range flips {
				at := i * (size - 1) / (flips - 1)
				l.lie(c.path, flip(at))
				events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: id.trust(t), Cursor: cursor, Batch: 64})
				same(t, events, leaves[:from+len(events)], from)
				if err != nil {
					refused++
				} else if len(events) != 300-from {
					t.Errorf("%s, byte %d: %d events and no error", c.path, at, len(events))
				}
			}
			if refused < c.refused[visit] {
				t.Errorf("%s, visit %d: %d of %d flips refused", c.path, visit, refused, flips)
			}
			l.lie(c.path, nil)
		}
	}
}

func TestLOG12_DamagedForms(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 300)
	l := newLog(t, id).add(leaves...)
	for _, path := range []string{"tile/0/000", "tile/0/001.p/44", "tile/entries/000", "tile/entries/001.p/44"} {
		for name, change := range map[string]func([]byte) []byte{
			"empty":    always([]byte{}),
			"cut":      func(b []byte) []byte { return b[:len(b)-1] },
			"longer":   func(b []byte) []byte { return append(b[:len(b):len(b)], 0) },
			"very big": always(make([]byte, 20<<20)),
		} {
			l.lie(path, change)
			_, err := collectErr(t, consumer.Config{Log: l.source(), Trust: id.trust(t)})
			var e *consumer.TreeError
			var d *tiles.DamageError
			if !errors.As(err, &e) || !errors.As(err, &d) {
				t.Errorf("%s of %s: %v", name, path, err)
			}
			l.lie(path, nil)
		}
	}
}

func TestLOG12_CheckpointsThatDoNotVerify(t *testing.T) {
	id, other := newIdentity(t), newIdentity(t)
	leaves := records("a", 9)
	l := newLog(t, id).add(leaves...)
	honest := l.checkpoint()
	cp := trust.Checkpoint{Origin: leaftest.Origin, Size: 9, Root: sha256.Sum256([]byte("any"))}
	skey, _, err := note.GenerateKey(rand.Reader, "ledger.example/other")
	if err != nil {
		t.Fatal(err)
	}
	stranger := identity{signer: must(note.NewSigner(skey))(t)}
	renamed := cp
	renamed.Origin = "ledger.example/other"
	witness, unknown := newWitness(t, "w.example/a"), newWitness(t, "w.example/b")
	file := id.trust(t)
	file.Witnesses = []trust.VerifierKey{witness.key}
	wrong := cosigned(t, honest, witness)
	wrong[len(wrong)-6] ^= 4
	for name, served := range map[string][]byte{
		"key of another":       other.signed(t, cp),
		"another log":          stranger.signed(t, renamed),
		"no note":              []byte("<html>"),
		"empty":                {},
		"leading zero":         must(note.Sign(&note.Note{Text: strings.Replace(cp.Text(), "\n9\n", "\n09\n", 1)}, id.signer))(t),
		"root of nothing":      id.signed(t, trust.Checkpoint{Origin: leaftest.Origin, Root: sha256.Sum256([]byte("x"))}),
		"no such index":        id.signed(t, trust.Checkpoint{Origin: leaftest.Origin, Size: 1 << 60, Root: cp.Root}),
		"cosignature is wrong": wrong,
		"over the bound":       make([]byte, trust.MaxNoteBytes+1),
	} {
		l.lie("checkpoint", always(served))
		events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file})
		var e *consumer.CheckpointError
		if !errors.As(err, &e) || len(events) > 0 {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
	}
	// Unknown witnesses do no harm.
	l.lie("checkpoint", always(cosigned(t, honest, unknown)))
	same(t, collect(t, consumer.Config{Log: l.source(), Trust: file}), leaves, 0)
}

// A tile that is withheld is waited for, and said to be; what comes then is whole.
func TestLOG12_WithheldTile(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 600)
	l := newLog(t, id).add(leaves...)
	for _, path := range []string{"checkpoint", "tile/entries/001", "tile/entries/002.p/88", "tile/0/001", "tile/0/002.p/88"} {
		l.lie(path, withheld)
		var told []error
		f := must(consumer.New(consumer.Config{Log: l.source(), Trust: id.trust(t), Batch: 256, Waiting: func(err error, _ time.Duration) { told = append(told, err) },
			Pause: func(ctx context.Context, _ time.Duration) error {
				if len(told) == 20 {
					l.lie(path, nil)
				}
				return ctx.Err()
			}}))(t)
		var events []consumer.Event
		for e, err := range f.Events(t.Context()) {
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if events = append(events, *e); e.Index == 599 {
				break
			}
		}
		same(t, events, leaves, 0)
		var u *consumer.UnavailableError
		if len(told) != 20 || !errors.As(told[0], &u) || !errors.Is(told[0], fs.ErrNotExist) {
			t.Errorf("%s: told %d times: %v", path, len(told), told)
		}
		// One that stops at the end does not wait for ever.
		l.lie(path, withheld)
		if _, err := collectErr(t, consumer.Config{Log: l.source(), Trust: id.trust(t)}); !errors.As(err, &u) {
			t.Errorf("%s: %v", path, err)
		}
		l.lie(path, nil)
	}
}
