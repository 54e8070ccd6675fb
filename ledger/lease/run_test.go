package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// runner is a node whose lease runs by itself, in a bubble of synctest.
type runner struct {
	*Lease
	log   *log
	link  *link
	stop  context.CancelFunc
	ended chan error
}

func startNode(t *testing.T, m *memory, k keys, name string, size uint64) *runner {
	t.Helper()
	r := &runner{log: &log{leaves: newLeaves(0), keys: k, size: size}, link: &link{m: m}, ended: make(chan error, 1)}
	r.start(t, name)
	return r
}

func (r *runner) start(t *testing.T, name string) {
	t.Helper()
	l, err := New(r.log.config(name, r.link))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	r.Lease, r.stop = l, stop
	go func() { r.ended <- l.Run(ctx) }()
	t.Cleanup(func() { stop(); synctest.Wait() })
}

// kill ends a node without a word.
func (r *runner) kill(t *testing.T) {
	t.Helper()
	r.stop()
	must(t, <-r.ended)
}

// after waits until the node holds the lease and says how long that took.
func (r *runner) after(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		changed := r.Changed()
		if r.Held() {
			return time.Since(began)
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("the node does not hold the lease after a minute: %v", r.Trouble())
		}
	}
}

// cluster starts three nodes; the first holds the lease.
func cluster(t *testing.T) (m *memory, k keys, nodes []*runner) {
	t.Helper()
	m, k = newMemory(), newKeys(t)
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, startNode(t, m, k, name, 20))
		if name == "a" {
			if took := nodes[0].after(t); took != 0 {
				t.Errorf("the first node waited %v for an empty register", took)
			}
		}
	}
	synctest.Wait()
	return m, k, nodes
}

func TestCLU05_AnotherSignsWithinFiveSeconds(t *testing.T) {
	for name, die := range map[string]func(*testing.T, *runner){
		"killed":  func(t *testing.T, r *runner) { r.kill(t) },
		"cut off": func(_ *testing.T, r *runner) { r.link.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k, nodes := cluster(t)
				a := nodes[0]
				time.Sleep(10*time.Second + 700*time.Millisecond)
				must(t, a.Reserve(t.Context(), 10, a.log.leaves.at(10).Root))
				die(t, a)
				began := time.Now()
				nodes[2].log.set(9, 9) // it has not got so far
				b := nodes[1]
				if took := b.after(t); took > 5*time.Second || took < b.cfg.TTL-b.cfg.Beat {
					t.Errorf("taken over after %v", took)
				}
				g := b.log.leaves.at(11)
				must(t, b.Reserve(t.Context(), g.Size, g.Root))
				must(t, b.Publish(t.Context(), k.checkpoint(g)))
				if took := time.Since(began); took >= 5*time.Second {
					t.Errorf("signed after %v", took)
				}
				if a.Held() && name == "cut off" || nodes[2].Held() || m.record(t).Epoch != 2 {
					t.Errorf("held by a: %v, by c: %v; the register has %+v", a.Held(), nodes[2].Held(), m.record(t))
				}
				a.link.mend()
				is(t, a.Reserve(t.Context(), 12, a.log.leaves.at(12).Root), ErrNotHeld)
			})
		})
	}
}

// Who cannot reach the register says that it does not hold the lease before
// anybody else can have it.
func TestCLU05_TheOldHolderKnowsBeforeTheNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, nodes := cluster(t)
		a := nodes[0]
		time.Sleep(time.Hour + 300*time.Millisecond)
		if !a.Held() {
			t.Fatal("the lease was lost without a reason")
		}
		a.link.cut()
		changed := a.Changed() // from before the end: both may come at one instant
		for {
			next := a.Changed()
			if !a.Held() {
				break
			}
			changed = next
			if nodes[1].Held() || nodes[2].Held() {
				t.Fatal("two nodes hold the lease")
			}
			time.Sleep(time.Millisecond)
		}
		told := false
		for !nodes[1].Held() && !nodes[2].Held() {
			time.Sleep(10 * time.Millisecond)
		}
		select {
		case <-changed:
			told = true
		default:
		}
		if !told {
			t.Error("Changed does not tell of a lease that ran out")
		}
		if nodes[1].Held() == nodes[2].Held() {
			t.Error("two nodes hold the lease")
		}
	})
}

func TestCLU05_AHolderKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, nodes := cluster(t)
		nodes[1].link.mu.Lock()
		nodes[1].link.deaf = true // silence of the watch is not silence of the holder
		nodes[1].link.mu.Unlock()
		for range 2 * 60 {
			time.Sleep(time.Minute)
			if !nodes[0].Held() || nodes[1].Held() || nodes[2].Held() {
				t.Fatal("the holder changed")
			}
		}
		if r := m.record(t); r.Epoch != 1 || r.Beat < 2*3600*9/10 || r.Beat > 2*3600*11/10 {
			t.Errorf("after two hours the register has %+v", r)
		}
		if n := nodes[2].link.gets; n > 10 {
			t.Errorf("a node that only watches asked %d times", n)
		}
	})
}

