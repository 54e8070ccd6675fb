package faults

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/event"
)

// acks is the model of a ledger: the events that it acknowledged with their
// places, and the trees that it signed. The zero value, with a map, is ready.
type acks struct {
	mu  sync.Mutex
	all map[string]receipt // by event id

	sent map[string]bool   // invocations that a client may have sent; nil: anything may be in the log
	tree map[uint64]string // every checkpoint seen: size → root
	top  uint64            // the largest of them
}

func newModel() *acks {
	return &acks{all: map[string]receipt{}, sent: map[string]bool{}, tree: map[uint64]string{}}
}

func (a *acks) add(r receipt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[r.EventID] = r
}

func (a *acks) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// sending notes that a client sends the begin of an invocation.
func (a *acks) sending(invocation string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent != nil {
		a.sent[invocation] = true
	}
}

// signed notes a checkpoint that the ledger shows. Trees only grow, and one size
// has one root, whatever happens in between.
func (a *acks) signed(t testing.TB, note []byte) {
	lines := strings.SplitN(string(note), "\n", 4)
	if len(lines) < 4 {
		t.Errorf("checkpoint %q", note)
		return
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil {
		t.Errorf("checkpoint %q: %v", note, err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if size < a.top {
		t.Errorf("the checkpoint went back from size %d to %d", a.top, size)
	}
	if root, ok := a.tree[size]; ok && root != lines[2] {
		t.Errorf("a fork: size %d has the roots %s and %s", size, root, lines[2])
	}
	a.tree[size], a.top = lines[2], max(a.top, size)
}

// found is what a check saw.
type found struct {
	leaves    uint64
	lost      int // acknowledged, and not at their place
	twice     int
	announced int // losses of what was not acknowledged, announced by the ledger (LOG-13)
}

// check finds every acknowledged event again at its index, and nothing twice.
func (a *acks) check(t testing.TB, p *process) (f found) {
	t.Helper()
	st := p.settled()
	code, b, err := p.call(http.MethodGet, "/v1/events?from=0&follow=false", nil)
	if err != nil || code != http.StatusOK {
		t.Fatalf("events: %d %v", code, err)
	}
	at := map[string]uint64{}
	tree := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	for _, line := range splitLines(b) {
		var e struct {
			LeafIndex uint64          `json:"leafIndex"`
			EventID   string          `json:"eventId"`
			Parked    string          `json:"parked"`
			Record    json.RawMessage `json:"record"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("event line %q: %v", line, err)
		}
		if e.LeafIndex != f.leaves {
			t.Fatalf("leaf %d comes where %d is due", e.LeafIndex, f.leaves)
		}
		f.leaves++
		if a.tree != nil {
			a.grows(t, tree, e.Record)
		}
		if e.Parked != "" {
			t.Errorf("leaf %d is parked: %s", e.LeafIndex, e.Parked)
			continue
		}
		if first, twice := at[e.EventID]; twice {
			t.Errorf("%s is in the log twice, at %d and %d", e.EventID, first, e.LeafIndex)
			f.twice++
		}
		at[e.EventID] = e.LeafIndex
		if a.sent != nil && a.foreign(t, e.Record) {
			f.announced++
		}
	}
	if f.leaves != st.StreamLast || st.LogSize != st.StreamLast || st.PublishedSize != st.StreamLast {
		t.Errorf("stream %d, log %d, published %d, events served %d: want all equal", st.StreamLast, st.LogSize, st.PublishedSize, f.leaves)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.all {
		if got, ok := at[id]; !ok || got != r.LeafIndex {
			t.Errorf("acknowledged %s at leaf %d: found %v at %d", id, r.LeafIndex, ok, got)
			f.lost++
		}
	}
	if a.top > f.leaves {
		t.Errorf("a tree of %d leaves was signed, the log has %d", a.top, f.leaves)
	}
	return f
}

// grows adds a leaf to a tree and compares its root with what was signed at that
// size.
func (a *acks) grows(t testing.TB, tree *compact.Range, leaf []byte) {
	t.Helper()
	if err := tree.Append(rfc6962.DefaultHasher.HashLeaf(leaf), nil); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	signed, ok := a.tree[tree.End()]
	a.mu.Unlock()
	if !ok {
		return
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := base64.StdEncoding.EncodeToString(root); got != signed {
		t.Errorf("a fork: a tree of %d leaves was signed with root %s, the leaves give %s", tree.End(), signed, got)
	}
}

// foreign tells whether a leaf is a notice of the ledger about lost events, and
// complains of one that nobody sent.
func (a *acks) foreign(t testing.TB, leaf []byte) bool {
	t.Helper()
	var rec struct {
		Event struct {
			Subject struct{ Kind string }
			Source  struct{ InvocationID string }
		}
	}
	if err := json.Unmarshal(leaf, &rec); err != nil {
		t.Errorf("leaf %.200q: %v", leaf, err)
		return false
	}
	name := rec.Event.Source.InvocationID
	a.mu.Lock()
	sent := a.sent[name]
	a.mu.Unlock()
	if sent {
		return false
	}
	if !strings.HasPrefix(name, "gap:") {
		t.Errorf("nobody sent %q: %.300s", name, leaf)
	}
	return true
}

func splitLines(b []byte) (out [][]byte) {
	for len(b) > 0 {
		i := 0
		for i < len(b) && b[i] != '\n' {
			i++
		}
		if i > 0 {
			out = append(out, b[:i])
		}
		b = b[min(i+1, len(b)):]
	}
	return out
}

// eventID is the id of the event in a leaf.
func eventID(t testing.TB, leaf []byte) string {
	t.Helper()
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Digest().EventID()
}
