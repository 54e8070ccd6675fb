package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

var sigs = event.AppendSignatures(nil, []event.Signature{{KeyID: "test:key", Sig: []byte{1}}})

// history makes messages of attempts with an outcome each, and after every
// third attempt one that does not count.
func history(attempts int) []Message {
	var out []Message
	add := func(subject string, body []byte) {
		out = append(out, Message{Seq: uint64(len(out) + 1), Subject: subject, Body: body})
	}
	for i := range attempts {
		b := begin(fmt.Sprintf("call-%d", i), uint16(i))
		add(b.StreamSubject(), leafOf(b))
		o := *b
		o.Revision, o.Previous, o.Lifecycle, o.Status = 2, event.DigestOf(b.Append(nil)).String(), event.Outcome, event.StatusUnknown
		o.Source.EventID, o.ClaimBoundary = "observed", event.ClaimBoundaryFor(event.Outcome, event.ToolAction)
		add(o.StreamSubject(), leafOf(&o))
		switch i % 9 {
		case 0:
			add(event.UnparsedSubject, []byte("garbage"))
		case 3:
			add(o.StreamSubject(), leafOf(&o)) // a replayed record
		case 6:
			add(b.StreamSubject(), leafOf(begin(fmt.Sprintf("call-%d", i), 60000))) // a second attempt in the scope
		}
	}
	return out
}

func begin(invocation string, random uint16) *event.Event {
	return &event.Event{
		Schema: event.Schema, Ledger: "ledger.example", Tenant: "default", Revision: 1, Lifecycle: event.Attempt,
		AttemptID:  event.NewAttemptID(event.ScopeOf("default", "runtime", invocation).Shard(), [15]byte{byte(random >> 8), byte(random)}),
		Subject:    event.Subject{Kind: event.ToolAction, ID: "tool"},
		OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:00:00.000Z",
		Source: event.Source{RuntimeID: "runtime", AgentID: "agent", InvocationID: invocation, Protocol: "mcp", Implementation: "x", Assurance: event.SelfAsserted},
		Action: event.Action{Name: "tool", EffectKind: "e", EffectMode: "m"}, Status: event.StatusRequested,
		ClaimBoundary: event.ClaimBoundaryFor(event.Attempt, event.ToolAction),
	}
}

func leafOf(e *event.Event) []byte { return event.AppendLeaf(nil, e.Append(nil), sigs) }

// slice reads messages from memory and ends with io.EOF.
type slice struct{ rest []Message }

func (s *slice) Next(ctx context.Context, max int) ([]Message, error) {
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	n := min(max, len(s.rest))
	out := s.rest[:n]
	s.rest = s.rest[n:]
	return out, nil
}

