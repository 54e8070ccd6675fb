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

// The log shows another history than before: at once, or between two visits.
func TestLOG12_OtherHistories(t *testing.T) {
	id := newIdentity(t)
	leaves, forged := records("a", 300), records("b", 300)
	honest := newLog(t, id).add(leaves[:40]...)
	small := honest.checkpoint()
	honest.add(leaves[40:]...)
	fork := newLog(t, id)
	fork.add(leaves[:290]...).add(forged[290:]...)
	sameSize := fork.checkpoint()
	fork.add(records("c", 50)...)
	larger := fork.checkpoint()
	early := newLog(t, id).add(leaves[:100]...)
	early.add(records("d", 250)...)

	for _, c := range []struct {
		name  string
		show  func()
		kind  consumer.HistoryKind
		after uint64
	}{
		{"rollback", func() { honest.lie("checkpoint", always(small)) }, consumer.Rollback, 40},
		{"same size", func() { honest.lie("checkpoint", always(sameSize)) }, consumer.OtherRoot, 300},
		{"larger, with its tiles", func() { honest.serveFrom(fork) }, consumer.Fork, 350},
		{"larger, in a tile that was read before", func() { honest.serveFrom(early) }, consumer.Fork, 350},
		{"larger, without its tiles", func() {
			honest.lie("checkpoint", always(larger))
			for _, p := range []string{"tile/0/001", "tile/0/001.p/94"} {
				honest.lie(p, always(make([]byte, 94*32)))
			}
			honest.from = fork.dir
		}, consumer.Unproven, 350},
	} {
		for _, visits := range []string{"in one visit", "in two visits"} {
			t.Run(c.name+" "+visits, func(t *testing.T) {
				f := must(consumer.New(consumer.Config{Log: honest.source(), Trust: id.trust(t), Pause: noPause}))(t)
				b := must(f.Next(t.Context()))(t)
				if len(b.Events) != 300 {
					t.Fatalf("%d events", len(b.Events))
				}
				if visits == "in two visits" {
					cursor := must(consumer.ParseCursor(b.Cursor().Append(nil)))(t)
					f = must(consumer.New(consumer.Config{Log: honest.source(), Trust: id.trust(t), Pause: noPause, Cursor: cursor}))(t)
				}
				c.show()
				defer func() {
					honest.serveFrom(honest)
					for _, p := range []string{"checkpoint", "tile/0/001", "tile/0/001.p/94"} {
						honest.lie(p, nil)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := f.Next(ctx)
				var e *consumer.HistoryError
				if !errors.As(err, &e) || e.Kind != c.kind || e.Before.Size != 300 || e.After.Size != c.after {
					t.Fatalf("got %v", err)
				}
				// Both notes are whole: anyone can check them.
				for note, want := range map[string]trust.Checkpoint{string(e.Known): e.Before, string(e.Shown): e.After} {
					n := must(trust.ParseNote([]byte(note)))(t)
					v, err := n.VerifyBy(id.trust(t).Log)
					if cp := must(trust.ParseCheckpoint(n.Text))(t); err != nil || v.Lines != 1 || cp != want {
						t.Errorf("note %q: %v", note, err)
					}
				}
				if _, again := f.Next(ctx); again != err {
					t.Errorf("after it: %v", again)
				}
			})
		}
	}
}

// A fork that lies before the cursor's place but behind nothing that was handed
// out in this visit is found too: the whole tree of then must be in that of now.
func TestLOG12_ForkBeyondTheCursor(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 200)
	honest := newLog(t, id).add(leaves...)
	events := collect(t, consumer.Config{Log: honest.source(), Trust: id.trust(t)})
	fork := newLog(t, id).add(leaves[:150]...)
	fork.add(records("b", 100)...)
	_, err := collectErr(t, consumer.Config{Log: fork.source(), Trust: id.trust(t), Cursor: events[99].Cursor()})
	var e *consumer.HistoryError
	if !errors.As(err, &e) || e.Kind != consumer.Fork {
		t.Errorf("got %v", err)
	}
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

// Without enough cosignatures nothing is handed out, and it is said who lacks.
func TestLOG12_WaitsForTheQuorum(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 20)
	l := newLog(t, id).add(leaves[:8]...)
	a, b, c := newWitness(t, "w.example/a"), newWitness(t, "w.example/b"), newWitness(t, "w.example/c")
	file := id.trust(t)
	file.Witnesses, file.Quorum = []trust.VerifierKey{a.key, b.key, c.key}, 2
	first := l.checkpoint()
	l.add(leaves[8:]...)
	second := l.checkpoint()

	serve := [][]byte{first, cosigned(t, first, a), cosigned(t, first, a, a), cosigned(t, first, a, c), second, cosigned(t, second, b), cosigned(t, second, b, c, a)}
	at := 0
	l.lie("checkpoint", func([]byte) []byte { return serve[at] })
	var told []string
	f := must(consumer.New(consumer.Config{Log: l.source(), Trust: file, Waiting: func(err error, _ time.Duration) {
		var q *consumer.QuorumError
		if !errors.As(err, &q) {
			t.Errorf("told %v", err)
		}
		told = append(told, err.Error())
	}, Pause: func(context.Context, time.Duration) error { at++; return nil }}))(t)
	batch := must(f.Next(t.Context()))(t)
	if at != 3 || batch.Checkpoint.Size != 8 || len(batch.Events) != 8 {
		t.Errorf("checkpoint %d of size %d gave %d events", at, batch.Checkpoint.Size, len(batch.Events))
	}
	batch = must(f.Next(t.Context()))(t)
	if at != 6 || batch.Checkpoint.Size != 20 || len(batch.Events) != 12 || string(batch.Note) != string(serve[6]) {
		t.Errorf("checkpoint %d of size %d gave %d events", at, batch.Checkpoint.Size, len(batch.Events))
	}
	if len(told) != 5 || !strings.Contains(told[1], "1 of 3") || !strings.Contains(told[1], "w.example/b") || !strings.Contains(told[4], "w.example/a") {
		t.Errorf("told %q", told)
	}
	// One that stops at the end says it, and does not wait for ever.
	at = 1
	events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file})
	var q *consumer.QuorumError
	if !errors.As(err, &q) || q.Size != 8 || len(events) > 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
	// A policy beside the trust file counts instead of it, and may ask for more.
	policy := file.Policy()
	policy.Groups[0].K = 3
	at = 3
	if events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file, Policy: policy}); !errors.As(err, &q) || len(events) > 0 {
		t.Errorf("policy of 3: %d events, %v", len(events), err)
	}
	// A cursor of a time when less was asked is no way round.
	at = 3
	cursor := collect(t, consumer.Config{Log: l.source(), Trust: file})[3].Cursor()
	if events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file, Policy: policy, Cursor: cursor}); !errors.As(err, &q) || len(events) > 0 {
		t.Errorf("old cursor: %d events, %v", len(events), err)
	}
	at = 6
	same(t, collect(t, consumer.Config{Log: l.source(), Trust: file, Policy: policy, Cursor: cursor}), leaves, 4)
	// A cosignature without a time says nothing about the newest tree.
	l.lie("checkpoint", always(cosigned(t, timeless(t, first, b), a)))
	if events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file}); !errors.As(err, &q) || len(events) > 0 || !strings.Contains(err.Error(), "states no time") {
		t.Errorf("without a time: %d events, %v", len(events), err)
	}
}

