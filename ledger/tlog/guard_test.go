package tlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The bytes of two records. The hashes are published ones: SHA-256 of nothing,
// and the first trees of the Certificate Transparency test vectors.
func TestINV4_GuardRecordBytes(t *testing.T) {
	empty, err := encodeRecord("log.test/one", emptyTree(), nil)
	must(t, err)
	want := `{"version":1,"origin":"log.test/one","size":0,"root":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=","range":[]}` + "\n"
	if d := cmp.Diff(want, string(empty)); d != "" {
		t.Errorf("record of the empty tree (-want +got):\n%s", d)
	}
	// Leaves "", 0x00 and 0x10: root aeb6bcfe…6e77.
	three, err := emptyTree().with([][]byte{{}, {0}, {0x10}})
	must(t, err)
	before, err := emptyTree().with([][]byte{{}})
	must(t, err)
	got, err := encodeRecord("log.test/one", three, &before)
	must(t, err)
	want = `{"version":1,"origin":"log.test/one","size":3,"root":"rra8/idLcKFPsGel5VeCZNsPqbUa9eC6FZFY8yngbnc=",` +
		`"range":["+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=","ApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c="],` +
		`"replaces":{"size":1,"root":"bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0="}}` + "\n"
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("record of three leaves (-want +got):\n%s", d)
	}
}

func TestINV4_GuardRecordHasOneSpelling(t *testing.T) {
	three, err := emptyTree().with([][]byte{{}, {0}, {0x10}})
	must(t, err)
	before := emptyTree()
	raw, err := encodeRecord(origin, three, &before)
	must(t, err)
	good := string(raw)
	if _, _, err := parseRecord(raw); err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the record has no %s", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, text := range map[string]string{
		"nothing":             "",
		"null":                "null\n",
		"an array":            "[]\n",
		"no newline":          strings.TrimSuffix(good, "\n"),
		"two newlines":        good + "\n",
		"another record":      good + good,
		"blank":               edit(`,"size"`, `, "size"`),
		"another version":     edit(`"version":1`, `"version":2`),
		"unknown member":      edit(`"version":1`, `"version":1,"x":1`),
		"member twice":        edit(`"version":1`, `"version":1,"version":1`),
		"other case":          edit(`"size"`, `"Size"`),
		"other order":         edit(`"version":1,"origin":"`+origin+`"`, `"origin":"`+origin+`","version":1`),
		"no origin":           edit(`"origin":"`+origin+`",`, ``),
		"escaped":             edit(`"origin":"l`, `"origin":"\u006c`),
		"size as text":        edit(`"size":3`, `"size":"3"`),
		"size as float":       edit(`"size":3`, `"size":3.0`),
		"negative size":       edit(`"size":3`, `"size":-3`),
		"size of one subtree": edit(`"size":3`, `"size":4`),
		"another root":        edit(`"root":"r`, `"root":"s`),
		"short root":          edit(`"root":"rra8`, `"root":"`),
		"another hash":        edit(`"range":["+`, `"range":["A`),
		"short hash":          edit(`"range":["+sVC`, `"range":["`),
		"a hash less":         edit(`"range":["+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=",`, `"range":[`),
		"no range":            edit(`"range":[`, `"ranges":[`),
		"lax base64":          edit(`bnc="`, `bnd="`),
		"replaces null":       edit(`"replaces":{`, `"replaces":null,"x":{`),
		"short replaced root": edit(`"root":"47DE`, `"root":"`),
	} {
		if _, _, err := parseRecord([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestINV4_GuardRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := emptyTree()
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			var err error
			if tr, err = tr.with(leavesFrom(tr.size, rapid.Uint64Range(0, 70).Draw(t, "leaves"))); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(tr.root[:], rootAt(tr.size)) {
			t.Fatalf("root %x at size %d, expected %x", tr.root, tr.size, rootAt(tr.size))
		}
		raw, err := encodeRecord(origin, tr, &tr)
		if err != nil {
			t.Fatal(err)
		}
		name, got, err := parseRecord(raw)
		if err != nil || name != origin || got.size != tr.size || got.root != tr.root || cmp.Diff(tr.edge, got.edge) != "" {
			t.Fatalf("got %v %v %v, expected %v", name, got, err, tr)
		}
	})
}

func newGuard(t testing.TB, f *faultyFiles) *guard {
	g := &guard{dir: tempDir(t), origin: origin, files: f.files()}
	must(t, g.create())
	return g
}

func treeWith(t testing.TB, n uint64) tree {
	tr, err := emptyTree().with(leavesFrom(0, n))
	must(t, err)
	return tr
}

