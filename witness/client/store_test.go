package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"counterfoil/ledger/trust"
)

// TestLOG16_AnchorRecords: what was cosigned, where and when is kept, and is the
// same after a new start, without asking anybody.
func TestLOG16_AnchorRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a, b := newWitness(t, "A", l), newWitness(t, "B", l)
		defer a.store.Close()
		defer b.store.Close()
		dir := t.TempDir()
		k := gather(t, dir, l, 2, a, b)
		k.offer(50)
		k.start()
		if err := k.Wait(t.Context(), 50); err != nil {
			t.Fatal(err)
		}
		b.misbehave(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
		k.offer(60)
		settle()
		k.stop()
		var doc cosigned
		if err := json.Unmarshal([]byte(readFile(t, filepath.Join(dir, "cosigned.json"))), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.SchemaVersion != CosignedSchema || doc.Origin != origin || len(doc.Checkpoints) != 2 || len(doc.Checkpoints[0].Cosignatures) != 2 || len(doc.Checkpoints[1].Cosignatures) != 1 {
			t.Fatalf("%+v", doc)
		}
		now := time.Now()
		if x := doc.Checkpoints[0].Cosignatures[1]; x.Witness != "B" || x.URL != "http://B/prefix/" || x.VKey != b.key.Verifier().String() || x.Time != uint64(now.Unix()) ||
			x.ReceivedAt != now.UTC().Format(timeLayout) {
			t.Errorf("%+v", x)
		}
		before := k.Status()
		again := gather(t, dir, l, 2, a, b)
		if c := again.over(49); !c.Witnessed || c.Size != 50 {
			t.Errorf("%+v", c)
		}
		again.verify(again.over(49), a, b)
		again.verify(again.over(59), a)
		st := again.Status()
		if st.Witnessed != 50 || st.Published != 60 || st.Witnesses[0].Size != 60 || st.Witnesses[1].Size != 50 || !st.Witnesses[0].Last.Equal(before.Witnesses[0].Last) {
			t.Errorf("%+v", st)
		}
		// Each is asked with the size that it has.
		b.misbehave(nil)
		again.offer(60)
		again.start()
		defer again.stop()
		if err := again.Wait(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		if r := b.asked(); r[len(r)-1].Old != 50 || len(again.witness("B").Failures) != 0 {
			t.Errorf("B was asked with old size %d", r[len(r)-1].Old)
		}
	})
}

// What is stored is bounded, however many checkpoints were cosigned.
func TestStoreIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 400, 400, "")
		a, dead := newWitness(t, "A", l), newWitness(t, "dead", l)
		defer a.store.Close()
		defer dead.store.Close()
		dead.misbehave(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		dir := t.TempDir()
		k := gather(t, dir, l, 2, a, dead)
		k.offer(1)
		k.start()
		for size := uint64(2); size <= 300; size++ {
			k.offer(size)
			settle()
		}
		if n := len(k.board.sheets); n > keptPartial+4 {
			t.Errorf("%d checkpoints are kept", n)
		}
		k.stop()
		if n := len(readFile(t, filepath.Join(dir, "cosigned.json"))); n > 16<<10 {
			t.Errorf("%d bytes are stored", n)
		}
		if n := len(k.over(0).Note); n > 500 || k.over(0).Have != 1 || k.over(0).Size != 300 {
			t.Errorf("%+v", k.over(0))
		}
	})
}

