package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
)

// Every write meets every answer that a register may give. The answers come to the
// next write of the node; what is expected is what the register has afterwards.
func TestCLU07_WritesWithoutAnAnswer(t *testing.T) {
	answers := map[string]func(n *node, set func() (uint64, error)) (uint64, error){
		"failed, not kept": func(*node, func() (uint64, error)) (uint64, error) { return 0, errLost },
		"failed, but kept": func(_ *node, set func() (uint64, error)) (uint64, error) { _, _ = set(); return 0, errLost },
		"kept twice, the second refused": func(_ *node, set func() (uint64, error)) (uint64, error) {
			_, _ = set()
			return set()
		},
		"kept while it is read back": func(n *node, set func() (uint64, error)) (uint64, error) {
			n.link.onGet(func() error { n.link.onGet(func() error { _, _ = set(); return nil }); return nil })
			return 0, errLost
		},
		"kept just before the next try": func(n *node, set func() (uint64, error)) (uint64, error) {
			n.link.onPut(func(next func() (uint64, error)) (uint64, error) {
				n.link.onPut(nil)
				_, _ = set()
				return next()
			})
			return 0, errLost
		},
	}
	writes := map[string]struct {
		do   func(n *node) error
		done func(r Record, n *node) bool
	}{
		"reserve":   {func(n *node) error { return n.reserve(12) }, func(r Record, n *node) bool { return r.Guard == n.guardAt(12) && r.Instance == n.instance }},
		"publish":   {func(n *node) error { return n.publish(10) }, func(r Record, n *node) bool { return r.Checkpoint != nil && r.Instance == n.instance }},
		"witnessed": {func(n *node) error { return n.Witnessed(background, n.log.keys.checkpoint(n.guardAt(8))) }, func(r Record, n *node) bool { return r.Witnessed != nil }},
		"release":   {func(n *node) error { return n.Release(background) }, func(r Record, _ *node) bool { return r.Vacant() }},
	}
	for answer, give := range answers {
		for write, w := range writes {
			t.Run(write+"/"+answer, func(t *testing.T) {
				m, a, b := pair(t)
				must(t, a.reserve(8))
				must(t, a.publish(8))
				must(t, a.reserve(10))
				a.link.onPut(func(set func() (uint64, error)) (uint64, error) {
					a.link.onPut(nil)
					return give(a, set)
				})
				must(t, w.do(a))
				if r := m.record(t); !w.done(r, a) {
					t.Errorf("the register has %+v", r)
				}
				a.link.mend()
				if write == "release" {
					b.steps(t)
					a = b
				}
				must(t, a.reserve(15))
				must(t, a.publish(15))
			})
		}
	}
}

// The answer is lost and the register cannot be read either: nothing is done on a
// guess, and the next call finds out.
func TestCLU07_NoAnswerAtAll(t *testing.T) {
	for _, kept := range []bool{false, true} {
		for _, overtaken := range []bool{false, true} {
			t.Run(fmt.Sprintf("kept=%v/overtaken=%v", kept, overtaken), func(t *testing.T) {
				m, a, b := pair(t)
				must(t, a.reserve(10))
				a.link.onGet(func() error { return errLost })
				a.link.onPut(func(set func() (uint64, error)) (uint64, error) {
					if kept {
						_, _ = set()
					}
					return 0, errLost
				})
				err := a.publish(10)
				is(t, err, ErrUnavailable)
				if Final(err) {
					t.Error("no answer is final")
				}
				if (m.record(t).Checkpoint != nil) != kept {
					t.Errorf("published %q", m.record(t).Checkpoint)
				}
				if overtaken {
					b.hold(t)
				}
				a.link.mend()
				if overtaken {
					is(t, a.publish(10), ErrNotHeld)
					must(t, b.publish(10))
					return
				}
				must(t, a.publish(10))
				must(t, a.reserve(11))
			})
		}
	}
}

// The take-over itself is not answered.
func TestCLU07_TakeOverWithoutAnAnswer(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept=%v", kept), func(t *testing.T) {
			m, a, b := pair(t)
			b.steps(t)
			b.clock = b.clock.Add(b.cfg.TTL)
			reads := 0
			b.link.onGet(func() error {
				if reads++; reads == 1 {
					return nil
				}
				return errLost
			})
			b.link.onPut(func(set func() (uint64, error)) (uint64, error) {
				if kept {
					_, _ = set()
				}
				return 0, errLost
			})
			if _, err := b.step(background); !errors.Is(err, ErrUnavailable) || b.Held() {
				t.Errorf("%v, held %v", err, b.Held())
			}
			if (m.record(t).Node == "b") != kept {
				t.Errorf("the register has %+v", m.record(t))
			}
			b.link.mend()
			b.steps(t)
			if !b.Held() || m.record(t).Epoch != 2 {
				t.Errorf("held %v, epoch %d", b.Held(), m.record(t).Epoch)
			}
			is(t, a.reserve(10), ErrNotHeld)
		})
	}
}

// A record with this node's name, of the process before: it is not ours.
func TestCLU07_AnotherProcessOfTheNodeIsAnother(t *testing.T) {
	m, a, _ := pair(t)
	var late func() (uint64, error)
	a.link.onPut(func(set func() (uint64, error)) (uint64, error) { late = set; return 0, errLost })
	a.link.onGet(func() error { return nil })
	is(t, a.reserve(10), ErrUnavailable)
	before := m.record(t)
	a.restart(t)
	a.link.mend()
	a.steps(t)
	if a.Held() {
		t.Fatal("a new process holds the lease of the old one")
	}
	_, err := late()
	must(t, err)
	must(t, a.look(background))
	is(t, a.reserve(11), ErrNotHeld)
	a.clock = a.clock.Add(a.cfg.TTL)
	a.steps(t)
	if r := m.record(t); !a.Held() || r.Epoch != before.Epoch+1 || r.Guard != a.guardAt(10) {
		t.Errorf("held %v, the register has %+v", a.Held(), r)
	}
}

func TestCLU07_EveryWriteIsOnTheRevisionThatWasRead(t *testing.T) {
	m, a, _ := pair(t)
	seen := map[string]bool{}
	m.accepted = func(_, after stored) {
		if seen[string(after.value)] {
			t.Errorf("written twice: %s", after.value)
		}
		seen[string(after.value)] = true
	}
	for size := uint64(1); size < 20; size++ {
		must(t, a.reserve(size))
		must(t, a.publish(size))
	}
	if got := m.record(t); !bytes.Equal(got.Checkpoint, a.log.keys.checkpoint(a.guardAt(19))) {
		t.Errorf("published %q", got.Checkpoint)
	}
}

func TestReserveHonoursItsContext(t *testing.T) {
	_, a, _ := pair(t)
	ctx, cancel := context.WithCancel(background)
	cancel()
	is(t, a.Reserve(ctx, 10, a.guardAt(10).Root), context.Canceled)
	puts := a.link.puts
	a.writing <- struct{}{}
	ctx, cancel = context.WithCancel(background)
	done := make(chan error)
	go func() { done <- a.Reserve(ctx, 10, a.guardAt(10).Root) }()
	cancel()
	is(t, <-done, context.Canceled)
	<-a.writing
	if a.link.puts != puts {
		t.Error("something was written")
	}
}
