package tlog

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// other is a bench of another node of the same ledger: its keys, nothing else.
func (b *bench) other(t testing.TB) *bench {
	t.Helper()
	o := &bench{t: t, dir: tempDir(t), skey: b.skey, vkey: b.vkey}
	o.cfg = b.cfg
	o.cfg.Dir, o.cfg.GuardDir, o.cfg.files, o.cfg.engine = o.path("log"), o.path("guard"), nil, nil
	o.cfg.Create, o.cfg.Join, o.cfg.Fence = false, true, &fakeFence{reserve: func() error { return errNotHolder }}
	return o
}

// note is what another node signed.
func (b *bench) note(text string) []byte {
	b.t.Helper()
	signer, err := note.NewSigner(b.skey)
	must(b.t, err)
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	must(b.t, err)
	return signed
}

func (b *bench) noteAt(size uint64) []byte { return b.note(checkpointText(origin, treeAt(size))) }

// adopt expects the newest checkpoint afterwards.
func (b *bench) adopt(l *Log, signed []byte, want uint64) {
	b.t.Helper()
	cp, err := l.Adopt(context.Background(), signed)
	if err != nil || cp.Size != want || l.PublishedSize() != want {
		b.t.Fatalf("Adopt: size %d, published %d, %v; expected %d", cp.Size, l.PublishedSize(), err, want)
	}
	if !bytes.Equal(b.read("log", "checkpoint"), l.Checkpoint().Note) {
		b.t.Errorf("the file is %q, told is %q", b.read("log", "checkpoint"), l.Checkpoint().Note)
	}
	if size, _ := l.Guard(); size < want || b.guardSize() != size {
		b.t.Errorf("the guard has size %d on disk and %d told, shown is %d", b.guardSize(), size, want)
	}
}

func TestCLU08_AdoptsWhatItsOwnTreeGives(t *testing.T) {
	b := newBench(t).other(t)
	signer := b.watch()
	l := b.open()
	b.add(l, 600)
	signed := len(signer.all)
	changed := l.Changed()
	b.adopt(l, b.noteAt(300), 300)
	select {
	case <-changed:
	default:
		t.Error("Changed does not tell of an adopted checkpoint")
	}
	changed = l.Changed()
	b.adopt(l, b.noteAt(300), 300) // again
	b.adopt(l, b.noteAt(0), 300)   // older ones change nothing
	b.adopt(l, b.noteAt(299), 300)
	select {
	case <-changed:
		t.Error("Changed tells of a checkpoint that is not new")
	default:
	}
	if cp, err := l.Adopt(context.Background(), b.noteAt(601)); !errors.Is(err, ErrBehind) || cp.Size != 300 || l.Err() != nil {
		t.Errorf("Adopt beyond the tree: %d, %v, Err %v", cp.Size, err, l.Err())
	}
	b.adopt(l, b.noteAt(600), 600)
	b.add(l, 1)
	b.adopt(l, b.noteAt(601), 601)
	if len(signer.all) != signed {
		t.Errorf("signed %q", signer.all[signed:])
	}
	b.close(l)
	l = b.open()
	if l.PublishedSize() != 601 || !bytes.Equal(l.Checkpoint().Note, b.noteAt(601)) {
		t.Errorf("after a restart the checkpoint is %q", l.Checkpoint().Note)
	}
	b.adopt(l, b.noteAt(600), 601) // older, also after a restart
	b.close(l)
	b.fsck()
}

// A holder that was a follower goes on from what it adopted, and the other way.
func TestCLU08_PublishAndAdoptGoOnFromEachOther(t *testing.T) {
	b := newBench(t)
	b.fenced()
	l := b.open()
	b.add(l, 5)
	b.publish(l)
	b.add(l, 5)
	b.adopt(l, b.noteAt(8), 8)
	if cp := b.publish(l); cp.Size != 10 {
		t.Errorf("published %d", cp.Size)
	}
	b.adopt(l, b.noteAt(9), 10)
	b.add(l, 1)
	b.adopt(l, b.noteAt(11), 11)
	if cp := b.publish(l); cp.Size != 11 || !bytes.Equal(cp.Note, b.noteAt(11)) {
		t.Errorf("published %d", cp.Size)
	}
	b.close(l)
	b.fsck()
}

func TestCLU08_CosignaturesAreKeptAsTheyAre(t *testing.T) {
	b := newBench(t).other(t)
	l := b.open()
	b.add(l, 5)
	line := "— witness.test/w " + base64.StdEncoding.EncodeToString(make([]byte, 76)) + "\n"
	cosigned := append(b.noteAt(5), line...)
	b.adopt(l, cosigned, 5)
	if !bytes.Equal(l.Checkpoint().Note, cosigned) {
		t.Errorf("kept %q", l.Checkpoint().Note)
	}
	b.close(l)
	b.close(b.open())
}