func open(t testing.TB, dir string) *Index {
	t.Helper()
	x, err := Open(Config{Dir: dir, Tenant: "default", Origin: "ledger.example", Logger: slog.New(slog.DiscardHandler),
		Check: func(*event.Record, []byte, uint64) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func run(t testing.TB, x *Index, msgs []Message) {
	t.Helper()
	if err := x.Run(context.Background(), &slice{msgs}); !errors.Is(err, io.EOF) {
		t.Fatalf("run ended with %v, want the end of the slice", err)
	}
}

// dump is everything that an index answers about a history.
func dump(t testing.TB, x *Index, attempts int) map[string]any {
	t.Helper()
	seq, leaf := x.Position()
	out := map[string]any{"seq": seq, "leaf": leaf.String(), "shards": x.shards}
	for i := range attempts {
		id, err := x.Scope(event.ScopeOf("default", "runtime", fmt.Sprintf("call-%d", i)))
		if err != nil || id == "" {
			t.Fatalf("scope of call-%d: %q, %v", i, id, err)
		}
		row, err := x.Attempt(id)
		if err != nil || row == nil {
			t.Fatalf("attempt %s: %v, %v", id, row, err)
		}
		out[id] = *row
	}
	return out
}

func TestLOG03_RebuiltIndexIsTheSameAndGarbageDoesNotCount(t *testing.T) {
	const attempts = 300
	msgs := history(attempts)
	a := open(t, t.TempDir())
	run(t, a, msgs)
	want := dump(t, a, attempts)
	for i := range attempts {
		id, _ := a.Scope(event.ScopeOf("default", "runtime", fmt.Sprintf("call-%d", i)))
		if row, _ := a.Attempt(id); len(row.Seqs) != 2 || row.State.Summary().State != event.StatusUnknown {
			t.Fatalf("call-%d: %d events, state %s; want 2, unknown", i, len(row.Seqs), row.State.Summary().State)
		}
	}
	// In pieces, reopened in between.
	dir := t.TempDir()
	for at := 0; at < len(msgs); at += 171 {
		b := open(t, dir)
		run(t, b, msgs[at:min(at+171, len(msgs))])
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, dir)
	if d := cmp.Diff(want, dump(t, b, attempts)); d != "" {
		t.Error(d)
	}
	// Emptied and rebuilt.
	if err := b.Reset(); err != nil {
		t.Fatal(err)
	}
	if seq, _ := b.Position(); seq != 0 {
		t.Fatalf("reset leaves position %d", seq)
	}
	run(t, b, msgs)
	if d := cmp.Diff(want, dump(t, b, attempts)); d != "" {
		t.Error(d)
	}
	for _, x := range []*Index{a, b} {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLOG04_AHoleInTheStreamStopsTheIndex(t *testing.T) {
	msgs := history(3)
	x := open(t, t.TempDir())
	defer x.Close()
	if err := x.Run(context.Background(), &slice{append(msgs[:2:2], msgs[3:]...)}); err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want an error about sequence 3", err)
	}
	if err := x.WaitFor(context.Background(), 99); err == nil {
		t.Error("waiting on a stopped index did not fail")
	}
}

// TestEVI17_KilledIndexMatchesAPrefix kills a child at random points and checks
// that what it left is what some prefix of the stream gives, and that going on
// from there gives the whole.
func TestEVI17_KilledIndexMatchesAPrefix(t *testing.T) {
	const attempts = 4000
	if dir := os.Getenv("INDEX_CHILD_DIR"); dir != "" {
		x := open(t, dir)
		seq, _ := x.Position()
		msgs := history(attempts)[seq:]
		fmt.Println("at", seq)
		run(t, x, msgs)
		return
	}
	msgs := history(attempts)
	clean := open(t, t.TempDir())
	run(t, clean, msgs)
	want := dump(t, clean, attempts)
	_ = clean.Close()
	dir := filepath.Join(t.TempDir(), "index")
	rounds := 5
	if os.Getenv("COUNTERFOIL_LONG") != "" {
		rounds = 50
	}
	for i := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=TestEVI17_KilledIndexMatchesAPrefix")
		cmd.Env = append(os.Environ(), "INDEX_CHILD_DIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 1)) // it has opened the index
		time.AfterFunc(time.Duration(i*17)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()

		x := open(t, dir)
		seq, _ := x.Position()
		// Every row must be what the fold of the prefix gives.
		fold := map[string]*lifecycle.State{}
		for _, m := range msgs[:seq] {
			rec, err := event.ParseRecord(m.Body)
			if err != nil || rec.Event.AttemptID == begin("x", 60000).AttemptID {
				continue
			}
			s := fold[rec.Event.AttemptID]
			if s == nil {
				s = &lifecycle.State{}
				fold[rec.Event.AttemptID] = s
			}
			_ = s.Apply(rec.Event, rec.Digest())
		}
		checked := 0
		for id, s := range fold {
			row, err := x.Attempt(id)
			if err != nil {
				t.Fatal(err)
			}
			if row == nil {
				continue // a second attempt in a taken scope
			}
			checked++
			if d := cmp.Diff(*s, row.State); d != "" {
				t.Fatalf("round %d, cursor %d, %s: %s", i, seq, id, d)
			}
		}
		t.Logf("round %d: cursor %d of %d, %d rows", i, seq, len(msgs), checked)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	x := open(t, dir)
	defer x.Close()
	seq, _ := x.Position()
	run(t, x, msgs[seq:])
	if d := cmp.Diff(want, dump(t, x, attempts)); d != "" {
		t.Error(d)
	}
}

func BenchmarkApply(b *testing.B) {
	x := open(b, b.TempDir())
	defer x.Close()
	msgs := history(b.N/2 + 1)
	b.ResetTimer()
	run(b, x, msgs[:b.N])
}
