package lease

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is three nodes on one register, driven one step at a time: every node has a
// clock that only moves when the test says so, so a node sleeps by not being
// driven. While one node waits for the register, the others may do anything. Beside
// them stands what must hold, as the simplest thing that can be said of it: a list
// of all that was signed, and of all that was published.
type model struct {
	t     *rapid.T
	m     *memory
	keys  keys
	nodes []*actor
	busy  map[*actor]bool // in the middle of a call: its other half comes later
	total uint64          // leaves in the stream
	acts  int
	wrong *leaves  // which no node has
	calm  bool     // nothing goes wrong any more
	late  []func() // writes that are still under way

	signed    map[uint64]Guard
	published []Guard
	epochs    map[uint64]string // who held the lease in it
	writer    *actor            // whose write reaches the register now
}

// actor is a node and what its publisher is at.
type actor struct {
	*node
	reserved *Guard // to be signed
	note     *Guard // signed, to be published
	shown    uint64 // size of the checkpoint that it shows
	stopped  error
}

func newModel(rt *rapid.T, t *testing.T, k keys) *model {
	w := &model{t: rt, m: newMemory(), wrong: newLeaves(1), keys: k, busy: map[*actor]bool{}, signed: map[uint64]Guard{}, epochs: map[uint64]string{}}
	fork := rapid.SampledFrom([]uint64{0, 0, 0, 3, 9, 27}).Draw(rt, "fork of c") // 0: none
	for i, name := range []string{"a", "b", "c"} {
		n := &actor{node: newNode(t, w.m, k, name, 0)}
		if i == 2 {
			n.log.leaves = newLeaves(fork)
		}
		n.clock = time.Unix(int64(1000*i), 0)
		n.link.put = func(set func() (uint64, error)) (uint64, error) { return w.write(n, set) }
		n.link.get = func() error { return w.read(n) }
		w.nodes = append(w.nodes, n)
	}
	w.m.accepted = w.accepted
	return w
}

// accepted sees every record that the register takes.
func (w *model) accepted(before, after stored) {
	now, err := Parse(after.value)
	if err != nil {
		w.t.Fatalf("the register took %q: %v", after.value, err)
	}
	var was Record
	if before.value != nil {
		if was, err = Parse(before.value); err != nil {
			w.t.Fatal(err)
		}
	}
	n := w.writer
	if now.Guard.Size < was.Guard.Size || now.Guard.Size == was.Guard.Size && was.Epoch > 0 && now.Guard.Root != was.Guard.Root {
		w.t.Fatalf("the guard went from %s to %s", was.Guard, now.Guard)
	}
	if now.Epoch == was.Epoch { // the holder writes, and nobody else
		if was.Instance != n.instance {
			w.t.Fatalf("node %s wrote into the epoch of %s: %+v", n.name, was.Node, now)
		}
	} else if now.Epoch != was.Epoch+1 || now.Node != n.name || was.Checkpoint != nil && now.Checkpoint == nil {
		w.t.Fatalf("node %s made epoch %d of %d: %+v", n.name, now.Epoch, was.Epoch, now)
	}
	if now.Checkpoint == nil || bytes.Equal(now.Checkpoint, was.Checkpoint) {
		return
	}
	_, g, err := readNote(now.Checkpoint, origin, MaxCheckpoint)
	if err != nil {
		w.t.Fatal(err)
	}
	if s, ok := w.signed[g.Size]; !ok || s != g {
		w.t.Fatalf("published %s, signed was %v %s", g, ok, s)
	}
	if len(w.published) > 0 && g.Size < w.published[len(w.published)-1].Size {
		w.t.Fatalf("published %s after %s", g, w.published)
	}
	w.published = append(w.published, g)
}

// interleave lets others act while n waits.
func (w *model) interleave(n *actor) {
	if len(w.busy) > 2 {
		return
	}
	for range rapid.IntRange(0, 2).Draw(w.t, "meanwhile") {
		w.act()
	}
}

func (w *model) write(n *actor, set func() (uint64, error)) (uint64, error) {
	by := func() (uint64, error) {
		before := w.writer
		defer func() { w.writer = before }()
		// A late write is one of the process that made it.
		w.writer = n
		return set()
	}
	w.interleave(n)
	defer w.interleave(n)
	switch rapid.SampledFrom([]string{"answered", "answered", "answered", "answered", "answered", "answered", "answered", "answered", "lost", "kept", "late", "twice", "late and again"}).Draw(w.t, "write of "+n.name) {
	case "lost":
		return 0, errLost
	case "kept":
		_, _ = by()
		return 0, errLost
	case "late":
		w.later(n, by)
		return 0, errLost
	case "late and again":
		w.later(n, by)
		return by()
	case "twice":
		_, _ = by()
		return by()
	}
	return by()
}

