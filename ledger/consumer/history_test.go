package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/trust"
)

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
