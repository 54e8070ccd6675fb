package tlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/trust"
)

func TestLOG07_PublishedCheckpoint(t *testing.T) {
	b := newBench(t)
	l := b.open()
	changed := l.Changed()
	b.add(l, 5)
	select {
	case <-changed:
	default:
		t.Error("Changed does not tell of new leaves")
	}
	changed = l.Changed()
	cp := b.publish(l)
	select {
	case <-changed:
	default:
		t.Error("Changed does not tell of a new checkpoint")
	}
	if got := b.read("log", "checkpoint"); !bytes.Equal(got, cp.Note) || !bytes.Equal(l.Checkpoint().Note, got) || l.PublishedSize() != 5 {
		t.Errorf("stored %q, returned %q, told %q", got, cp.Note, l.Checkpoint().Note)
	}
	v, err := note.NewVerifier(b.vkey)
	must(t, err)
	n, err := note.Open(cp.Note, note.VerifierList(v))
	must(t, err)
	parsed, err := trust.ParseCheckpoint(n.Text)
	must(t, err)
	if want := (trust.Checkpoint{Origin: origin, Size: 5, Root: cp.Root}); parsed != want {
		t.Errorf("checkpoint %+v, expected %+v", parsed, want)
	}
	// Once more is the same one, and no news.
	changed = l.Changed()
	if again := b.publish(l); !bytes.Equal(again.Note, cp.Note) {
		t.Errorf("published %q again as %q", cp.Note, again.Note)
	}
	select {
	case <-changed:
		t.Error("Changed tells of a checkpoint that is not new")
	default:
	}
	b.close(l)
	if l = b.open(); !bytes.Equal(l.Checkpoint().Note, cp.Note) {
		t.Errorf("after a restart the checkpoint is %q", l.Checkpoint().Note)
	}
}

func TestINV4_GuardIsStoredBeforeSigning(t *testing.T) {
	b := newBench(t)
	signer := b.watch()
	l := b.open()
	signer.see = func(text string) error {
		_, stored, err := parseRecord(b.read("guard", guardFile))
		if err != nil {
			return err
		}
		if text != checkpointText(origin, stored) {
			t.Errorf("asked to sign %q while the guard has %s", text, stored)
		}
		return nil
	}
	for range 3 {
		b.add(l, 7)
		b.publish(l)
	}
	if len(signer.all) != 4 {
		t.Errorf("signed %d checkpoints, expected 4", len(signer.all))
	}
}

// Each case has published 5 and appended 5 more; then publishing meets a fault.
func TestINV4_PublishMeetsAFault(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		fault  fault
		signer func(*watchedSigner)
		guard  uint64 // on disk afterwards
		stored uint64 // checkpoint on disk afterwards
	}{
		"guard failed and not kept":      {file: guardFile, fault: failedNotKept, guard: 5, stored: 5},
		"guard failed but kept":          {file: guardFile, fault: failedButKept, guard: 10, stored: 5},
		"checkpoint failed and not kept": {file: "checkpoint", fault: failedNotKept, guard: 10, stored: 5},
		"checkpoint failed but kept":     {file: "checkpoint", fault: failedButKept, guard: 10, stored: 10},
		"signer fails":                   {signer: func(s *watchedSigner) { s.see = func(string) error { return errDisk } }, guard: 10, stored: 5},
		"signer signs something else":    {signer: func(s *watchedSigner) { s.last = func(sig []byte) []byte { sig[0] ^= 1; return sig } }, guard: 10, stored: 5},
		"signer signs nothing":           {signer: func(s *watchedSigner) { s.last = func([]byte) []byte { return nil } }, guard: 10, stored: 5},
	} {
		for _, then := range []string{"goes on", "grows", "restarts"} {
			t.Run(name+"/"+then, func(t *testing.T) {
				b := newBench(t)
				f := &faultyFiles{name: c.file}
				b.cfg.files = f.files()
				signer := b.watch()
				l := b.open()
				b.add(l, 5)
				old := b.publish(l)
				b.add(l, 5)
				f.next = c.fault
				if c.signer != nil {
					c.signer(signer)
				}
				signed := len(signer.all)
				if cp, err := l.Publish(context.Background()); err == nil || !bytes.Equal(cp.Note, old.Note) {
					t.Fatalf("Publish: %q, %v; expected an error and the old checkpoint", cp.Note, err)
				}
				if c.file == guardFile && len(signer.all) != signed {
					t.Error("something was signed although the guard was not stored")
				}
				if l.Err() != nil {
					t.Errorf("the log stops: %v", l.Err())
				}
				_, stored, err := parseRecord(b.read("guard", guardFile))
				if err != nil || stored.size != c.guard {
					t.Errorf("the guard has size %d, expected %d; %v", stored.size, c.guard, err)
				}
				if want := checkpointText(origin, treeAt(c.stored)); !strings.HasPrefix(string(b.read("log", "checkpoint")), want) {
					t.Errorf("the checkpoint is %q, expected %q", b.read("log", "checkpoint"), want)
				}
				signer.see, signer.last = nil, nil
				switch then {
				case "grows":
					b.add(l, 5)
				case "restarts":
					b.close(l)
					l = b.open()
					if l.Size() != 10 || l.PublishedSize() != c.stored {
						t.Errorf("size %d, published %d; expected 10, %d", l.Size(), l.PublishedSize(), c.stored)
					}
				}
				if cp := b.publish(l); cp.Size != l.Size() || !bytes.Equal(cp.Note, b.read("log", "checkpoint")) {
					t.Errorf("published %d, expected %d", cp.Size, l.Size())
				}
				b.close(l)
				b.fsck()
			})
		}
	}
}

