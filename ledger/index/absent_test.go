package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"counterfoil/ledger/event"
)

// TestEVI06_AScopeThatWasFreeIsTaken: what was looked up before it was there is
// found once it is, in memory and in the database, and what follows is judged by it.
func TestEVI06_AScopeThatWasFreeIsTaken(t *testing.T) {
	x := open(t, t.TempDir())
	defer x.Close()
	ctx := context.Background()
	feed := func(msgs ...Message) {
		t.Helper()
		if err := x.follow(ctx, &slice{rest: msgs}); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	for i := range uint64(3) {
		name := fmt.Sprintf("call-%d", i)
		first, second := begin(name, uint16(i+1)), begin(name, uint16(i+100))
		scope := event.ScopeOf("default", "runtime", name)
		x.Fresh(first.AttemptID)
		for range 2 { // from the database, then from what is remembered
			if id, err := x.Scope(scope); id != "" || err != nil {
				t.Fatalf("%s is held by %q, %v", name, id, err)
			}
			if row, err := x.Attempt(first.AttemptID); row != nil || err != nil {
				t.Fatalf("%s has a row: %v, %v", name, row, err)
			}
		}
		if !x.free.has(scope) || !x.fresh.has(first.AttemptID) {
			t.Fatal("nothing is remembered")
		}
		seq := 2*i + 1
		feed(Message{seq, first.StreamSubject(), leafOf(first)}, Message{seq + 1, second.StreamSubject(), leafOf(second)})
		for range 2 {
			if id, err := x.Scope(scope); id != first.AttemptID || err != nil {
				t.Fatalf("%s is held by %q, %v; want %s", name, id, err, first.AttemptID)
			}
			if row, err := x.Attempt(first.AttemptID); err != nil || row == nil || len(row.Seqs) != 1 || row.Seqs[0] != seq {
				t.Fatalf("row of %s: %v, %v", name, row, err)
			}
			if row, err := x.Attempt(second.AttemptID); row != nil || err != nil {
				t.Fatalf("a second attempt in a scope counts: %v, %v", row, err)
			}
			if err := x.Flush(); err != nil {
				t.Fatal(err)
			}
			x.clean = newCache(10)
		}
	}
}

func TestAbsentIsBounded(t *testing.T) {
	a := newAbsent[int]()
	for i := range 10 * absentKeys {
		a.put(i)
		if n := len(a.young) + len(a.old); n > absentKeys {
			t.Fatalf("%d keys, limit %d", n, absentKeys)
		}
		if !a.has(i) {
			t.Fatalf("%d was forgotten at once", i)
		}
	}
	last := 10*absentKeys - 1
	a.drop(last)
	if a.has(last) || a.has(0) {
		t.Error("a key that was dropped, or a very old one, is still there")
	}
}
