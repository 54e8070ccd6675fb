package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/internal/testkit/fsck"
	"counterfoil/internal/testkit/natskit"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/tlog"
)

func TestMain(m *testing.M) {
	natskit.Child()
	os.Exit(m.Run())
}

// lateFence is the lease that is made after the log which it fences.
type lateFence struct{ lease atomic.Pointer[Lease] }

func (f *lateFence) Reserve(ctx context.Context, size uint64, root [32]byte) error {
	l := f.lease.Load()
	if l == nil {
		return ErrNotHeld
	}
	return l.Reserve(ctx, size, root)
}

func (f *lateFence) Publish(ctx context.Context, note []byte) error {
	return f.lease.Load().Publish(ctx, note)
}

// realNode is a node with a log of Tessera on a disk of its own.
type realNode struct {
	t      *testing.T
	name   string
	dir    string
	keys   keys
	all    *leaves
	total  *atomic.Uint64 // leaves in the stream
	reg    Register
	shown  uint64 // over all lives
	epochs *sync.Map
}

// live runs the node until ctx ends. It opens what is there, as a process does.
func (n *realNode) live(ctx context.Context, create bool) {
	fence := &lateFence{}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	lg, err := tlog.Open(context.Background(), tlog.Config{
		Dir: filepath.Join(n.dir, "log"), GuardDir: filepath.Join(n.dir, "guard"), Origin: origin,
		Signer: n.keys.signer, VerifierKey: n.keys.vkey.String(), Join: create, Fence: fence, Logger: quiet,
		CheckLeaf: func(index uint64, leaf []byte) error {
			if string(leaf) != string(n.all.leaf(index)) {
				return errors.New("another leaf")
			}
			return nil
		},
	})
	if err != nil {
		n.t.Errorf("node %s: %v", n.name, err)
		return
	}
	defer func() {
		if err := lg.Close(context.Background()); err != nil {
			n.t.Errorf("node %s: %v", n.name, err)
		}
	}()
	l, err := New(Config{
		Register: n.reg, Node: n.name, Origin: origin, LogKey: n.keys.vkey, TTL: 600 * time.Millisecond, Beat: 150 * time.Millisecond,
		Contains: lg.Contains, Logger: quiet,
		Own: func() (Guard, []byte) { size, root := lg.Guard(); return Guard{size, root}, lg.Checkpoint().Note },
	})
	if err != nil {
		n.t.Error(err)
		return
	}
	fence.lease.Store(l)
	var wg sync.WaitGroup
	defer wg.Wait()
	run := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				n.t.Errorf("node %s: %v", n.name, err)
			}
		})
	}
	run(func() error { return l.Run(ctx) })
	run(func() error { return n.append(ctx, lg) })
	run(func() error { return n.publish(ctx, lg, l) })
	run(func() error { return n.follow(ctx, lg, l) })
	n.watch(ctx, lg)
}

// append is a node's sequencer: batches of any size.
func (n *realNode) append(ctx context.Context, lg *tlog.Log) error {
	for ctx.Err() == nil {
		from := lg.Size()
		to := min(n.total.Load(), from+1+rand.Uint64N(40))
		if from == to {
			nap(ctx)
			continue
		}
		var batch [][]byte
		for i := from; i < to; i++ {
			batch = append(batch, n.all.leaf(i))
		}
		if _, err := lg.Append(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (n *realNode) publish(ctx context.Context, lg *tlog.Log, l *Lease) error {
	for ctx.Err() == nil {
		if !l.Held() || lg.Size() == lg.PublishedSize() {
			nap(ctx)
			continue
		}
		rec, _ := l.Record()
		n.epochs.Store(rec.Epoch, true)
		if _, err := lg.Publish(ctx); Final(err) {
			return err
		}
	}
	return nil
}

func (n *realNode) follow(ctx context.Context, lg *tlog.Log, l *Lease) error {
	for ctx.Err() == nil {
		rec, _ := l.Record()
		if rec.Checkpoint != nil {
			if _, err := lg.Adopt(ctx, rec.Checkpoint); err != nil && !errors.Is(err, tlog.ErrBehind) {
				return err
			}
		}
		nap(ctx)
	}
	return nil
}

// watch checks what a reader of this node sees.
func (n *realNode) watch(ctx context.Context, lg *tlog.Log) {
	for {
		changed := lg.Changed()
		cp := lg.Checkpoint()
		if cp.Size < n.shown || cp.Note != nil && n.all.at(cp.Size).Root != cp.Root {
			n.t.Errorf("node %s shows size %d root %x after size %d", n.name, cp.Size, cp.Root, n.shown)
		}
		n.shown = cp.Size
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func nap(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

// Three nodes with real logs over a real server, which is killed again and again,
// and they with it: everybody shows one history that only grows, and in the end the
// whole of it.
func TestCLU02_CLU03_CLU08_NodesWithRealLogs(t *testing.T) {
	server := natskit.Start(t, t.TempDir())
	k, all := newKeys(t), newLeaves(0)
	var total atomic.Uint64
	var epochs sync.Map
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	rounds := 4
	if long {
		rounds = 60
	}
	var wg sync.WaitGroup
	var calm atomic.Bool // nobody dies any more
	logs := memoryDir(t)
	nodes := make([]*realNode, 3)
	for i := range nodes {
		name := fmt.Sprint("n", i)
		s := openStream(t, stream.Config{URL: server.URL})
		if s == nil {
			return
		}
		nodes[i] = &realNode{t: t, name: name, dir: filepath.Join(logs, name), keys: k, all: all, total: &total, reg: register(t, s), epochs: &epochs}
		must(t, os.Mkdir(nodes[i].dir, 0o700))
		wg.Go(func() {
			for create := true; ctx.Err() == nil; create = false {
				life, die := context.WithCancel(ctx)
				go func() {
					defer die()
					select {
					case <-life.Done():
					case <-time.After(time.Duration(200+rand.IntN(1500)) * time.Millisecond):
						for calm.Load() && life.Err() == nil {
							nap(life)
						}
					}
				}()
				nodes[i].live(life, create)
				die()
			}
		})
	}
	seen := func() (n int) { epochs.Range(func(any, any) bool { n++; return true }); return n }
	for round := 0; round < rounds && ctx.Err() == nil; round++ {
		before := seen()
		for seen() < before+2 && ctx.Err() == nil {
			total.Add(rand.Uint64N(5))
			nap(ctx)
		}
		server.Kill()
		for range rand.IntN(60) {
			total.Add(rand.Uint64N(5))
			nap(ctx)
		}
		server.Restart()
	}
	calm.Store(true)
	end := all.at(total.Load())
	for ctx.Err() == nil {
		same := 0
		for _, n := range nodes {
			note, err := os.ReadFile(filepath.Join(n.dir, "log", "checkpoint"))
			if err != nil {
				t.Fatal(err)
			}
			if _, g, err := readNote(note, origin, MaxCheckpoint); err != nil {
				t.Fatal(err)
			} else if g == end {
				same++
			}
		}
		if same == 3 {
			break
		}
		nap(ctx)
	}
	if ctx.Err() != nil {
		t.Errorf("not all nodes show size %d in the end", end.Size)
	}
	stop()
	wg.Wait()
	for _, n := range nodes {
		fsck.Check(t, filepath.Join(n.dir, "log"), origin, k.vkey.String())
	}
	t.Logf("%d leaves, %d epochs", end.Size, seen())
}

// memoryDir is in memory where that is possible.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lease-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
