package tlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"counterfoil/ledger/tiles"
)

// readBack compares every stored leaf with the lawful one.
func (b *bench) readBack(size uint64) {
	b.t.Helper()
	r := tiles.NewReader(tiles.Dir(b.path("log")), tiles.Options{})
	next := uint64(0)
	for l, err := range r.Leaves(context.Background(), 0, size, size) {
		if err != nil {
			b.t.Fatal(err)
		}
		if l.Index != next || !bytes.Equal(l.Data, leaf(next)) {
			b.t.Fatalf("leaf %d is %q, expected %q", l.Index, l.Data, leaf(next))
		}
		next++
	}
	if next != size {
		b.t.Fatalf("read %d leaves, expected %d", next, size)
	}
}

func TestLOG04_LeavesKeepTheirOrderOverRandomBatchesAndRestarts(t *testing.T) {
	total := uint64(20_000)
	if os.Getenv("COUNTERFOIL_LONG") != "" {
		total = 1_000_000
	}
	b := newBench(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	l := b.open()
	for l.Size() < total {
		n := 1 + rnd.Uint64N(100)
		switch rnd.IntN(4) {
		case 0:
			n = 1 + rnd.Uint64N(1100)
		case 1:
			n = 1
		}
		b.add(l, n)
		switch rnd.IntN(10) {
		case 0:
			b.publish(l)
		case 1:
			b.close(l)
			size := l.Size()
			if l = b.open(); l.Size() != size {
				t.Fatalf("size %d after the restart, expected %d", l.Size(), size)
			}
		}
	}
	b.publish(l)
	b.close(l)
	b.readBack(l.Size())
	b.fsck()
}

func TestLOG04_EveryBatchSizeHasItsAppender(t *testing.T) {
	for n := 1; n <= 5000; n++ {
		batches := 0
		for left := n; left > 0; batches++ {
			size := batchSize(left)
			if size > left || size < 1 || size > maxBatch || size > exactBatches && size%exactBatches != 0 {
				t.Fatalf("batchSize(%d) = %d", left, size)
			}
			left -= size
		}
		if most := (n+maxBatch-1)/maxBatch + 1; batches > most {
			t.Fatalf("%d leaves take %d batches, expected at most %d", n, batches, most)
		}
	}
}

func TestLOG04_ConcurrentCallersAreServedOneAfterTheOther(t *testing.T) {
	b := newBench(t)
	b.cfg.CheckLeaf = func(uint64, []byte) error { return nil }
	l := b.open()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 20 {
				leaves := [][]byte{fmt.Appendf(nil, "%d/%d/a", w, i), fmt.Appendf(nil, "%d/%d/b", w, i)}
				if _, err := l.Append(context.Background(), leaves); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if l.Size() != 160 {
		t.Errorf("size %d, expected 160", l.Size())
	}
	if _, err := l.Publish(context.Background()); err != nil {
		t.Error(err)
	}
	b.close(l)
	b.fsck()
}

func TestINV4_PublishesBesideAppends(t *testing.T) {
	const enough = 3 // checkpoints signed while leaves are added
	b := newBench(t)
	signer := b.watch()
	l := b.open()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var grown atomic.Int64 // checkpoints larger than the one before
	wg.Go(func() {
		defer grown.Store(enough) // a publisher that ended is not waited for
		var last uint64
		for ctx.Err() == nil {
			cp, err := l.Publish(context.Background())
			if err != nil {
				t.Errorf("Publish: %v", err)
				return
			}
			if cp.Size < last {
				t.Errorf("published %d after %d", cp.Size, last)
			}
			if cp.Size > last {
				grown.Add(1)
			}
			last = cp.Size
		}
	})
	rnd := rand.New(rand.NewPCG(3, 4))
	for l.Size() < 5000 || grown.Load() < enough { // on one processor it comes late to its turn
		b.add(l, 1+rnd.Uint64N(700))
	}
	stop()
	wg.Wait()
	b.publish(l)
	b.close(l)
	b.fsck()
	if len(signer.all) < enough {
		t.Errorf("only %d checkpoints were signed", len(signer.all))
	}
	for _, text := range signer.all {
		var size uint64
		var root string
		if _, err := fmt.Sscanf(text, origin+"\n%d\n%s\n", &size, &root); err != nil {
			t.Fatal(err)
		}
		want := checkpointText(origin, tree{size: size, root: tiles.Hash(rootAt(size))})
		if text != want {
			t.Errorf("signed %q, expected %q", text, want)
		}
	}
}

func TestAppendBoundsLeaves(t *testing.T) {
	b := newBench(t)
	b.cfg.CheckLeaf = func(uint64, []byte) error { return nil }
	l := b.open()
	big, tooBig := bytes.Repeat([]byte("x"), MaxLeaf), bytes.Repeat([]byte("x"), MaxLeaf+1)
	size, err := l.Append(context.Background(), [][]byte{{}, big, tooBig})
	var e *LeafTooLargeError
	if !errors.As(err, &e) || e.Position != 2 || e.Size != MaxLeaf+1 {
		t.Errorf("got %v, expected a LeafTooLargeError for leaf 2", err)
	}
	if size != 0 || l.Size() != 0 {
		t.Errorf("size %d and %d, expected that nothing was appended", size, l.Size())
	}
	if size, err = l.Append(context.Background(), [][]byte{{}, big}); size != 2 || err != nil {
		t.Errorf("the longest and the empty leaf: size %d, %v", size, err)
	}
	if size, err = l.Append(context.Background(), nil); size != 2 || err != nil {
		t.Errorf("no leaves: size %d, %v", size, err)
	}
	if _, err := l.Publish(context.Background()); err != nil {
		t.Error(err)
	}
	b.close(l)
	b.fsck()
}

// Each case appends 10 leaves and publishes; then a batch of 5 meets a fault.
func TestINV2_OneBatchMeetsAFault(t *testing.T) {
	swap := func(leaves [][]byte) ([][]byte, error) {
		out := append([][]byte{}, leaves...)
		out[1], out[2] = out[2], out[1]
		return out, nil
	}
	refuse := func([][]byte) ([][]byte, error) { return nil, errDisk }
	fail := func(indexes []uint64, err error) ([]uint64, error) { return indexes, errDisk }

	for name, c := range map[string]struct {
		engine   faultyEngine
		flush    fault        // of the state file, by us
		after    func(*bench) // to the files, before the outcome is read
		want     error        // of Append
		size     uint64       // known at once
		stops    bool         // for good
		repair   func(*bench) // before the next Append
		moved    bool         // the next Append finds the batch durable
		reopened uint64       // size after a restart instead of a next Append
		refused  error        // or why there is none
	}{
		"failed and not kept":                {engine: faultyEngine{before: refuse}, want: ErrNotKept, size: 10, reopened: 10},
		"failed but kept":                    {engine: faultyEngine{after: fail}, size: 15, reopened: 15},
		"failed, kept, not flushed":          {engine: faultyEngine{after: fail}, flush: failedNotKept, want: ErrUnanswered, size: 10, moved: true, reopened: 15},
		"failed, kept, flushed all the same": {engine: faultyEngine{after: fail}, flush: failedButKept, want: ErrUnanswered, size: 10, moved: true, reopened: 15},
		"failed, state unreadable": {
			engine: faultyEngine{after: fail}, after: func(b *bench) { b.save("log/.state", "aside"); b.write([]byte("{"), "log", stateFile) },
			want: ErrUnanswered, size: 10, repair: func(b *bench) { b.write(b.read("aside", "treeState"), "log", stateFile) }, moved: true, reopened: 15,
		},
		"kept, state unreadable": {
			after: func(b *bench) { b.save("log/.state", "aside"); b.write([]byte("{"), "log", stateFile) },
			want:  ErrUnanswered, size: 10, repair: func(b *bench) { b.write(b.read("aside", "treeState"), "log", stateFile) }, moved: true, reopened: 15,
		},
		"not kept, state unreadable": {
			engine: faultyEngine{before: refuse}, after: func(b *bench) { b.save("log/.state", "aside"); b.write([]byte("{"), "log", stateFile) },
			want: ErrUnanswered, size: 10, repair: func(b *bench) { b.write(b.read("aside", "treeState"), "log", stateFile) }, reopened: 10,
		},
		"said to be kept and not there": {
			engine: faultyEngine{before: func(l [][]byte) ([][]byte, error) { return nil, nil }, after: func([]uint64, error) ([]uint64, error) { return []uint64{10, 11, 12, 13, 14}, nil }},
			want:   ErrRolledBack, size: 10, stops: true, reopened: 10,
		},
		"kept in another order":         {engine: faultyEngine{before: swap}, want: ErrDisagrees, size: 10, stops: true, refused: ErrLeafRefused},
		"kept in another order, failed": {engine: faultyEngine{before: swap, after: fail}, want: ErrDisagrees, size: 10, stops: true, refused: ErrLeafRefused},
		"kept at other indexes": {
			engine: faultyEngine{after: func([]uint64, error) ([]uint64, error) { return []uint64{10, 12, 11, 13, 14}, nil }},
			want:   ErrDisagrees, size: 10, stops: true, reopened: 15,
		},
		"kept in part": {
			engine: faultyEngine{before: func(l [][]byte) ([][]byte, error) { return l[:3], nil }, after: func([]uint64, error) ([]uint64, error) { return nil, errDisk }},
			want:   ErrRolledBack, size: 10, stops: true, reopened: 13,
		},
		"state gone": {after: func(b *bench) { b.remove("log", stateFile) }, want: ErrRolledBack, size: 10, stops: true, refused: ErrRolledBack},
	} {
		for _, then := range []string{"goes on", "restarts"} {
			t.Run(name+"/"+then, func(t *testing.T) {
				b := newBench(t)
				e := &faultyEngine{}
				b.faulty(e)
				files := &faultyFiles{name: "treeState"}
				b.cfg.files = files.files()
				l := b.open()
				b.add(l, 10)
				b.publish(l)
				published := b.read("log", "checkpoint")

				e.before, e.after, files.next = c.engine.before, c.engine.after, c.flush
				if hook, inner := c.after, e.after; hook != nil {
					before := e.before
					e.before = func(leaves [][]byte) ([][]byte, error) {
						if before == nil {
							return leaves, nil
						}
						through, err := before(leaves)
						if err != nil {
							hook(b)
						}
						return through, err
					}
					e.after = func(indexes []uint64, err error) ([]uint64, error) {
						hook(b)
						if inner != nil {
							return inner(indexes, err)
						}
						return indexes, err
					}
				}
				size, err := l.Append(context.Background(), leavesFrom(10, 5))
				if !errors.Is(err, c.want) {
					t.Fatalf("Append: %v, expected %v", err, c.want)
				}
				if size != c.size || l.Size() != c.size {
					t.Fatalf("size %d and %d, expected %d", size, l.Size(), c.size)
				}
				e.before, e.after = nil, nil
				if c.repair != nil {
					c.repair(b)
				}
				if got := l.Err() != nil; got != c.stops {
					t.Fatalf("Err: %v, expected that the log stops: %v", l.Err(), c.stops)
				}
				if c.stops {
					if _, err := l.Append(context.Background(), leavesFrom(10, 5)); !errors.Is(err, c.want) {
						t.Errorf("next Append: %v, expected %v", err, c.want)
					}
					if _, err := l.Publish(context.Background()); !errors.Is(err, c.want) {
						t.Errorf("Publish: %v, expected %v", err, c.want)
					}
				}
				if c.stops || then == "restarts" {
					b.close(l)
					b.cfg.engine = nil
					if c.refused != nil {
						b.refused(c.refused)
						if !bytes.Equal(b.read("log", "checkpoint"), published) {
							t.Error("the checkpoint changed")
						}
						return
					}
					if l = b.open(); l.Size() != c.reopened {
						t.Fatalf("size %d after the restart, expected %d", l.Size(), c.reopened)
					}
				} else if c.moved {
					if size, err := l.Append(context.Background(), leavesFrom(10, 5)); !errors.Is(err, ErrMoved) || size != 15 {
						t.Fatalf("next Append: size %d, %v; expected 15, %v", size, err, ErrMoved)
					}
				}
				if !bytes.Equal(b.read("log", "checkpoint"), published) {
					t.Error("the checkpoint changed")
				}
				b.add(l, 20-l.Size())
				b.publish(l)
				b.close(l)
				b.readBack(20)
				b.fsck()
			})
		}
	}
}

// A real failure of Tessera: a file stands where it wants a directory, in the
// middle of a batch. (It takes a directory in the place of a bundle for the
// bundle itself.)
func TestLOG14_DiskErrorKeepsTheBatchOut(t *testing.T) {
	for _, blocked := range []string{"tile/entries/001.p", "tile/0/001.p", "tile/1"} {
		b := newBench(t)
		l := b.open()
		b.add(l, 250)
		b.publish(l)
		published := b.read("log", "checkpoint")
		b.write(nil, "log", blocked)
		for range 3 {
			if size, err := l.Append(context.Background(), leavesFrom(250, 10)); !errors.Is(err, ErrNotKept) || size != 250 {
				t.Fatalf("%s: Append: size %d, %v; expected 250, %v", blocked, size, err, ErrNotKept)
			}
			if cp := b.publish(l); cp.Size != 250 {
				t.Fatalf("%s: published %d, expected 250", blocked, cp.Size)
			}
		}
		if !bytes.Equal(b.read("log", "checkpoint"), published) {
			t.Errorf("%s: the checkpoint changed", blocked)
		}
		b.remove("log", blocked)
		b.add(l, 10)
		b.publish(l)
		b.close(l)
		b.readBack(260)
		b.fsck()
	}
}

func TestLOG14_CallerLeavesWhileABatchIsInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		failure error
		next    error
		size    uint64
	}{
		"kept":     {nil, ErrMoved, 15},
		"not kept": {errDisk, nil, 20},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			e := &faultyEngine{}
			b.faulty(e)
			l := b.open()
			b.add(l, 10)
			begun, goOn := make(chan struct{}), make(chan struct{})
			failure := c.failure
			e.before = func(leaves [][]byte) ([][]byte, error) {
				if begun != nil {
					close(begun)
					<-goOn
				}
				err := failure
				begun, failure = nil, nil
				return leaves, err
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			gone := errors.New("the caller's reason")
			go func(begun <-chan struct{}) { <-begun; cancel(gone) }(begun)
			size, err := l.Append(ctx, leavesFrom(10, 5))
			if !errors.Is(err, ErrUnanswered) || !errors.Is(err, gone) || size != 10 {
				t.Fatalf("Append: size %d, %v; expected 10, %v and %v", size, err, ErrUnanswered, gone)
			}

			// Meanwhile: others wait as long as they like, a checkpoint of what
			// was durable is possible, and the log cannot be closed under it.
			if _, err := l.Append(ctx, leavesFrom(10, 5)); !errors.Is(err, gone) || errors.Is(err, ErrUnanswered) {
				t.Errorf("second Append: %v, expected %v", err, gone)
			}
			if cp := b.publish(l); cp.Size != 10 {
				t.Errorf("published %d, expected 10", cp.Size)
			}
			if err := l.Close(ctx); !errors.Is(err, gone) {
				t.Errorf("Close: %v, expected %v", err, gone)
			}
			if _, err := Open(context.Background(), b.cfg); !errors.Is(err, ErrLocked) {
				t.Errorf("Open: %v, expected %v", err, ErrLocked)
			}

			close(goOn)
			size, err = l.Append(context.Background(), leavesFrom(10, 10))
			if !errors.Is(err, c.next) || size != c.size {
				t.Fatalf("next Append: size %d, %v; expected %d, %v", size, err, c.size, c.next)
			}
			b.add(l, 25-l.Size())
			b.publish(l)
			b.close(l)
			b.readBack(25)
			b.fsck()
		})
	}
}

func TestAppendBegunByNobody(t *testing.T) {
	b := newBench(t)
	l := b.open()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if size, err := l.Append(ctx, leavesFrom(0, 5)); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnanswered) || size != 0 {
		t.Errorf("Append: size %d, %v; expected that nothing is begun", size, err)
	}
	if _, err := l.Publish(ctx); err == nil {
		t.Error("Publish: expected an error")
	}
	b.add(l, 5)
	b.close(l)
	b.close(l) // again
	if _, err := l.Append(context.Background(), leavesFrom(5, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Append: %v, expected %v", err, ErrClosed)
	}
	if _, err := l.Publish(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Publish: %v, expected %v", err, ErrClosed)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			k := newBench(b)
			l := k.open()
			leaves := make([][]byte, size)
			for i := range leaves {
				leaves[i] = bytes.Repeat([]byte("x"), 900)
			}
			for b.Loop() {
				if _, err := l.Append(context.Background(), leaves); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "leaves/s")
		})
	}
}