// later keeps a write until it is let through, if ever. The instance in the record
// is that of the process that made it, also when the node has another by then.
func (w *model) later(n *actor, by func() (uint64, error)) {
	instance := n.instance
	w.late = append(w.late, func() {
		now := n.node.Lease.instance
		n.node.Lease.instance = instance
		_, _ = by()
		n.node.Lease.instance = now
	})
}

func (w *model) read(n *actor) error {
	w.interleave(n)
	if rapid.IntRange(0, 7).Draw(w.t, "read of "+n.name) == 0 {
		return errLost
	}
	return nil
}

// do runs one call of a node, and checks what it may return.
func (w *model) do(n *actor, call func() error) error {
	w.busy[n] = true
	defer delete(w.busy, n)
	err := call()
	switch {
	case err == nil, errors.Is(err, ErrNotHeld), errors.Is(err, ErrUnavailable), errors.Is(err, ErrOlder), errors.Is(err, ErrNote):
	case errors.Is(err, ErrDisagrees):
		n.stopped = err
		if n.log.leaves.fork == 0 && w.nodes[2].log.leaves.fork == 0 {
			w.t.Fatalf("node %s disagrees with nobody: %v", n.name, err)
		}
	default:
		w.t.Fatalf("node %s: %v", n.name, err)
	}
	return err
}