// While the log is open, somebody changes its files.
func TestINV4_PublishAndAppendRefuseWhatOthersChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(b *bench)
		publish error
		append  error // nil: it is not Append that notices
	}{
		"state deleted":       {func(b *bench) { b.remove("log", stateFile) }, ErrRolledBack, ErrRolledBack},
		"state put back":      {func(b *bench) { b.write(b.read("old/log", stateFile), "log", stateFile) }, ErrRolledBack, ErrRolledBack},
		"state of size 0":     {func(b *bench) { b.setState(0, rootAt(0)) }, ErrRolledBack, ErrRolledBack},
		"state ahead":         {func(b *bench) { b.setState(20, rootAt(20)) }, ErrDisagrees, ErrDisagrees},
		"state of a fork":     {func(b *bench) { b.setState(10, rootAt(9)) }, ErrDisagrees, ErrDisagrees},
		"log put back":        {func(b *bench) { b.restore("old/log", "log") }, ErrRolledBack, ErrRolledBack},
		"log deleted":         {func(b *bench) { b.remove("log") }, ErrRolledBack, ErrRolledBack},
		"tile altered":        {func(b *bench) { b.flip("log", "tile/0/000.p/10", 3) }, ErrDisagrees, nil},
		"tile deleted":        {func(b *bench) { b.remove("log", "tile/0/000.p/10") }, ErrTiles, nil},
		"guard deleted":       {func(b *bench) { b.remove("guard", guardFile) }, ErrGuardChanged, nil},
		"guard put back":      {func(b *bench) { b.restore("old/guard", "guard") }, ErrGuardChanged, nil},
		"guard of the future": {func(b *bench) { b.guardOf(10) }, ErrGuardChanged, nil},
	} {
		for _, first := range []string{"Append", "Publish"} {
			if first == "Append" && c.append == nil {
				continue
			}
			t.Run(name+"/"+first, func(t *testing.T) {
				b := newBench(t)
				signer := b.watch()
				l := b.open()
				b.save("log", "old/log")
				b.save("guard", "old/guard")
				b.add(l, 5)
				b.publish(l)
				b.add(l, 5)
				signed := len(signer.all)
				c.change(b)
				checkpoint, _ := os.ReadFile(b.path("log", "checkpoint"))
				if first == "Append" { // nothing is written over other leaves
					files := b.files()
					if size, err := l.Append(context.Background(), leavesFrom(10, 3)); !errors.Is(err, c.append) || size != 10 {
						t.Errorf("Append: size %d, %v; expected %v", size, err, c.append)
					}
					for file, data := range b.files() {
						if files[file] != data {
							t.Errorf("Append wrote %s", file)
						}
					}
				}
				for range 2 {
					if cp, err := l.Publish(context.Background()); !errors.Is(err, c.publish) || cp.Size != 5 {
						t.Errorf("Publish: %d, %v; expected %v", cp.Size, err, c.publish)
					}
				}
				if final(c.publish) != (l.Err() != nil) {
					t.Errorf("Err: %v", l.Err())
				}
				if len(signer.all) != signed {
					t.Errorf("signed %q", signer.all[signed:])
				}
				if now, _ := os.ReadFile(b.path("log", "checkpoint")); !bytes.Equal(checkpoint, now) {
					t.Errorf("the checkpoint changed to %q", now)
				}
			})
		}
	}
}