func TestCLU08_RefusesWhatIsNoCheckpointOfThisLog(t *testing.T) {
	b := newBench(t).other(t)
	l := b.open()
	b.add(l, 5)
	b.adopt(l, b.noteAt(3), 3)
	foreign := newBench(t)
	good := b.noteAt(5)
	text := checkpointText(origin, treeAt(5))
	before := b.files()
	for name, bad := range map[string][]byte{
		"nothing":                 nil,
		"no note":                 []byte(text),
		"another key":             foreign.noteAt(5),
		"another text":            bytes.Replace(b.noteAt(4), []byte("\n4\n"), []byte("\n5\n"), 1),
		"another origin":          b.note(checkpointText("log.test/two", treeAt(5))),
		"an extension":            b.note(text + "more\n"),
		"a leading zero":          b.note(strings.Replace(text, "\n5\n", "\n05\n", 1)),
		"no checkpoint":           b.note("hello\n"),
		"too long":                append(bytes.Clone(good), bytes.Repeat([]byte("— w AAAAAAAA\n"), maxCheckpoint/12)...),
		"no last newline":         bytes.TrimSuffix(good, []byte("\n")),
		"a second base64":         append(bytes.Clone(good), "— w AAAAAAB=\n"...),
		"an unsigned line behind": append(bytes.Clone(good), "more\n"...),
	} {
		if cp, err := l.Adopt(context.Background(), bad); !errors.Is(err, ErrCheckpoint) || cp.Size != 3 {
			t.Errorf("%s: %d, %v; expected %v", name, cp.Size, err, ErrCheckpoint)
		}
	}
	if l.Err() != nil {
		t.Errorf("the log stops: %v", l.Err())
	}
	for file, data := range b.files() {
		if before[file] != data {
			t.Errorf("%s was written", file)
		}
	}
	b.adopt(l, good, 5)
}

// The log's key signed another tree: whatever its size, this log stops.
func TestCLU06_AnotherRootStopsTheLog(t *testing.T) {
	for name, size := range map[string]uint64{"of the whole tree": 10, "of a beginning": 8, "of the published tree": 5, "older than published": 3, "of no leaves": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			f, signer := b.fenced(), b.watch()
			l := b.open()
			b.add(l, 5)
			b.publish(l)
			b.add(l, 5)
			before, signed, asked := b.files(), len(signer.all), len(f.reserved)
			fork := treeAt(11)
			fork.size = size
			for range 2 {
				cp, err := l.Adopt(context.Background(), b.note(checkpointText(origin, fork)))
				if !errors.Is(err, ErrDisagrees) || cp.Size != 5 {
					t.Fatalf("Adopt: %d, %v; expected %v", cp.Size, err, ErrDisagrees)
				}
				for _, root := range [][]byte{fork.root[:], rootAt(size)} {
					if !strings.Contains(err.Error(), fmt.Sprintf("%x", root)) {
						t.Errorf("%q does not name %x", err, root)
					}
				}
			}
			if !errors.Is(l.Err(), ErrDisagrees) {
				t.Errorf("Err: %v", l.Err())
			}
			if _, err := l.Publish(context.Background()); !errors.Is(err, ErrDisagrees) {
				t.Errorf("Publish: %v", err)
			}
			if _, err := l.Append(context.Background(), leavesFrom(10, 1)); !errors.Is(err, ErrDisagrees) {
				t.Errorf("Append: %v", err)
			}
			if _, err := l.Contains(context.Background(), 5, [32]byte(rootAt(5))); !errors.Is(err, ErrDisagrees) {
				t.Errorf("Contains: %v", err)
			}
			for file, data := range b.files() {
				if before[file] != data {
					t.Errorf("%s was written", file)
				}
			}
			if len(signer.all) != signed || len(f.reserved) != asked {
				t.Error("something was signed")
			}
		})
	}
}

// Each case has adopted 5 of 10; then adopting 8 meets a fault of the disk.
func TestCLU08_AdoptMeetsAFault(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		fault fault
		guard uint64 // on disk afterwards
		shown uint64 // checkpoint on disk afterwards
	}{
		"guard failed and not kept":      {guardFile, failedNotKept, 7, 5},
		"guard failed but kept":          {guardFile, failedButKept, 10, 5},
		"checkpoint failed and not kept": {"checkpoint", failedNotKept, 10, 5},
		"checkpoint failed but kept":     {"checkpoint", failedButKept, 10, 8},
	} {
		for _, then := range []string{"goes on", "grows", "restarts", "publishes"} {
			t.Run(name+"/"+then, func(t *testing.T) {
				b := newBench(t)
				b.fenced()
				f := &faultyFiles{name: c.file}
				b.cfg.files = f.files()
				l := b.open()
				b.add(l, 7)
				b.adopt(l, b.noteAt(5), 5)
				b.add(l, 3)
				f.next = c.fault
				if cp, err := l.Adopt(context.Background(), b.noteAt(8)); !errors.Is(err, errDisk) || cp.Size != 5 {
					t.Fatalf("Adopt: %d, %v; expected the disk's error and the old checkpoint", cp.Size, err)
				}
				if l.Err() != nil {
					t.Errorf("the log stops: %v", l.Err())
				}
				if size := b.guardSize(); size != c.guard {
					t.Errorf("the guard has size %d, expected %d", size, c.guard)
				}
				if !bytes.Equal(b.read("log", "checkpoint"), b.noteAt(c.shown)) {
					t.Errorf("the checkpoint is %q, expected size %d", b.read("log", "checkpoint"), c.shown)
				}
				switch then {
				case "grows":
					b.add(l, 5)
				case "restarts":
					b.close(l)
					if l = b.open(); l.Size() != 10 || l.PublishedSize() != c.shown {
						t.Errorf("size %d, published %d; expected 10, %d", l.Size(), l.PublishedSize(), c.shown)
					}
				case "publishes":
					b.publish(l)
					b.adopt(l, b.noteAt(8), 10)
					b.close(l)
					b.fsck()
					return
				}
				b.adopt(l, b.noteAt(8), 8)
				b.adopt(l, b.noteAt(l.Size()), l.Size()) // the checker wants the tiles of exactly this size
				b.close(l)
				b.fsck()
			})
		}
	}
}