// The log shows two uncosigned histories: that is a fork, cosigned or not.
func TestLOG12_ForkBeforeTheQuorum(t *testing.T) {
	id := newIdentity(t)
	a := newWitness(t, "w.example/a")
	file := id.trust(t)
	file.Witnesses, file.Quorum = []trust.VerifierKey{a.key}, 1
	l, fork := newLog(t, id).add(records("a", 5)...), newLog(t, id).add(records("b", 9)...)
	f := must(consumer.New(consumer.Config{Log: l.source(), Trust: file, Pause: func(context.Context, time.Duration) error {
		l.serveFrom(fork)
		l.lie("checkpoint", always(cosigned(t, fork.checkpoint(), a)))
		return nil
	}}))(t)
	var e *consumer.HistoryError
	if _, err := f.Next(t.Context()); !errors.As(err, &e) || e.Kind != consumer.Fork || e.Before.Size != 5 || e.After.Size != 9 {
		t.Errorf("got %v", err)
	}
}

// On a busy log the newest checkpoint never has its cosignatures. The newest that
// has them is enough, if it fits the others.
func TestLOG12_WitnessedCheckpointBehindTheNewest(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 300)
	l := newLog(t, id).add(leaves[:50]...)
	a := newWitness(t, "w.example/a")
	file := id.trust(t)
	file.Witnesses, file.Quorum = []trust.VerifierKey{a.key}, 1
	early := cosigned(t, l.checkpoint(), a)
	l.add(leaves[50:280]...)
	middle := cosigned(t, l.checkpoint(), a)
	uncosigned := l.checkpoint()
	l.add(leaves[280:]...)
	const path = "checkpoint.witnessed"
	cfg := consumer.Config{Log: l.source(), Trust: file, Witnessed: consumer.WitnessedHTTP(l.http.URL, nil)}

	var q *consumer.QuorumError
	if events, err := collectErr(t, cfg); !errors.As(err, &q) || q.Size != 300 || len(events) > 0 {
		t.Errorf("404: %d events, %v", len(events), err)
	}
	l.lie(path, always(early))
	same(t, collect(t, cfg), leaves[:50], 0)
	served := early
	l.lie(path, func([]byte) []byte { return served })
	follow := cfg
	follow.Pause = func(context.Context, time.Duration) error { served = middle; return nil }
	f := must(consumer.New(follow))(t)
	for _, want := range []int{50, 230} {
		if b, err := f.Next(t.Context()); err != nil || len(b.Events) != want {
			t.Fatalf("batch of %d: %+v, %v", want, b, err)
		}
	}
	cursor := collect(t, cfg)[279].Cursor()
	l.lie(path, always(early)) // an older one is no rollback, and nothing new
	cfg.Cursor = cursor
	if events, err := collectErr(t, cfg); !errors.As(err, &q) || len(events) > 0 {
		t.Errorf("older: %d events, %v", len(events), err)
	}
	cfg.Cursor = nil
	for name, c := range map[string]struct {
		served []byte
		want   any
	}{
		"not cosigned":    {uncosigned, &q},
		"another history": {cosigned(t, id.signed(t, trust.Checkpoint{Origin: leaftest.Origin, Size: 200, Root: sha256.Sum256(nil)}), a), new(*consumer.HistoryError)},
		"no note":         {[]byte("x"), new(*consumer.CheckpointError)},
		"too long":        {make([]byte, 2*trust.MaxNoteBytes), new(*consumer.CheckpointError)},
	} {
		l.lie(path, always(c.served))
		if events, err := collectErr(t, cfg); !errors.As(err, c.want) || len(events) > 0 {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
	}
}