// Each case stores 5 leaves, then 10 under a fault, then goes on.
func TestINV4_GuardStoreMeetsAFault(t *testing.T) {
	for name, c := range map[string]struct {
		fault  fault
		then   uint64 // stored next
		onDisk uint64 // after the fault
	}{
		"failed and not kept, again":  {failedNotKept, 10, 5},
		"failed and not kept, larger": {failedNotKept, 12, 5},
		"failed but kept, again":      {failedButKept, 10, 10},
		"failed but kept, larger":     {failedButKept, 12, 10},
		"worked, again":               {works, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			f := &faultyFiles{name: guardFile}
			g := newGuard(t, f)
			must(t, g.store(treeWith(t, 5)))
			f.next = c.fault
			err := g.store(treeWith(t, 10))
			if (err != nil) != (c.fault != works) {
				t.Fatalf("store: %v", err)
			}
			onDisk := &guard{dir: g.dir, origin: origin}
			must(t, onDisk.load())
			if onDisk.tree.size != c.onDisk {
				t.Fatalf("the record has size %d, expected %d", onDisk.tree.size, c.onDisk)
			}
			// Only what was flushed may be relied on: the record is written
			// again, even if it is the one that is there.
			writes := f.done
			must(t, g.store(treeWith(t, c.then)))
			if wrote := f.done > writes; wrote != (c.fault != works) {
				t.Errorf("wrote again: %v", wrote)
			}
			must(t, onDisk.load())
			if onDisk.tree.size != c.then || g.unsure != nil {
				t.Errorf("the record has size %d, expected %d", onDisk.tree.size, c.then)
			}
			if err := g.store(treeWith(t, 7)); !errors.Is(err, ErrRolledBack) {
				t.Errorf("a smaller tree: %v, expected %v", err, ErrRolledBack)
			}
		})
	}
}

// Two faults in a row: a record that may be there is followed by another.
func TestINV4_GuardStoreMeetsTwoFaults(t *testing.T) {
	for _, first := range []fault{failedNotKept, failedButKept} {
		for _, second := range []fault{failedNotKept, failedButKept} {
			f := &faultyFiles{name: guardFile}
			g := newGuard(t, f)
			for size, fault := range map[uint64]fault{5: first} {
				f.next = fault
				if g.store(treeWith(t, size)) == nil {
					t.Fatal("expected an error")
				}
			}
			f.next = second
			if g.store(treeWith(t, 8)) == nil {
				t.Fatal("expected an error")
			}
			must(t, g.store(treeWith(t, 8)))
			onDisk := &guard{dir: g.dir, origin: origin}
			must(t, onDisk.load())
			if onDisk.tree.size != 8 {
				t.Errorf("%d, %d: the record has size %d, expected 8", first, second, onDisk.tree.size)
			}
		}
	}
}

func TestINV4_GuardComparesAndSets(t *testing.T) {
	for name, change := range map[string]func(g *guard) error{
		"deleted": func(g *guard) error { return os.Remove(g.path()) },
		"the one before": func(g *guard) error {
			return (&guard{dir: g.dir, origin: origin, files: &realFiles}).replace(treeWith(t, 0))
		},
		"a larger one": func(g *guard) error {
			return (&guard{dir: g.dir, origin: origin, files: &realFiles}).replace(treeWith(t, 30))
		},
		"same tree, by another": func(g *guard) error {
			return (&guard{dir: g.dir, origin: origin, files: &realFiles}).replace(treeWith(t, 5))
		},
		"cut": func(g *guard) error { return os.Truncate(g.path(), 20) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, &faultyFiles{})
			must(t, g.store(treeWith(t, 5)))
			must(t, change(g))
			before, _ := os.ReadFile(g.path())
			for range 2 {
				if err := g.store(treeWith(t, 10)); !errors.Is(err, ErrGuardChanged) {
					t.Errorf("got %v, expected %v", err, ErrGuardChanged)
				}
			}
			if after, _ := os.ReadFile(g.path()); !bytes.Equal(before, after) {
				t.Error("the record was replaced all the same")
			}
		})
	}
	g := newGuard(t, &faultyFiles{})
	must(t, g.store(treeWith(t, 5)))
	other := treeWith(t, 4)
	other, err := other.with([][]byte{[]byte("another fifth leaf")})
	must(t, err)
	if err := g.store(other); !errors.Is(err, ErrDisagrees) {
		t.Errorf("another tree of the same size: %v, expected %v", err, ErrDisagrees)
	}
	if err := (&guard{dir: g.dir, origin: origin, files: &realFiles}).create(); err == nil {
		t.Error("a second first record was stored")
	}
}

// replace writes a record without comparing, as another program would.
func (g *guard) replace(t tree) error {
	raw, err := encodeRecord(g.origin, t, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(g.path(), raw, 0o600)
}

func TestINV4_GuardFollowsWithoutCheckpoints(t *testing.T) {
	b := newBench(t)
	f := &faultyFiles{name: guardFile}
	b.cfg.files = f.files()
	l := b.open()
	for range 8 {
		b.add(l, 1024)
	}
	if l.guard.tree.size != 8192 {
		t.Errorf("the guard has size %d, expected 8192", l.guard.tree.size)
	}
	for range 7 {
		b.add(l, 1024)
	}
	f.next = failedButKept // not the batch's trouble
	b.add(l, 1024)
	b.add(l, 1)
	if l.guard.tree.size != 16385 || l.Err() != nil {
		t.Errorf("the guard has size %d, expected 16385; %v", l.guard.tree.size, l.Err())
	}
	b.close(l)
	judged := 0
	b.cfg.CheckLeaf = func(uint64, []byte) error { judged++; return nil }
	l = b.open()
	if judged != 0 || l.PublishedSize() != 0 {
		t.Errorf("judged %d leaves, published %d", judged, l.PublishedSize())
	}
	must(t, os.Remove(b.path("guard", guardFile)))
	for range 8 {
		if _, err := l.Append(context.Background(), leavesFrom(l.Size(), 1024)); err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(l.Err(), ErrGuardChanged) {
		t.Errorf("got %v, expected %v", l.Err(), ErrGuardChanged)
	}
}
