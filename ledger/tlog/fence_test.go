package tlog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

var errNotHolder = errors.New("another node signs")

// fakeFence is what the other nodes would see, and says what a test wants.
type fakeFence struct {
	reserved  []tree
	published [][]byte
	reserve   func() error
	publish   func(note []byte) error // before it is kept
	after     func() error            // after it was kept
}

func (f *fakeFence) Reserve(_ context.Context, size uint64, root [32]byte) error {
	if f.reserve != nil {
		if err := f.reserve(); err != nil {
			return err
		}
	}
	f.reserved = append(f.reserved, tree{size: size, root: root})
	return nil
}

func (f *fakeFence) Publish(_ context.Context, note []byte) error {
	if f.publish != nil {
		if err := f.publish(note); err != nil {
			return err
		}
	}
	f.published = append(f.published, bytes.Clone(note))
	if f.after != nil {
		return f.after()
	}
	return nil
}

// fenced gives the bench a fence.
func (b *bench) fenced() *fakeFence {
	f := &fakeFence{}
	b.cfg.Fence = f
	return f
}

func (b *bench) guardSize() uint64 {
	b.t.Helper()
	_, stored, err := parseRecord(b.read("guard", guardFile))
	if err != nil {
		b.t.Fatal(err)
	}
	return stored.size
}

// Each step sees what the one before it made durable, and nothing of the next.
func TestCLU02_CLU03_TheOrderAroundASignature(t *testing.T) {
	b := newBench(t)
	f, signer := b.fenced(), b.watch()
	l := b.open()
	b.add(l, 5)
	var steps []string
	old := string(b.read("log", "checkpoint"))
	see := func(step string) {
		steps = append(steps, step)
		if string(b.read("log", "checkpoint")) != old {
			t.Errorf("%s: the checkpoint is shown already", step)
		}
		if size := b.guardSize(); size != 5 {
			t.Errorf("%s: the guard has size %d, expected 5", step, size)
		}
	}
	f.reserve = func() error { see("reserve"); return nil }
	signer.see = func(string) error { see("sign"); return nil }
	f.publish = func(note []byte) error {
		see("publish")
		if l.PublishedSize() != 0 {
			t.Error("the checkpoint is told of already")
		}
		return nil
	}
	cp := b.publish(l)
	if want := []string{"reserve", "sign", "publish"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, expected %q", steps, want)
	}
	if len(f.reserved) != 1 || !f.reserved[0].same(5, cp.Root) || len(f.published) != 1 || !bytes.Equal(f.published[0], cp.Note) {
		t.Errorf("reserved %v, published %q", f.reserved, f.published)
	}
	if again := b.publish(l); again.Size != 5 || len(f.reserved) != 1 { // no news
		t.Errorf("reserved %v", f.reserved)
	}
	b.close(l)
	b.fsck()
}

// An Open neither asks the fence nor shows anything new.
func TestCLU03_OpenPublishesNothing(t *testing.T) {
	b := newBench(t)
	f := b.fenced()
	l := b.open()
	b.add(l, 5)
	b.publish(l)
	b.add(l, 5)
	asked := len(f.reserved) + len(f.published)
	checkpoint := b.read("log", "checkpoint")
	b.close(l)
	l = b.open()
	if l.PublishedSize() != 5 || !bytes.Equal(b.read("log", "checkpoint"), checkpoint) || len(f.reserved)+len(f.published) != asked {
		t.Errorf("published %d, reserved %v", l.PublishedSize(), f.reserved)
	}
	if size, root := l.Guard(); size != 10 || root != treeAt(10).root {
		t.Errorf("the guard is told as size %d root %x", size, root)
	}
	b.fsck()
}