// A file that is damaged is moved aside, and lines that do not verify count for
// nothing: everything can be asked for again.
func TestDamagedStore(t *testing.T) {
	l := newLog(t, origin, 60, 60, "")
	a := newWitness(t, "A", l)
	defer a.store.Close()
	dir := t.TempDir()
	k := gather(t, dir, l, 1, a)
	k.offer(60)
	k.start()
	if err := k.Wait(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	k.stop()
	file := filepath.Join(dir, "cosigned.json")
	good := readFile(t, file)
	at := strings.LastIndex(good, `\n"`) - 30
	for name, c := range map[string]struct {
		content string
		aside   bool
	}{
		"empty":           {"", true},
		"cut":             {good[:len(good)/2], true},
		"another schema":  {strings.Replace(good, CosignedSchema, "counterfoil.cosigned.v2", 1), true},
		"another origin":  {strings.Replace(good, `"origin":"example.com/log"`, `"origin":"example.com/log2"`, 1), true},
		"unknown member":  {strings.Replace(good, `"origin"`, `"more":1,"origin"`, 1), true},
		"a flipped bit":   {good[:at] + string('A'+(good[at]-'A'+1)%26) + good[at+1:], false},
		"a larger size":   {strings.Replace(good, `\n60\n`, `\n61\n`, 1), false},
		"no note":         {strings.Replace(good, `\n60\n`, `\n60`, 1), false},
		"much too long":   {good + strings.Repeat(" ", maxCosigned), false},
		"of other people": {strings.Replace(good, "A.example", "X.example", 1), false},
	} {
		if c.content == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(file + ".damaged")
		g, err := Open(context.Background(), configOf(t, dir, l, 1, a))
		if name == "much too long" {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c2, ok := g.Covering(0); ok && (c2.Have > 0 || c2.Witnessed) || g.Stopped() != nil {
			t.Errorf("%s: %+v %v", name, c2, g.Stopped())
		}
		if _, err := os.Stat(file + ".damaged"); (err == nil) != c.aside {
			t.Errorf("%s: aside: %v", name, err)
		}
	}
}

// Another policy judges what is stored anew: a smaller quorum is met at once, and
// lines of witnesses that are gone do not count.
func TestPolicyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, origin, 60, 60, "")
		a, b := newWitness(t, "A", l), newWitness(t, "B", l)
		defer a.store.Close()
		defer b.store.Close()
		b.misbehave(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		dir := t.TempDir()
		k := gather(t, dir, l, 2, a, b)
		k.offer(60)
		k.start()
		settle()
		k.stop()
		for _, c := range []struct {
			k    int
			ws   []*testWitness
			have int
			met  bool
		}{{2, []*testWitness{a, b}, 1, false}, {1, []*testWitness{b, a}, 1, true}, {1, []*testWitness{b}, 0, false}, {0, []*testWitness{a}, 0, false}} {
			g := gather(t, dir, l, c.k, c.ws...)
			g.offer(60)
			if got := g.over(0); got.Have != c.have || got.Witnessed != c.met || got.Need != c.k || g.Need() != c.k {
				t.Errorf("%d of %d: %+v", c.k, len(c.ws), got)
			}
		}
	})
}