// act drives one node that is not waiting.
func (w *model) act() {
	var free []*actor
	for _, n := range w.nodes {
		if !w.busy[n] {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return
	}
	// Draws favour what is named first, so the first changes.
	w.acts++
	n := free[(rapid.IntRange(0, len(free)-1).Draw(w.t, "node")+w.acts/20)%len(free)]
	what := rapid.SampledFrom([]string{"publish", "step", "publish", "grow", "publish", "adopt", "sleep", "crash", "see", "see late", "late write", "release", "grow", "publish", "sleep", "step"}).Draw(w.t, "does")
	switch what {
	case "grow":
		w.total += rapid.Uint64Range(0, 3).Draw(w.t, "leaves")
		n.log.set(w.total, n.log.guard)
		return
	case "sleep": // for one of them time goes by
		n.clock = n.clock.Add(time.Duration(rapid.SampledFrom([]int{3000, 1000, 2600, 100}).Draw(w.t, "ms")) * time.Millisecond)
		return
	case "late write":
		if len(w.late) > 0 {
			i := rapid.IntRange(0, len(w.late)-1).Draw(w.t, "which")
			late := w.late[i]
			w.late = slices.Delete(w.late, i, i+1)
			late()
		}
		return
	case "crash":
		n.restart(w.t)
		n.reserved, n.note = nil, nil
		return
	}
	if n.stopped != nil {
		return
	}
	switch what {
	case "step":
		_ = w.do(n, func() error { _, err := n.step(context.Background()); return err })
	case "see":
		s := w.m.last()
		n.observe(s.value, s.revision)
	case "see late":
		if h := w.m.history; len(h) > 0 {
			s := h[rapid.IntRange(0, len(h)-1).Draw(w.t, "revision")]
			n.observe(s.value, s.revision)
		}
	case "release":
		if rapid.IntRange(0, 3).Draw(w.t, "really") == 0 && w.do(n, func() error { return n.Release(context.Background()) }) == nil {
			n.restart(w.t)
			n.reserved, n.note = nil, nil
		}
	case "adopt":
		if r, _ := n.Record(); r.Checkpoint != nil {
			w.adopt(n, r.Checkpoint)
		}
	case "publish":
		if n.reserved == nil && n.note == nil && !n.Held() && rapid.IntRange(0, 3).Draw(w.t, "in vain") > 0 {
			_ = w.do(n, func() error { _, err := n.step(context.Background()); return err })
			return
		}
		w.publish(n)
	}
}

// adopt is what a log does with another node's checkpoint.
func (w *model) adopt(n *actor, note []byte) {
	_, g, err := readNote(note, origin, MaxCheckpoint)
	if err != nil {
		w.t.Fatal(err)
	}
	if g.Size > n.log.size {
		return
	}
	if n.guardAt(g.Size) != g {
		n.stopped = ErrDisagrees
		return
	}
	if g.Size >= n.shown {
		n.log.guard, n.shown, n.log.note = max(n.log.guard, n.log.size), g.Size, note
	}
}

// publish is one step of what a log does around a signature.
func (w *model) publish(n *actor) {
	switch {
	case n.note != nil:
		g := *n.note
		n.note = nil
		if !w.calm && len(w.signed) > 0 && rapid.IntRange(0, 3).Draw(w.t, "old note") == 3 {
			sizes := slices.Sorted(maps.Keys(w.signed)) // anything that was ever signed, again
			g = w.signed[sizes[rapid.IntRange(0, len(sizes)-1).Draw(w.t, "of size")]]
		}
		if w.do(n, func() error { return n.Publish(context.Background(), w.keys.checkpoint(g)) }) == nil {
			if !slices.Contains(w.published, g) {
				w.t.Fatalf("node %s believes that %s is published: %v", n.name, g, w.published)
			}
			if g.Size >= n.shown {
				w.adopt(n, w.keys.checkpoint(g))
			}
		}
	case n.reserved != nil: // it may have slept since
		g := *n.reserved
		n.reserved = nil
		if s, ok := w.signed[g.Size]; ok && s != g {
			w.t.Fatalf("node %s signs %s, signed was %s", n.name, g, s)
		}
		w.signed[g.Size] = g
		n.note = &g
	default:
		g := n.guardAt(n.log.size)
		if g.Size < n.log.guard || g.Size == n.shown && n.log.note != nil {
			return
		}
		which := 0
		if !w.calm {
			which = rapid.IntRange(0, 7).Draw(w.t, "tree")
		}
		switch which {
		case 6: // one that was looked at long ago
			g = n.guardAt(rapid.Uint64Range(0, g.Size).Draw(w.t, "old size"))
		case 7: // one that went wrong in memory
			if n.log.leaves.fork > 0 {
				g = w.wrong.at(g.Size)
			}
		default:
			n.log.guard = g.Size // durable, before anything is asked of others
		}
		if w.do(n, func() error { return n.Reserve(context.Background(), g.Size, g.Root) }) == nil {
			n.reserved = &g
		}
	}
}

// settle lets everybody wake up with a register that answers: one of them signs
// again, unless what was signed is not what they have.
func (w *model) settle() {
	w.calm = true
	for _, n := range w.nodes {
		n.link.mend()
		if n.gaveUp() { // its release was not answered
			n.restart(w.t)
		}
	}
	for _, late := range w.late {
		late()
	}
	w.total++
	for range 3 {
		for _, n := range w.nodes {
			n.log.size = w.total
			n.clock = n.clock.Add(n.cfg.TTL)
			for range 4 {
				w.writer = n
				if n.stopped == nil {
					_ = w.do(n, func() error { _, err := n.step(context.Background()); return err })
				}
			}
		}
	}
	good, holders := 0, 0
	for _, n := range w.nodes {
		if n.stopped != nil {
			continue
		}
		if good++; n.oursLocked() {
			holders++
			n.reserved, n.note = nil, nil
			w.writer = n
			for range 3 {
				w.publish(n)
			}
			if n.stopped == nil && n.shown != w.total {
				w.t.Fatalf("node %s holds the lease and shows %d of %d", n.name, n.shown, w.total)
			}
		}
	}
	if good > 0 && holders == 0 && w.nodes[2].log.leaves.fork == 0 {
		w.t.Fatalf("%d good nodes and nobody holds the lease: %+v", good, w.m.last())
	}
}

// Three nodes with clocks of their own, pauses and crashes anywhere, writes that are
// lost, kept, late or doubled, and at times a node whose log is another one: one
// root a size is signed, nothing smaller is published after something larger, who
// lost the lease publishes nothing, and in the end somebody signs again.
func TestCLU02_CLU03_CLU04_ThreeNodesAgainstTheModel(t *testing.T) {
	k := newKeys(t)
	signed, published := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newModel(rt, t, k)
		w.total = 1
		for range rapid.SampledFrom([]int{20, 100, 400}).Draw(rt, "steps") {
			w.act()
		}
		signed, published = signed+len(w.signed), published+len(w.published)
		w.settle()
	})
	if signed < 10 || published < 10 {
		t.Errorf("only %d sizes were signed and %d published: nothing was tried", signed, published)
	}
	t.Logf("%d sizes signed, %d published", signed, published)
}