func TestCLU05_AGracefulStopHandsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, nodes := cluster(t)
		a := nodes[0]
		time.Sleep(7 * time.Second)
		must(t, a.Release(t.Context()))
		synctest.Wait() // no time goes by
		if a.Held() || nodes[1].Held() == nodes[2].Held() {
			t.Fatalf("held: %v %v %v", a.Held(), nodes[1].Held(), nodes[2].Held())
		}
		time.Sleep(time.Minute)
		a.kill(t)
		a.start(t, "a")
		time.Sleep(time.Minute)
		if r := m.record(t); a.Held() || r.Epoch != 2 {
			t.Errorf("a came back, held %v; the register has %+v", a.Held(), r)
		}
	})
}

// Nobody who has the guard's tree: nobody signs, and the first to have it does.
func TestCLU06_WaitsForANodeThatHasTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, nodes := cluster(t)
		a := nodes[0]
		must(t, a.Reserve(t.Context(), 20, a.log.leaves.at(20).Root))
		for _, n := range nodes[1:] {
			n.log.set(19, 19)
		}
		a.kill(t)
		time.Sleep(time.Hour)
		if r := m.record(t); r.Epoch != 1 {
			t.Fatalf("taken over: %+v", r)
		}
		if gets := nodes[1].link.gets + nodes[2].link.gets; gets > 20 {
			t.Errorf("the register was asked %d times by nodes that cannot take over", gets)
		}
		nodes[2].log.set(20, 20)
		if took := nodes[2].after(t); took > time.Second {
			t.Errorf("taken over %v after it had the tree", took)
		}
	})
}

func TestCLU06_RunEndsWhenTheLogIsAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, nodes := cluster(t)
		a, b := nodes[0], nodes[1]
		nodes[2].kill(t)
		must(t, a.Reserve(t.Context(), 10, a.log.leaves.at(10).Root))
		b.log.become(newLeaves(4))
		a.kill(t)
		err := <-b.ended
		is(t, err, ErrDisagrees)
		is(t, err, errOther)
		is(t, b.Trouble(), ErrDisagrees)
		if b.Held() || m.record(t).Node != "a" {
			t.Errorf("held %v, the register has %+v", b.Held(), m.record(t))
		}
	})
}

// The register is away for a while, for all: nobody holds the lease at the end of
// it, and one does soon after.
func TestCLU05_TheRegisterIsAway(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _, nodes := cluster(t)
				time.Sleep(time.Minute)
				for _, n := range nodes {
					n.link.cut()
				}
				time.Sleep(away)
				synctest.Wait()
				for i, n := range nodes {
					if n.Held() && away > n.cfg.TTL {
						t.Error("held without a register")
					}
					if n.Trouble() == nil && i == 0 {
						t.Error("no trouble is told of")
					}
				}
				began := time.Now()
				for _, n := range nodes {
					n.link.mend()
				}
				held := func() (n int) {
					for _, r := range nodes {
						if r.Held() {
							n++
						}
					}
					return n
				}
				for held() == 0 {
					time.Sleep(50 * time.Millisecond)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("held again after %v", took)
				}
				time.Sleep(10 * time.Second)
				if n := held(); n != 1 {
					t.Errorf("%d nodes hold the lease", n)
				}
				for _, r := range nodes {
					if err := r.Trouble(); err != nil {
						t.Errorf("trouble is told of: %v", err)
					}
				}
				m.record(t)
			})
		})
	}
}

// A call that hangs is not waited for longer than a beat.
func TestCLU07_ARegisterThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := newKeys(t)
		l := &log{leaves: newLeaves(0), keys: k, size: 20}
		h := &hanging{link: &link{m: m}}
		lease, err := New(l.config("a", h))
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- lease.Run(ctx) }()
		synctest.Wait()
		if !lease.Held() {
			t.Fatal("not held")
		}
		h.hangs.Store(true)
		began := time.Now()
		if err := lease.Reserve(t.Context(), 5, l.leaves.at(5).Root); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Reserve: %v", err)
		}
		if took := time.Since(began); took > 8*lease.cfg.Beat {
			t.Errorf("answered after %v", took)
		}
		h.hangs.Store(false)
		must(t, lease.Reserve(t.Context(), 5, l.leaves.at(5).Root))
		h.hangs.Store(true)
		stop()
		must(t, <-ended)
	})
}

// The watch ends again and again: reads take its place.
func TestCLU07_AWatchThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k, nodes := cluster(t)
		l := &log{leaves: newLeaves(0), keys: k, size: 20}
		lease, err := New(l.config("d", blind{&link{m: m}}))
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- lease.Run(ctx) }()
		time.Sleep(time.Minute)
		if lease.Held() || !nodes[0].Held() {
			t.Error("taken over because of a watch that ended")
		}
		for _, n := range nodes {
			n.kill(t)
		}
		time.Sleep(10 * time.Second)
		if !lease.Held() {
			t.Error("not taken over")
		}
		stop()
		must(t, <-ended)
	})
}