func TestPoliciesThatAreRefused(t *testing.T) {
	l, other := newLog(t, origin, 1, 1, ""), newLog(t, "example.com/other", 1, 1, "")
	a := newWitness(t, "A", l)
	defer a.store.Close()
	parse := func(text string) *trust.Policy {
		p, err := trust.ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, c := range map[string]struct{ text, want string }{
		"no log":         {"quorum none\n", "log " + l.key.String()},
		"another log":    {fmt.Sprintf("log %s\nquorum none\n", other.key), "example.com/other"},
		"no scheme":      {fmt.Sprintf("log %s\nwitness A %s witness.example/x\nquorum A\n", l.key, a.key.Verifier()), "witness A"},
		"another scheme": {fmt.Sprintf("log %s\nwitness A %s file:///etc/passwd\nquorum A\n", l.key, a.key.Verifier()), "witness A"},
		"a query":        {fmt.Sprintf("log %s\nwitness A %s https://x/?a=b\nquorum A\n", l.key, a.key.Verifier()), "witness A"},
		"a user":         {fmt.Sprintf("log %s\nwitness A %s https://user:secret@x/\nquorum A\n", l.key, a.key.Verifier()), "witness A"},
	} {
		cfg := configOf(t, t.TempDir(), l, 0)
		cfg.Policy = parse(c.text)
		_, err := Open(context.Background(), cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Several logs are fine if one is this; a witness without a URL counts.
	cfg := configOf(t, t.TempDir(), l, 0)
	cfg.Policy = parse(fmt.Sprintf("log %s\nlog %s\nwitness A %s\nquorum A\n", other.key, l.key, a.key.Verifier()))
	g, err := Open(context.Background(), cfg)
	if err != nil || g.Status().Witnesses[0].Asked || g.Need() != 1 || len(g.Policy().Logs) != 1 {
		t.Errorf("%v", err)
	}
}

// The fewest witnesses that meet a quorum of groups, and who counts.
func TestQuorumOfGroups(t *testing.T) {
	l := newLog(t, origin, 1, 1, "")
	text := fmt.Sprintf("log %s\n", l.key)
	for _, name := range []string{"a", "b", "c", "d", "e", "z"} {
		k, err := trust.NewVerifierKey(name, trust.TypeCosignature, slices.Repeat([]byte(name[:1]), 32))
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("witness %s %s\n", name, k)
	}
	p, err := trust.ParsePolicy([]byte(text + "group x all a b c\ngroup y any d e\ngroup g any x y\nquorum g\n"))
	if err != nil {
		t.Fatal(err)
	}
	q := newQuorum(p)
	if q.need != 1 || !slices.Equal(q.counts, []bool{true, true, true, true, true, false}) {
		t.Errorf("%+v", q)
	}
	signed := func(names string) func(int) bool {
		return func(i int) bool { return strings.Contains(names, p.Witnesses[i].Name) }
	}
	if q.met(signed("ab")) || q.have(signed("ab")) != 2 || !q.met(signed("abc")) || !q.met(signed("e")) || q.met(signed("z")) {
		t.Error("the quorum is not judged as it says")
	}
}

// Whatever witnesses do, each is asked for checkpoints that it can still sign,
// the sheets are in order, and as many as can be of use are there.
func TestBoardHoldsTogether(t *testing.T) {
	l := newLog(t, origin, 1, 1, "")
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(5)
		p := &trust.Policy{Logs: []trust.PolicyLog{{Key: l.key}}, Quorum: "g"}
		g := trust.PolicyGroup{Name: "g", K: 1 + rnd.IntN(n)}
		for i := range n {
			name := fmt.Sprint("w", i)
			p.Witnesses, g.Members = append(p.Witnesses, trust.PolicyWitness{Name: name}), append(g.Members, name)
		}
		p.Groups = []trust.PolicyGroup{g}
		b := newBoard(newQuorum(p))
		size, clock := uint64(0), uint64(1)
		for range 300 {
			clock++
			i := rnd.IntN(n)
			switch w := &b.w[i]; {
			case rnd.IntN(3) == 0:
				size += 1 + uint64(rnd.IntN(3))
				b.add(&sheet{cp: trust.Checkpoint{Size: size}, note: &trust.Note{}, lines: make([]cosig, n)})
			case w.busy:
				s := b.at(w.asking)
				if s == nil {
					t.Fatalf("seed %d: the checkpoint that is asked for was forgotten", seed)
				}
				if w.busy, w.down = false, rnd.IntN(4) == 0; !w.down {
					met := b.metSize
					b.sign(s, i, cosig{time: clock})
					if b.metSize < met || b.met() == nil && b.metSize > 0 {
						t.Fatalf("seed %d: what is witnessed went from %d to %d", seed, met, b.metSize)
					}
				}
			default:
				s := b.choose(i)
				if s == nil {
					if newest := b.newest(); newest != nil && !newest.has(i) {
						t.Fatalf("seed %d: witness %d has nothing to do", seed, i)
					}
					continue
				}
				if s.cp.Size < w.old {
					t.Fatalf("seed %d: witness %d is at %d and asked for %d", seed, i, w.old, s.cp.Size)
				}
				w.busy, w.asking = true, s.cp.Size
			}
			b.prune()
			if !slices.IsSortedFunc(b.sheets, func(x, y *sheet) int { return int(x.cp.Size) - int(y.cp.Size) }) {
				t.Fatalf("seed %d: out of order", seed)
			}
			if len(b.sheets) > keptPartial+2*n+3 {
				t.Fatalf("seed %d: %d checkpoints", seed, len(b.sheets))
			}
			if s := b.newest(); size > 0 && (s == nil || s.cp.Size != size) {
				t.Fatalf("seed %d: the newest is gone", seed)
			}
		}
	}
}