// What may run ahead of the published tree is the batch in flight, while it is.
func TestINV4_OnlyABatchInFlightMayBeAhead(t *testing.T) {
	b := newBench(t)
	e := &faultyEngine{}
	b.faulty(e)
	l := b.open()
	b.add(l, 10)
	e.before = func([][]byte) ([][]byte, error) { return nil, errDisk }
	if _, err := l.Append(context.Background(), leavesFrom(10, 5)); !errors.Is(err, ErrNotKept) {
		t.Fatalf("Append: %v, expected %v", err, ErrNotKept)
	}
	e.before = nil
	b.publish(l)

	// Stored, and not yet known to be: the checkpoint is of what was before.
	e.after = func(indexes []uint64, err error) ([]uint64, error) {
		if cp := b.publish(l); cp.Size != 10 {
			t.Errorf("published %d, expected 10", cp.Size)
		}
		return indexes, err
	}
	b.add(l, 5)
	e.after = nil

	b.setState(20, rootAt(20)) // a size that the failed and the kept batch do not explain
	if _, err := l.Publish(context.Background()); !errors.Is(err, ErrDisagrees) {
		t.Errorf("Publish: %v, expected %v", err, ErrDisagrees)
	}
	b.close(l)

	b = newBench(t)
	b.faulty(e)
	l = b.open()
	b.add(l, 10)
	e.before = func([][]byte) ([][]byte, error) { return nil, errDisk }
	if _, err := l.Append(context.Background(), leavesFrom(10, 5)); !errors.Is(err, ErrNotKept) {
		t.Fatalf("Append: %v, expected %v", err, ErrNotKept)
	}
	b.setState(15, rootAt(15)) // the failed batch, but it failed
	if _, err := l.Publish(context.Background()); !errors.Is(err, ErrDisagrees) {
		t.Errorf("Publish: %v, expected %v", err, ErrDisagrees)
	}
}

// Tessera itself must never be able to sign, whatever becomes of its files.
func TestINV4_TesseraCannotSign(t *testing.T) {
	b := newBench(t)
	signer := b.watch()
	l := b.open()
	b.add(l, 5)
	b.publish(l)
	signed := len(signer.all)
	g := l.engine.(*tesseraEngine).gate
	for _, tr := range []tree{emptyTree(), treeAt(3), treeAt(5), treeAt(10)} {
		if _, err := g.Sign([]byte(checkpointText(origin, tr))); !errors.Is(err, errGate) {
			t.Errorf("size %d: %v, expected %v", tr.size, err, errGate)
		}
	}
	// Without a checkpoint or a state Tessera tries at the next appender.
	b.remove("log", "checkpoint")
	b.remove("log", stateFile)
	if _, err := l.engine.(*tesseraEngine).appender(63); err == nil {
		t.Error("an appender started on an emptied log")
	}
	if _, err := os.Stat(b.path("log", "checkpoint")); err == nil {
		t.Error("there is a checkpoint")
	}
	if len(signer.all) != signed {
		t.Errorf("signed %q", signer.all[signed:])
	}
	fresh := &gate{Signer: b.cfg.Signer, origin: origin}
	fresh.open.Store(true)
	for _, text := range []string{checkpointText(origin, treeAt(1)), checkpointText("log.test/two", emptyTree()), checkpointText(origin, tree{})} {
		if _, err := fresh.Sign([]byte(text)); !errors.Is(err, errGate) {
			t.Errorf("%q: %v, expected %v", text, err, errGate)
		}
	}
}
