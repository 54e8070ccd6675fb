package tlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"counterfoil/ledger/tiles"

	"golang.org/x/mod/sumdb/note"
)

// copyOf is a bench with the same files and keys elsewhere.
func (b *bench) copyOf(t testing.TB) *bench {
	t.Helper()
	c := &bench{t: t, dir: tempDir(t), skey: b.skey, vkey: b.vkey, cfg: b.cfg}
	c.cfg.Dir, c.cfg.GuardDir = c.path("log"), c.path("guard")
	if err := os.CopyFS(c.dir, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	return c
}

// sign makes a checkpoint with a key of its own choosing.
func sign(t testing.TB, skey, origin string, tr tree) []byte {
	t.Helper()
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: checkpointText(origin, tr)}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func treeAt(size uint64) tree { return tree{size: size, root: tiles.Hash(rootAt(size))} }

// fork is a log with the same keys and sizes and other leaves.
func (b *bench) fork(sizes ...uint64) *bench {
	b.t.Helper()
	f := newBench(b.t)
	f.skey, f.vkey = b.skey, b.vkey
	f.cfg.Signer, f.cfg.VerifierKey = b.cfg.Signer, b.vkey
	f.cfg.CheckLeaf = func(uint64, []byte) error { return nil }
	l := f.open()
	for _, s := range sizes {
		var leaves [][]byte
		for i := l.Size(); i < s; i++ {
			leaves = append(leaves, fmt.Appendf(nil, "other leaf %d", i))
		}
		if _, err := l.Append(context.Background(), leaves); err != nil {
			b.t.Fatal(err)
		}
		if _, err := l.Publish(context.Background()); err != nil {
			b.t.Fatal(err)
		}
	}
	f.close(l)
	return f
}

func (b *bench) setState(size uint64, root []byte) {
	b.t.Helper()
	raw, err := json.Marshal(map[string]any{"size": size, "root": root})
	if err != nil {
		b.t.Fatal(err)
	}
	b.write(raw, "log", stateFile)
}

// The log of these tests had size 10, then 300, then 600; 300 was published,
// and the leaves from 300 on are in no guard record. The directories old10 and
// old300 are whole copies of log/ and guard/ from then.
func damaged(t *testing.T) *bench {
	b := newBench(t)
	l := b.open()
	b.add(l, 10)
	b.publish(l)
	b.close(l)
	b.save("log", "old10/log")
	b.save("guard", "old10/guard")
	l = b.open()
	b.add(l, 290)
	b.publish(l)
	b.close(l)
	b.save("log", "old300/log")
	b.save("guard", "old300/guard")
	l = b.open()
	b.add(l, 300)
	b.close(l)
	b.cfg.Create = false
	return b
}

func TestINV4_StartRefuses(t *testing.T) {
	master := damaged(t)
	fork := master.fork(10, 300, 600)
	stranger, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	otherName, _, err := note.GenerateKey(rand.Reader, "log.test/two")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		damage func(b *bench)
		want   error
		says   string // in the error, for whoever has to repair it
	}{
		"state file gone":             {func(b *bench) { b.remove("log", stateFile) }, ErrRolledBack, "treeState"},
		"state directory gone":        {func(b *bench) { b.remove("log", ".state") }, ErrRolledBack, "treeState"},
		"state from before the guard": {func(b *bench) { b.write(b.read("old10/log", stateFile), "log", stateFile) }, ErrRolledBack, "size 10"},
		"state of size 0":             {func(b *bench) { b.setState(0, rootAt(0)) }, ErrRolledBack, "size 0"},
		"state empty":                 {func(b *bench) { b.write(nil, "log", stateFile) }, ErrTiles, "treeState"},
		"state cut":                   {func(b *bench) { b.write(b.read("log", stateFile)[:20], "log", stateFile) }, ErrTiles, "treeState"},
		"state with a short root":     {func(b *bench) { b.setState(600, rootAt(600)[:31]) }, ErrTiles, "31 bytes"},
		"state with another root":     {func(b *bench) { b.setState(600, rootAt(599)) }, ErrDisagrees, "size 600"},
		"state ahead of the tiles":    {func(b *bench) { b.setState(601, rootAt(601)) }, ErrTiles, "tile/0/002.p/89"},
		"state far ahead":             {func(b *bench) { b.setState(1<<40, rootAt(601)) }, ErrTiles, ""},

		"log gone":                  {func(b *bench) { b.remove("log") }, ErrRolledBack, "size 300"},
		"log emptied":               {func(b *bench) { b.remove("log"); os.Mkdir(b.path("log"), 0o755) }, ErrRolledBack, "size 300"},
		"log from before the guard": {func(b *bench) { b.restore("old10/log", "log") }, ErrRolledBack, "size 300"},
		"log of a fork":             {func(b *bench) { b.remove("log"); must(t, os.CopyFS(b.path("log"), os.DirFS(fork.path("log")))) }, ErrDisagrees, "size 300"},
		"log of a fork at its own end": {func(b *bench) {
			b.remove("log")
			must(t, os.CopyFS(b.path("log"), os.DirFS(fork.path("log"))))
			b.restore("old10/guard", "guard")
		}, ErrDisagrees, "size 10"},

		"guard gone":             {func(b *bench) { b.remove("guard", guardFile) }, ErrNoGuard, "record.json"},
		"guard gone, may create": {func(b *bench) { b.remove("guard"); b.cfg.Create = true }, ErrNoGuard, "record.json"},
		"guard gone, only tiles": {func(b *bench) {
			b.remove("guard")
			b.remove("log", ".state")
			b.remove("log", "checkpoint")
			b.cfg.Create = true
		}, ErrNoGuard, ""},
		"guard gone, only state": {func(b *bench) {
			b.remove("guard")
			b.remove("log", "tile")
			b.remove("log", "checkpoint")
			b.cfg.Create = true
		}, ErrNoGuard, ""},
		"guard gone, only a checkpoint": {func(b *bench) {
			b.remove("guard")
			b.remove("log", "tile")
			b.remove("log", ".state")
			b.cfg.Create = true
		}, ErrNoGuard, ""},
		"guard from before the checkpoint": {func(b *bench) { b.restore("old10/guard", "guard") }, ErrCheckpointAhead, "size 300, the guard 10"},
		"guard of the first start":         {func(b *bench) { b.first() }, ErrCheckpointAhead, "size 300, the guard 0"},
		"guard of a larger tree":           {func(b *bench) { b.guardOf(900) }, ErrRolledBack, "size 900"},
		"guard of a fork": {func(b *bench) {
			must(t, os.WriteFile(b.path("guard", guardFile), fork.read("guard", guardFile), 0o600))
		}, ErrDisagrees, "size 600"},
		"guard of another log": {func(b *bench) {
			b.write(bytes.Replace(b.read("guard", guardFile), []byte(origin), []byte("log.test/two"), 1), "guard", guardFile)
		}, ErrGuard, "log.test/two"},
		"guard empty": {func(b *bench) { b.write(nil, "guard", guardFile) }, ErrGuard, "record.json"},
		"guard cut":   {func(b *bench) { b.write(b.read("guard", guardFile)[:100], "guard", guardFile) }, ErrGuard, "record.json"},

		"checkpoint of a larger tree": {func(b *bench) { b.write(sign(t, b.skey, origin, treeAt(600)), "log", "checkpoint") }, ErrCheckpointAhead, "size 600, the guard 300"},
		"checkpoint of a fork": {func(b *bench) {
			b.write(sign(t, b.skey, origin, tree{size: 300, root: tiles.Hash(rootAt(299))}), "log", "checkpoint")
		}, ErrDisagrees, "size 300"},
		"older checkpoint of a fork": {func(b *bench) {
			b.write(sign(t, b.skey, origin, tree{size: 10, root: tiles.Hash(rootAt(9))}), "log", "checkpoint")
		}, ErrDisagrees, "size 10"},
		"empty checkpoint with a root": {func(b *bench) {
			b.write(sign(t, b.skey, origin, tree{root: tiles.Hash(rootAt(9))}), "log", "checkpoint")
		}, ErrDisagrees, "size 0"},
		"checkpoint by a stranger":     {func(b *bench) { b.write(sign(t, stranger, origin, treeAt(300)), "log", "checkpoint") }, ErrCheckpoint, ""},
		"checkpoint of another name":   {func(b *bench) { b.write(sign(t, otherName, "log.test/two", treeAt(300)), "log", "checkpoint") }, ErrCheckpoint, ""},
		"checkpoint of another origin": {func(b *bench) { b.write(sign(t, b.skey, "log.test/two", treeAt(300)), "log", "checkpoint") }, ErrCheckpoint, "log.test/two"},
		"checkpoint altered": {func(b *bench) {
			b.write(bytes.Replace(b.read("log", "checkpoint"), []byte("\n300\n"), []byte("\n299\n"), 1), "log", "checkpoint")
		}, ErrCheckpoint, ""},
		"checkpoint without signature": {func(b *bench) { b.write([]byte(checkpointText(origin, treeAt(300))), "log", "checkpoint") }, ErrCheckpoint, ""},
		"checkpoint empty":             {func(b *bench) { b.write(nil, "log", "checkpoint") }, ErrCheckpoint, ""},
		"checkpoint without end":       {func(b *bench) { b.write(make([]byte, 1<<20), "log", "checkpoint") }, ErrCheckpoint, "1048576 bytes"},
		"checkpoint with a leading zero": {func(b *bench) {
			b.write(b.signText(origin+"\n0300\n"+strings.Split(checkpointText(origin, treeAt(300)), "\n")[2]+"\n"), "log", "checkpoint")
		}, ErrCheckpoint, "0300"},
	} {
		t.Run(name, func(t *testing.T) {
			b := master.copyOf(t)
			c.damage(b)
			if err := b.refused(c.want); !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, expected it to say %q", err, c.says)
			}
		})
	}
	t.Run("nothing of the above", func(t *testing.T) {
		b := master.copyOf(t)
		l := b.open()
		b.add(l, 10)
		if cp := b.publish(l); cp.Size != 610 {
			t.Errorf("published %d, expected 610", cp.Size)
		}
		b.close(l)
		b.fsck()
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// first puts the guard record of a first start in place.
func (b *bench) first() {
	b.t.Helper()
	raw, err := encodeRecord(origin, emptyTree(), nil)
	must(b.t, err)
	b.write(raw, "guard", guardFile)
}

// guardOf puts the record of the first size lawful leaves in place.
func (b *bench) guardOf(size uint64) {
	b.t.Helper()
	tr, err := emptyTree().with(leavesFrom(0, size))
	must(b.t, err)
	raw, err := encodeRecord(origin, tr, nil)
	must(b.t, err)
	b.write(raw, "guard", guardFile)
}

func (b *bench) signText(text string) []byte {
	b.t.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, b.cfg.Signer)
	must(b.t, err)
	return signed
}

// flip changes one bit of a file.
func (b *bench) flip(dir, name string, at int) {
	b.t.Helper()
	data := b.read(dir, name)
	data[at] ^= 4
	b.write(data, dir, name)
}

// Every file that the next batch will build on is looked at, also where the
// guard knows all leaves.
func TestINV4_StartFindsDamageOnTheRightEdge(t *testing.T) {
	master := damaged(t)
	for file, beyond := range map[string]bool{ // whether it matters only beyond the guard
		"tile/0/002.p/88": false, "tile/1/000.p/2": false, "tile/entries/002.p/88": false, "tile/entries/001": true, "tile/0/001": true,
	} {
		for name, damage := range map[string]func(b *bench){
			"deleted":       func(b *bench) { b.remove("log", file) },
			"empty":         func(b *bench) { b.write(nil, "log", file) },
			"cut":           func(b *bench) { d := b.read("log", file); b.write(d[:len(d)-1], "log", file) },
			"cut by a hash": func(b *bench) { d := b.read("log", file); b.write(d[:len(d)-32], "log", file) },
			"longer":        func(b *bench) { b.write(append(b.read("log", file), 0), "log", file) },
			"altered":       func(b *bench) { b.flip("log", file, len(b.read("log", file))-1) },
		} {
			for _, guard := range []uint64{300, 600} {
				if beyond && guard == 600 {
					continue
				}
				t.Run(fmt.Sprintf("%s %s, guard of %d", file, name, guard), func(t *testing.T) {
					b := master.copyOf(t)
					b.guardOf(guard)
					damage(b)
					want, says := ErrTiles, file
					if name == "altered" && (file == "tile/0/002.p/88" || file == "tile/1/000.p/2") {
						want, says = ErrDisagrees, "size 600" // the root shows it before the leaf does
					}
					if name == "altered" && file == "tile/0/001" {
						says = "tile/entries/001" // the leaf and its hash differ, either may be wrong
					}
					if err := b.refused(want); !strings.Contains(err.Error(), says) {
						t.Errorf("got %q, expected it to name %s", err, says)
					}
				})
			}
		}
	}
}

// A leaf beyond the guard and its hash in the tile are exchanged together for
// another acceptable one; state, upper tiles and root are as they were.
func TestINV4_RootIsComputedFromTheLeaves(t *testing.T) {
	b := damaged(t)
	b.cfg.CheckLeaf = func(uint64, []byte) error { return nil }
	entries := b.read("log", "tile/entries/001")
	at := len(entries) - 1
	entries[at] ^= 1
	b.write(entries, "log", "tile/entries/001")
	last := leaf(511)
	last[len(last)-1] ^= 1
	tile, h := b.read("log", "tile/0/001"), tiles.LeafHashOf(last)
	copy(tile[255*tiles.HashSize:], h[:])
	b.write(tile, "log", "tile/0/001")
	if err := b.refused(ErrDisagrees); !strings.Contains(err.Error(), "the leaves give") {
		t.Errorf("got %q, expected it to speak of the leaves", err)
	}
}

func TestINV4_LeavesBeyondTheGuardAreJudged(t *testing.T) {
	for name, leaves := range map[string]func() [][]byte{
		"foreign leaf": func() [][]byte { l := leavesFrom(10, 20); l[7] = []byte("not lawful"); return l },
		"two leaves in the other order": func() [][]byte {
			l := leavesFrom(10, 20)
			l[7], l[8] = l[8], l[7]
			return l
		},
		"one leaf twice": func() [][]byte { l := leavesFrom(10, 20); l[8] = l[7]; return l },
		"last leaf":      func() [][]byte { l := leavesFrom(10, 20); l[19] = nil; return l },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			l := b.open()
			b.add(l, 10)
			b.publish(l)
			if _, err := l.Append(context.Background(), leaves()); err != nil {
				t.Fatal(err)
			}
			b.close(l)
			if err := b.refused(ErrLeafRefused); !errors.Is(err, errLeaf) {
				t.Errorf("got %v, expected it to wrap the reason", err)
			}
		})
	}
}