// While the log is open, somebody changes its files: nothing is adopted over them.
func TestCLU08_AdoptRefusesWhatOthersChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bench)
		want   error
	}{
		"state deleted":   {func(b *bench) { b.remove("log", stateFile) }, ErrRolledBack},
		"state of a fork": {func(b *bench) { b.setState(600, rootAt(9)) }, ErrDisagrees},
		"tile altered":    {func(b *bench) { b.flip("log", "tile/0/001", 3) }, ErrDisagrees},
		"tile deleted":    {func(b *bench) { b.remove("log", "tile/0/001") }, ErrTiles},
		"guard deleted":   {func(b *bench) { b.remove("guard", guardFile) }, ErrGuardChanged},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t).other(t)
			l := b.open()
			b.add(l, 5)
			b.adopt(l, b.noteAt(5), 5)
			b.add(l, 595)
			b.close(l)
			b.close(b.open()) // reads what is beyond the guard
			l = b.open()      // and this one has no reason to
			c.change(b)
			if cp, err := l.Adopt(context.Background(), b.noteAt(300)); !errors.Is(err, c.want) || cp.Size != 5 {
				t.Errorf("Adopt: %d, %v; expected %v", cp.Size, err, c.want)
			}
			if !bytes.Equal(b.read("log", "checkpoint"), b.noteAt(5)) {
				t.Errorf("the checkpoint is %q", b.read("log", "checkpoint"))
			}
		})
	}
}

func TestCLU06_Contains(t *testing.T) {
	b := newBench(t).other(t)
	l := b.open()
	b.add(l, 300)
	l.signing <- struct{}{} // a publication waits for somebody
	for size := range uint64(305) {
		ok, err := l.Contains(context.Background(), size, [32]byte(rootAt(size)))
		if ok != (size <= 300) || err != nil {
			t.Errorf("size %d: %v, %v", size, ok, err)
		}
		ok, err = l.Contains(context.Background(), size, [32]byte{1})
		if ok || (size <= 300) != errors.Is(err, ErrDisagrees) {
			t.Errorf("another root at size %d: %v, %v", size, ok, err)
		}
	}
	if l.Err() != nil {
		t.Errorf("a question stops the log: %v", l.Err())
	}
	if size, root := l.Guard(); size != 0 || root != treeAt(0).root {
		t.Errorf("the guard is told as size %d root %x", size, root)
	}
	<-l.signing
	b.adopt(l, b.noteAt(300), 300)
	if size, root := l.Guard(); size != 300 || root != treeAt(300).root {
		t.Errorf("the guard is told as size %d root %x", size, root)
	}
}

func TestCLU08_AdoptsBesideAppends(t *testing.T) {
	b := newBench(t)
	b.fenced()
	l := b.open()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	notes := map[uint64][]byte{}
	for size := uint64(0); size <= 3000; size += 50 {
		notes[size] = b.noteAt(size)
	}
	for range 2 {
		wg.Go(func() {
			var last uint64
			for ctx.Err() == nil {
				cp, err := l.Adopt(context.Background(), notes[l.Size()/50*50])
				if err != nil || cp.Size < last {
					t.Errorf("Adopt: %d after %d, %v", cp.Size, last, err)
					return
				}
				last = cp.Size
			}
		})
	}
	for l.Size() < 3000 {
		b.add(l, 50+l.Size()%7)
		if l.Size()%3 == 0 {
			b.publish(l)
		}
		if l.Size()+56 > 3000 {
			break
		}
	}
	stop()
	wg.Wait()
	b.publish(l)
	b.close(l)
	b.fsck()
}

func TestAdoptHonoursItsContext(t *testing.T) {
	b := newBench(t).other(t)
	l := b.open()
	b.add(l, 5)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cp, err := l.Adopt(ctx, b.noteAt(5)); !errors.Is(err, context.Canceled) || cp.Size != 0 {
		t.Errorf("Adopt: %d, %v", cp.Size, err)
	}
	b.close(l)
	if _, err := l.Adopt(context.Background(), b.noteAt(5)); !errors.Is(err, ErrClosed) {
		t.Errorf("Adopt of a closed log: %v", err)
	}
}
