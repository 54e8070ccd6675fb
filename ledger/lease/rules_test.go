package lease

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

var background = context.Background()

// pair is a holder and another node on one register, both with 20 leaves.
func pair(t *testing.T) (m *memory, a, b *node) {
	t.Helper()
	m = newMemory()
	k := newKeys(t)
	a, b = newNode(t, m, k, "a", 20), newNode(t, m, k, "b", 20)
	a.hold(t)
	return m, a, b
}

func TestCLU02_GuardNeverGoesBack(t *testing.T) {
	m, a, _ := pair(t)
	must(t, a.reserve(10))
	if g := m.record(t).Guard; g != a.guardAt(10) {
		t.Fatalf("the register has %s", g)
	}
	must(t, a.reserve(10)) // the same again
	other := newLeaves(3).at(10)
	err := a.Reserve(background, 10, other.Root)
	is(t, err, ErrDisagrees)
	for _, root := range [][32]byte{other.Root, a.guardAt(10).Root} {
		if !bytes.Contains([]byte(err.Error()), []byte(Guard{10, root}.String())) {
			t.Errorf("%q does not name %x", err, root)
		}
	}
	if !Final(err) {
		t.Error("another root is not final")
	}
	// A smaller tree, while this node's log has the larger: it was looked at too early.
	err = a.reserve(9)
	is(t, err, ErrOlder)
	if Final(err) {
		t.Error("a tree that was looked at too early is final")
	}
	a.log.set(9, 9) // the log lost leaves
	err = a.reserve(9)
	is(t, err, ErrRolledBack)
	if !Final(err) {
		t.Error("a log that was rolled back is not final")
	}
	a.log.set(20, 9)
	if g := m.record(t).Guard; g != a.guardAt(10) {
		t.Errorf("the register has %s", g)
	}
	must(t, a.reserve(11))
}

func TestCLU03_OnlyTheReservedTreeIsPublished(t *testing.T) {
	m, a, _ := pair(t)
	must(t, a.reserve(10))
	for name, note := range map[string][]byte{
		"smaller than reserved":   a.log.keys.checkpoint(a.guardAt(9)),
		"larger than reserved":    a.log.keys.checkpoint(a.guardAt(11)),
		"another tree":            a.log.keys.checkpoint(newLeaves(3).at(10)),
		"signed by another key":   newKeys(t).checkpoint(a.guardAt(10)),
		"signature does not hold": bytes.Replace(a.log.keys.checkpoint(a.guardAt(9)), []byte("\n9\n"), []byte("\n10\n"), 1),
		"no note":                 []byte("nothing"),
		"too long":                lines(a.log.keys.checkpoint(a.guardAt(10)), MaxCheckpoint),
	} {
		err := a.Publish(background, note)
		if !errors.Is(err, ErrNote) {
			t.Errorf("%s: %v, expected %v", name, err, ErrNote)
		}
		if Final(err) {
			t.Errorf("%s: it is final", name)
		}
		if m.record(t).Checkpoint != nil {
			t.Fatalf("%s: published", name)
		}
	}
	must(t, a.publish(10))
	must(t, a.publish(10)) // an answer that got lost
	if r := m.record(t); !bytes.Equal(r.Checkpoint, a.log.keys.checkpoint(a.guardAt(10))) {
		t.Errorf("published %q", r.Checkpoint)
	}
	must(t, a.reserve(12))
	is(t, a.publish(10), ErrNote) // older than the guard
	if r := m.record(t); !bytes.Equal(r.Checkpoint, a.log.keys.checkpoint(a.guardAt(10))) {
		t.Errorf("published %q", r.Checkpoint)
	}
}

func TestCLU03_CosignaturesGoForward(t *testing.T) {
	m, a, b := pair(t)
	note := func(size uint64) []byte { return lines(a.log.keys.checkpoint(a.guardAt(size)), 900) }
	is(t, a.Witnessed(background, note(10)), ErrNote) // of no published tree
	must(t, a.reserve(10))
	must(t, a.publish(10))
	must(t, a.Witnessed(background, note(8)))
	must(t, a.Witnessed(background, note(10)))
	is(t, a.Witnessed(background, note(8)), ErrOlder)
	is(t, a.Witnessed(background, note(11)), ErrNote)
	is(t, a.Witnessed(background, newKeys(t).checkpoint(a.guardAt(10))), ErrNote)
	err := a.Witnessed(background, a.log.keys.checkpoint(newLeaves(3).at(10)))
	is(t, err, ErrDisagrees)
	must(t, a.Witnessed(background, a.log.keys.checkpoint(a.guardAt(10)))) // another note of the same tree
	b.steps(t)
	is(t, b.Witnessed(background, note(10)), ErrNotHeld)
	if r := m.record(t); !bytes.Equal(r.Witnessed, a.log.keys.checkpoint(a.guardAt(10))) {
		t.Errorf("kept %q", r.Witnessed)
	}
}

