package follow_test

import (
	"errors"
	"fmt"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
	"counterfoil/projections/receipts"
)

// TestLOG05_LongAttemptsFitABatch folds attempts of the greatest length side by
// side: their rows together are far larger than one transaction.
func TestLOG05_LongAttemptsFitABatch(t *testing.T) {
	const attempts = 6
	heads := make([]*event.Event, attempts)
	var leaves [][]byte
	for i := range heads {
		heads[i] = leaftest.Begin(fmt.Sprint(i), nil)
		leaves = append(leaves, leaftest.Unsigned(heads[i]))
	}
	for r := 1; r < event.MaxRevision; r++ {
		for i, h := range heads {
			heads[i] = leaftest.After(h, event.Review, "noted", fmt.Sprint(r), leaftest.Refers("reviews", h))
			leaves = append(leaves, leaftest.Unsigned(heads[i]))
		}
	}
	plain := func(c *follow.Config) { c.Check = leaftest.NoCheck }
	log := leaftest.NewLog(leaves...)
	log.Publish(len(leaves))
	db := open(t, t.TempDir())
	catchUp(t, follower(t, db, log, func(c *follow.Config) { plain(c); c.BatchLeaves = 1 << 20 }))
	a, err := query.New(db, log).Attempt(t.Context(), heads[3].AttemptID)
	if err != nil || a.Attempt.Revision != event.MaxRevision || a.TreeSize != uint64(len(leaves)) {
		t.Fatalf("attempt %+v, %v", a, err)
	}
	other := open(t, t.TempDir())
	log.Publish(len(leaves) / 2)
	catchUp(t, follower(t, other, log, plain))
	log.Publish(len(leaves))
	catchUp(t, follower(t, other, log, plain))
	if digest(t, db) != digest(t, other) {
		t.Error("digests differ")
	}
}