// Each case has published 5 and appended 5 more; then publishing meets a fault of
// the fence or of the disk beside it.
func TestCLU07_PublishMeetsAFaultOfTheFence(t *testing.T) {
	type parts struct {
		f     *fakeFence
		files *faultyFiles
	}
	for name, c := range map[string]struct {
		fault  func(parts)
		signed int    // new signatures
		guard  uint64 // on disk afterwards
		shown  uint64 // checkpoint on disk afterwards
		others uint64 // newest that the others have
		asked  int    // reservations
	}{
		"guard failed and not kept":      {func(p parts) { p.files.name, p.files.next = guardFile, failedNotKept }, 0, 5, 5, 5, 0},
		"guard failed but kept":          {func(p parts) { p.files.name, p.files.next = guardFile, failedButKept }, 0, 10, 5, 5, 0},
		"another node signs":             {func(p parts) { p.f.reserve = func() error { return errNotHolder } }, 0, 10, 5, 5, 0},
		"published, not kept":            {func(p parts) { p.f.publish = func([]byte) error { return errNotHolder } }, 1, 10, 5, 5, 1},
		"published, kept, no answer":     {func(p parts) { p.f.after = func() error { return errNotHolder } }, 1, 10, 5, 10, 1},
		"checkpoint failed and not kept": {func(p parts) { p.files.name, p.files.next = "checkpoint", failedNotKept }, 1, 10, 5, 10, 1},
		"checkpoint failed but kept":     {func(p parts) { p.files.name, p.files.next = "checkpoint", failedButKept }, 1, 10, 10, 10, 1},
	} {
		for _, then := range []string{"goes on", "grows", "restarts", "adopts what the others have", "dies and another adopts"} {
			t.Run(name+"/"+then, func(t *testing.T) {
				b := newBench(t)
				p := parts{b.fenced(), &faultyFiles{}}
				b.cfg.files = p.files.files()
				signer := b.watch()
				l := b.open()
				b.add(l, 5)
				old := b.publish(l)
				b.add(l, 5)
				signed, asked := len(signer.all), len(p.f.reserved)
				c.fault(p)
				if cp, err := l.Publish(context.Background()); err == nil || !bytes.Equal(cp.Note, old.Note) {
					t.Fatalf("Publish: %q, %v; expected an error and the old checkpoint", cp.Note, err)
				}
				if l.Err() != nil {
					t.Fatalf("the log stops: %v", l.Err())
				}
				if n := len(signer.all) - signed; n != c.signed {
					t.Errorf("%d signatures, expected %d", n, c.signed)
				}
				if n := len(p.f.reserved) - asked; n != c.asked {
					t.Errorf("%d reservations, expected %d", n, c.asked)
				}
				if size := b.guardSize(); size != c.guard {
					t.Errorf("the guard has size %d, expected %d", size, c.guard)
				}
				others := p.f.published[len(p.f.published)-1]
				for what, shown := range map[string][]byte{"shown": b.read("log", "checkpoint"), "others": others} {
					want := map[string]uint64{"shown": c.shown, "others": c.others}[what]
					if !strings.HasPrefix(string(shown), checkpointText(origin, treeAt(want))) {
						t.Errorf("%s: %q, expected size %d", what, shown, want)
					}
				}
				p.f.reserve, p.f.publish, p.f.after = nil, nil, nil
				switch then {
				case "grows":
					b.add(l, 5)
				case "restarts":
					b.close(l)
					if l = b.open(); l.Size() != 10 || l.PublishedSize() != c.shown {
						t.Errorf("size %d, published %d; expected 10, %d", l.Size(), l.PublishedSize(), c.shown)
					}
				case "adopts what the others have":
					if cp, err := l.Adopt(context.Background(), others); err != nil || cp.Size != c.others {
						t.Errorf("adopted %d, %v; expected %d", cp.Size, err, c.others)
					}
				case "dies and another adopts":
					o := b.other(t)
					ol := o.open()
					o.add(ol, 10)
					if cp, err := ol.Adopt(context.Background(), others); err != nil || cp.Size != c.others {
						t.Errorf("adopted %d, %v; expected %d", cp.Size, err, c.others)
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

// What the fence calls final stops the log, as its own errors do.
func TestCLU06_AFinalErrorOfTheFenceStopsTheLog(t *testing.T) {
	refusal := finalError("the others have another root")
	for name, fault := range map[string]func(*fakeFence){
		"reserving":  func(f *fakeFence) { f.reserve = func() error { return refusal } },
		"publishing": func(f *fakeFence) { f.publish = func([]byte) error { return errors.Join(errNotHolder, refusal) } },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			f, signer := b.fenced(), b.watch()
			l := b.open()
			b.add(l, 5)
			b.publish(l)
			b.add(l, 5)
			fault(f)
			for range 2 {
				if cp, err := l.Publish(context.Background()); !errors.Is(err, refusal) || cp.Size != 5 {
					t.Fatalf("Publish: %d, %v", cp.Size, err)
				}
				f.reserve, f.publish = nil, nil
			}
			signed := len(signer.all)
			if _, err := l.Append(context.Background(), leavesFrom(10, 1)); !errors.Is(err, refusal) || !errors.Is(l.Err(), refusal) {
				t.Errorf("Append: %v, Err: %v", err, l.Err())
			}
			if _, err := l.Adopt(context.Background(), f.published[0]); !errors.Is(err, refusal) {
				t.Errorf("Adopt: %v", err)
			}
			if len(signer.all) != signed || l.PublishedSize() != 5 {
				t.Error("something was signed or shown")
			}
		})
	}
}