// The holder sleeps at every point of a publication; another takes over; it wakes.
func TestCLU04_WhoSleptPublishesNothing(t *testing.T) {
	for name, upTo := range map[string]int{"before reserving": 0, "before signing": 1, "before publishing": 1, "after publishing": 2} {
		t.Run(name, func(t *testing.T) {
			m, a, b := pair(t)
			if upTo > 0 {
				must(t, a.reserve(10))
			}
			if upTo > 1 {
				must(t, a.publish(10))
			}
			before := m.record(t)
			b.hold(t) // for a, no time went by
			if !a.Held() {
				t.Error("the sleeper knows what it cannot know")
			}
			if r := m.record(t); r.Epoch != before.Epoch+1 || r.Guard != before.Guard || !bytes.Equal(r.Checkpoint, before.Checkpoint) {
				t.Errorf("took over %+v as %+v", before, r)
			}
			must(t, b.reserve(12))
			must(t, b.publish(12))
			now := m.last().revision
			for range 2 {
				if upTo > 0 { // what it signed before
					is(t, a.publish(10), ErrNotHeld)
				}
				is(t, a.reserve(15), ErrNotHeld)
				is(t, a.publish(15), ErrNotHeld)
				is(t, a.Witnessed(background, a.log.keys.checkpoint(a.guardAt(10))), ErrNotHeld)
			}
			must(t, a.Release(background))
			if a.Held() || m.last().revision != now {
				t.Error("the sleeper wrote, or still believes that it holds the lease")
			}
			must(t, b.reserve(13))
		})
	}
}

// While it slept, its lease ran out, and nobody wanted it: it goes on.
func TestCLU04_ALeaseThatNobodyTookIsRenewed(t *testing.T) {
	m, a, _ := pair(t)
	epoch := m.record(t).Epoch
	a.clock = a.clock.Add(time.Hour)
	if a.Held() {
		t.Fatal("a lease that was not renewed for an hour is held")
	}
	must(t, a.reserve(10))
	if !a.Held() || m.record(t).Epoch != epoch {
		t.Errorf("held %v, epoch %d after %d", a.Held(), m.record(t).Epoch, epoch)
	}
}

func TestCLU05_HeldEndsBeforeAnotherTakesOver(t *testing.T) {
	_, a, b := pair(t)
	b.steps(t)
	a.clock = a.clock.Add(a.cfg.TTL - a.cfg.Margin - 1)
	b.clock = b.clock.Add(b.cfg.TTL - 1)
	b.steps(t)
	if !a.Held() || b.Held() {
		t.Errorf("held by a: %v, by b: %v", a.Held(), b.Held())
	}
	a.clock = a.clock.Add(1)
	if a.Held() {
		t.Error("held when the time is over")
	}
	b.clock = b.clock.Add(1)
	b.steps(t)
	if !b.Held() {
		t.Error("not taken over after the time")
	}
}

// What counts is when the write began, not when it was answered.
func TestCLU05_ASlowAnswerDoesNotProlong(t *testing.T) {
	_, a, _ := pair(t)
	a.clock = a.clock.Add(a.cfg.Beat)
	a.link.onPut(func(set func() (uint64, error)) (uint64, error) {
		defer func() { a.clock = a.clock.Add(a.cfg.TTL) }()
		return set()
	})
	must(t, a.reserve(10))
	if a.Held() {
		t.Error("held by an answer that is as old as the lease")
	}
}

func TestCLU05_ReleaseHandsOverAtOnce(t *testing.T) {
	m, a, b := pair(t)
	must(t, a.reserve(10))
	must(t, a.publish(10))
	must(t, a.Release(background))
	r := m.record(t)
	if a.Held() || !r.Vacant() || r.Guard != a.guardAt(10) || r.Checkpoint == nil {
		t.Fatalf("held %v, the register has %+v", a.Held(), r)
	}
	must(t, a.Release(background)) // again
	a.steps(t)
	is(t, a.reserve(11), ErrNotHeld)
	b.steps(t) // no time goes by
	if !b.Held() {
		t.Fatal("the lease is free and not taken")
	}
	must(t, b.reserve(11))
	// A release without an answer: the node is out of it all the same.
	b.link.cut()
	is(t, b.Release(background), ErrUnavailable)
	b.link.mend()
	is(t, b.reserve(12), ErrNotHeld)
	if b.Held() {
		t.Error("held after a release")
	}
}