// TestLOG05_HighCardinalityFitsABatch gives every event names of its own, of the
// greatest length.
func TestLOG05_HighCardinalityFitsABatch(t *testing.T) {
	var leaves [][]byte
	for i := range 1500 {
		leaves = append(leaves, leaftest.Unsigned(leaftest.Begin(fmt.Sprint(i), func(e *event.Event) {
			name := fmt.Sprintf("%0*d", event.MaxIDBytes, i)
			e.Action.Name, e.Source.AgentID, e.Source.RuntimeID, e.Subject.ID = name, name, name, name
			e.Subject.Kind = event.Contract
		})))
	}
	log := leaftest.NewLog(leaves...)
	log.Publish(len(leaves))
	db := open(t, t.TempDir())
	catchUp(t, follower(t, db, log, func(c *follow.Config) { c.Check, c.BatchLeaves = leaftest.NoCheck, 1<<20 }))
	a, err := query.New(db, log).Receipts(t.Context(), query.ReceiptFilter{Agent: fmt.Sprintf("%0*d", event.MaxIDBytes, 1400)}, query.Page{})
	if err != nil || len(a.Receipts) != 1 || a.Receipts[0].Index != 1400 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestATT11_TheFirstOfARepeatedEventCounts: the same event under another
// signature, or again after a bad one, is one event.
func TestATT11_TheFirstOfARepeatedEventCounts(t *testing.T) {
	begun := leaftest.Begin("call", nil)
	outcome := leaftest.After(begun, event.Outcome, event.StatusFailed, "o", nil)
	second := leaftest.Begin("call", func(e *event.Event) { // the same scope, another attempt
		e.AttemptID = event.NewAttemptID(event.ScopeOf(leaftest.Tenant, e.Source.RuntimeID, "call").Shard(), [15]byte{9})
	})
	early := leaftest.Begin("late", nil)
	leaves := [][]byte{
		leaftest.LeafBy(leaftest.Other, begun), // 0: nobody knows the key
		leaftest.Unsigned(begun),               // 1: the signature is wrong
		leaftest.Leaf(begun),                   // 2: counts
		leaftest.Leaf(begun),                   // 3
		leaftest.Leaf(second),                  // 4
		leaftest.Leaf(outcome),                 // 5: counts
		leaftest.Leaf(outcome),                 // 6
		leaftest.Leaf(leaftest.After(second, event.Outcome, event.StatusFailed, "o", nil)),     // 7
		leaftest.Leaf(leaftest.After(outcome, event.Outcome, event.StatusSucceeded, "o", nil)), // 8: source event id again
		leaftest.Leaf(leaftest.After(early, event.Outcome, event.StatusSucceeded, "o", nil)),   // 9: before its attempt
		leaftest.Leaf(early), // 10: counts
		leaftest.Leaf(leaftest.After(outcome, event.Outcome, event.StatusSucceeded, "p", nil)),                                                      // 11: no correction
		leaftest.Leaf(leaftest.After(outcome, event.Reconciliation, event.StatusConfirmedAbsent, "q", leaftest.ReadBack(event.ObservedAbsent, ""))), // 12
	}
	db := fold(t, leaves)
	p, err := query.New(db, nil).Parked(t.Context(), query.Page{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64][2]string{
		0: {receipts.BadSignature, "unknown_key"}, 1: {receipts.BadSignature, "signature_wrong"}, 3: {receipts.DuplicateLeaf, ""},
		4: {receipts.Unlawful, lifecycle.ScopeTaken}, 6: {receipts.DuplicateLeaf, ""}, 7: {receipts.Unlawful, lifecycle.NoAttempt},
		8: {receipts.Unlawful, lifecycle.DuplicateID}, 9: {receipts.Unlawful, lifecycle.NoAttempt},
		11: {receipts.Unlawful, lifecycle.OutcomeExists}, 12: {receipts.Unlawful, lifecycle.NotInDoubt},
	}
	for _, got := range p.Parked {
		if w := want[got.Index]; got.Reason != w[0] || got.Code != w[1] {
			t.Errorf("leaf %d is parked as %s %s, want %v", got.Index, got.Reason, got.Code, w)
		}
		delete(want, got.Index)
	}
	if len(want) != 0 {
		t.Errorf("not parked: %v", want)
	}
}

// TestLOG05_DamagedRowsStopTheFollower: a row that rotted is not folded upon.
func TestLOG05_DamagedRowsStopTheFollower(t *testing.T) {
	begun := leaftest.Begin("call", nil)
	log := leaftest.NewLog(leaftest.Leaf(begun), leaftest.Leaf(leaftest.After(begun, event.Outcome, event.StatusFailed, "o", nil)))
	log.Publish(1)
	db := open(t, t.TempDir())
	catchUp(t, follower(t, db, log, nil))
	for key := range dump(t, db) {
		if key[0] != 'a' {
			continue
		}
		b, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Set([]byte(key), []byte("rotten")); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(b.Cursor()); err != nil {
			t.Fatal(err)
		}
	}
	log.Publish(2)
	f := follower(t, db, log, nil)
	if err := f.Run(t.Context()); !errors.Is(err, kv.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	if s := f.Status(); s.Size != 1 || s.Stopped == nil {
		t.Errorf("status %+v", s)
	}
}

// TestLOG06_AFullDiskIsWaitedFor: the follower neither stops nor skips.
func TestLOG06_AFullDiskIsWaitedFor(t *testing.T) {
	leaves := leaftest.History(61, 300)
	log := leaftest.NewLog(leaves...)
	log.Publish(300)
	cfg := config(t.TempDir())
	free := make(chan uint64, 1)
	free <- 0
	cfg.FreeBytes = func(string) (uint64, error) {
		n := <-free
		free <- n
		return n, nil
	}
	if _, err := kv.Open(cfg); !errors.Is(err, kv.ErrDiskFull) {
		t.Fatalf("open: %v", err)
	}
	<-free
	free <- 1 << 40
	db, err := kv.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	<-free
	free <- 0
	f := follower(t, db, log, nil)
	if err := f.CatchUp(t.Context()); !errors.Is(err, kv.ErrDiskFull) || f.Status().LastError == nil {
		t.Errorf("got %v", err)
	}
	if c, _ := db.Cursor(); c.Size != 0 {
		t.Errorf("cursor at %d", c.Size)
	}
	<-free
	free <- 1 << 40
	catchUp(t, f)
	if digest(t, db) != digest(t, fold(t, leaves)) {
		t.Error("digests differ")
	}
}