func TestINV4_OnlyLeavesBeyondTheGuardAreJudged(t *testing.T) {
	b := damaged(t)
	var judged []uint64
	b.cfg.CheckLeaf = func(index uint64, data []byte) error { judged = append(judged, index); return checkLeaf(index, data) }
	b.close(b.open())
	if len(judged) != 300 || judged[0] != 300 || judged[299] != 599 {
		t.Errorf("judged %d leaves: %v", len(judged), judged)
	}
	// Then the guard has been advanced, without a checkpoint.
	judged = nil
	l := b.open()
	if len(judged) != 0 || l.PublishedSize() != 300 {
		t.Errorf("judged %v again; published %d, expected 300", judged, l.PublishedSize())
	}
}

func TestINV4_StartAccepts(t *testing.T) {
	master := damaged(t)
	for name, c := range map[string]struct {
		change func(b *bench)
		size   uint64
	}{
		// What was logged beyond the guard is lost, and comes again from the
		// stream.
		"log as old as the guard":   {func(b *bench) { b.restore("old300/log", "log") }, 300},
		"state as old as the guard": {func(b *bench) { b.write(b.read("old300/log", stateFile), "log", stateFile) }, 300},
		"checkpoint gone":           {func(b *bench) { b.remove("log", "checkpoint") }, 600},
		"older checkpoint":          {func(b *bench) { b.write(b.read("old10/log", "checkpoint"), "log", "checkpoint") }, 600},
		"older guard and checkpoint": {func(b *bench) {
			b.restore("old10/guard", "guard")
			b.write(b.read("old10/log", "checkpoint"), "log", "checkpoint")
		}, 600},
		"first guard, checkpoint gone":  {func(b *bench) { b.first(); b.remove("log", "checkpoint") }, 600},
		"guard ahead of the checkpoint": {func(b *bench) { b.guardOf(600) }, 600},
		"guard between the batches":     {func(b *bench) { b.guardOf(450) }, 600},
		"everything as it once was":     {func(b *bench) { b.restore("old10/log", "log"); b.restore("old10/guard", "guard") }, 10},
		"partial tiles collected":       {func(b *bench) { b.remove("log", "tile/0/000.p"); b.remove("log", "tile/entries/000.p") }, 600},
		"checkpoint with a stranger's signature": {func(b *bench) {
			b.write(append(b.read("log", "checkpoint"), "— witness.test AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"...), "log", "checkpoint")
		}, 600},
		"files that a crash leaves, here and there": {func(b *bench) {
			b.write(nil, "guard", ".record.json.X.tmp")
			b.write([]byte("half"), "log", "tile/0/002.p/8812345")
		}, 600},
	} {
		t.Run(name, func(t *testing.T) {
			b := master.copyOf(t)
			c.change(b)
			l := b.open()
			if l.Size() != c.size {
				t.Fatalf("size %d, expected %d", l.Size(), c.size)
			}
			b.add(l, 700-l.Size())
			if cp := b.publish(l); cp.Size != 700 {
				t.Errorf("published %d, expected 700", cp.Size)
			}
			b.close(l)
			b.readBack(700)
			b.fsck()
		})
	}
}