func TestCLU06_OnlyTheGuardsTreeTakesOver(t *testing.T) {
	m, a, b := pair(t)
	must(t, a.reserve(10))
	b.log.set(9, 9)
	b.steps(t)
	for range 5 {
		b.clock = b.clock.Add(b.cfg.TTL)
		b.steps(t)
	}
	if b.Held() {
		t.Fatal("a node that is behind the guard took over")
	}
	b.log.set(10, 9)
	b.log.unfit = true
	b.steps(t)
	if b.Held() {
		t.Fatal("a node that is not fit took over")
	}
	b.log.unfit = false
	b.steps(t)
	if !b.Held() || m.record(t).Guard != a.guardAt(10) {
		t.Fatalf("held %v, the register has %+v", b.Held(), m.record(t))
	}
	// A log with another root at the guard's size stops.
	a.log.leaves = newLeaves(7)
	a.clock = a.clock.Add(a.cfg.TTL)
	must(t, a.look(background))
	a.clock = a.clock.Add(a.cfg.TTL)
	_, err := a.step(background)
	is(t, err, ErrDisagrees)
	if !Final(err) || a.Held() {
		t.Errorf("%v is not final, or held: %v", err, a.Held())
	}
}

func TestCLU06_OwnTreeThatCannotBeReadTakesNothing(t *testing.T) {
	_, _, b := pair(t)
	broken := errors.New("disk")
	b.cfg.Contains = func(context.Context, uint64, [32]byte) (bool, error) { return false, broken }
	_, err := b.step(background)
	must(t, err)
	b.clock = b.clock.Add(b.cfg.TTL)
	_, err = b.step(background)
	is(t, err, broken)
	if Final(err) || b.Held() {
		t.Errorf("%v is final, or held: %v", err, b.Held())
	}
}

func TestCLU09_ALostRecordIsMadeFromTheNodesOwn(t *testing.T) {
	m, a, b := pair(t)
	must(t, a.reserve(10))
	must(t, a.publish(10))
	b.steps(t)
	b.log.set(20, 15)
	b.log.note = b.log.keys.checkpoint(b.guardAt(10))
	m.lose()
	is(t, a.reserve(11), ErrNotHeld)
	b.clock = b.clock.Add(b.cfg.TTL)
	b.steps(t)
	r := m.record(t)
	if !b.Held() || r.Epoch != 1 || r.Guard != b.guardAt(15) || !bytes.Equal(r.Checkpoint, b.log.note) {
		t.Errorf("held %v, the register has %+v", b.Held(), r)
	}
	is(t, b.reserve(14), ErrOlder)
	must(t, b.reserve(16))
	// Two make the first record at once: one wins.
	m.lose()
	must(t, a.look(background))
	b.link.onPut(func(set func() (uint64, error)) (uint64, error) {
		b.link.mend()
		a.steps(t)
		return set()
	})
	b.clock = b.clock.Add(b.cfg.TTL)
	b.steps(t)
	if !a.Held() || b.Held() {
		t.Errorf("held by a: %v, by b: %v", a.Held(), b.Held())
	}
}

// The register comes from an old copy, and the node that takes over knows more.
func TestCLU09_AnOlderRecordIsRaised(t *testing.T) {
	m, a, b := pair(t)
	must(t, a.reserve(10))
	old := m.last().value
	must(t, a.reserve(12))
	must(t, a.publish(12))
	m.lose()
	m.forge(old)
	b.log.set(20, 18)
	b.log.note = b.log.keys.checkpoint(b.guardAt(12))
	b.hold(t)
	if r := m.record(t); r.Guard != b.guardAt(18) || !bytes.Equal(r.Checkpoint, b.log.note) {
		t.Errorf("the register has %+v", r)
	}
	// Not from a log that does not continue the record's tree.
	m.forge(old)
	a.log.leaves = newLeaves(5)
	a.log.set(20, 20)
	must(t, a.look(background))
	a.clock = a.clock.Add(a.cfg.TTL)
	_, err := a.step(background)
	is(t, err, ErrDisagrees)
	if !bytes.Equal(m.last().value, old) {
		t.Error("the record was changed")
	}
}

// Nobody writes over what is no record of this log.
func TestCLU01_ForeignRecordsStay(t *testing.T) {
	m, a, b := pair(t)
	r := m.record(t)
	r.Origin = "log.test/two"
	foreign, err := r.Encode()
	must(t, err)
	for _, value := range [][]byte{[]byte("?"), foreign} {
		m.forge(value)
		for _, n := range []*node{a, b} {
			n.clock = n.clock.Add(n.cfg.TTL)
			must(t, n.look(background))
			n.clock = n.clock.Add(n.cfg.TTL)
			_, err := n.step(background)
			is(t, err, ErrRecord)
			is(t, n.reserve(10), ErrRecord)
			if n.Held() {
				t.Error("held by a record that is none")
			}
		}
		if !bytes.Equal(m.last().value, value) {
			t.Errorf("%q was written over", value)
		}
	}
	// Somebody puts it right, and no watch tells of it.
	must(t, b.look(background))
	value, err := Record{Origin: origin, Epoch: 1, Beat: 1, Guard: b.guardAt(10)}.Encode()
	must(t, err)
	m.forge(value)
	b.steps(t)
	if !b.Held() {
		t.Error("a record that was put right is not taken")
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := New(Config{TTL: 1, Beat: 1})
	for _, name := range []string{"register", "node", "origin", "logKey", "contains", "own", "ttl", "margin"} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}
