package lease

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/testkit/freeport"
	"counterfoil/ledger/stream"
)

// long runs take as many rounds as one has patience for; patience is when a test
// that waits for something gives up.
var (
	long     = os.Getenv("COUNTERFOIL_LONG") != ""
	patience = map[bool]time.Duration{false: 2 * time.Minute, true: 9 * time.Minute}[long]
)

func openStream(t *testing.T, cfg stream.Config) *stream.Stream {
	t.Helper()
	cfg.Tenant, cfg.Origin, cfg.Fingerprint = "default", origin, "sha256:00"
	s, err := stream.Open(t.Context(), cfg)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func register(t *testing.T, s *stream.Stream) *stream.Register {
	t.Helper()
	r, err := s.Register(t.Context(), "signer")
	must(t, err)
	return r
}

// history is what all nodes of a test signed and what the register showed.
type history struct {
	mu     sync.Mutex
	signed map[uint64]Guard
	shown  []uint64
	epochs map[uint64]string
}

func (h *history) sign(t *testing.T, g Guard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, ok := h.signed[g.Size]; ok && was != g {
		t.Errorf("signed %s, before it was %s", g, was)
	}
	h.signed[g.Size] = g
}

// follow checks everything that the register shows.
func (h *history) follow(t *testing.T, ctx context.Context, r Register) {
	var guard Guard
	var checkpoint uint64
	var epoch uint64
	_ = r.Watch(ctx, func(value []byte, revision uint64) error {
		rec, err := Parse(value)
		if err != nil {
			t.Errorf("revision %d: %v", revision, err)
			return err
		}
		_, shown, err := readNote(rec.Checkpoint, origin, MaxCheckpoint)
		if len(rec.Checkpoint) > 0 && err != nil {
			t.Errorf("revision %d: %v", revision, err)
		}
		if rec.Guard.Size < guard.Size || rec.Guard.Size == guard.Size && guard.Size > 0 && rec.Guard != guard || shown.Size < checkpoint || rec.Epoch < epoch {
			t.Errorf("revision %d: epoch %d, %s, checkpoint %d after epoch %d, %s, checkpoint %d", revision, rec.Epoch, rec.Guard, shown.Size, epoch, guard, checkpoint)
		}
		guard, epoch = rec.Guard, rec.Epoch
		h.mu.Lock()
		defer h.mu.Unlock()
		if shown.Size > checkpoint {
			checkpoint = shown.Size
			h.shown = append(h.shown, shown.Size)
			if h.signed[shown.Size] != shown {
				t.Errorf("revision %d: shown is %s, signed was %s", revision, shown, h.signed[shown.Size])
			}
		}
		if !rec.Vacant() {
			if was, ok := h.epochs[rec.Epoch]; ok && was != rec.Instance {
				t.Errorf("epoch %d is of %s and of %s", rec.Epoch, was, rec.Instance)
			}
			h.epochs[rec.Epoch] = rec.Instance
		}
		return nil
	})
}

// life is one process of a node: it follows the tree, and signs while it may, until
// ctx ends.
func (h *history) life(t *testing.T, ctx context.Context, cfg Config, own *log, grow func() uint64) {
	l, err := New(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	for ctx.Err() == nil {
		changed := l.Changed()
		if !l.Held() {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		size := grow()
		own.set(size, size)
		g := own.leaves.at(size)
		err := l.Reserve(ctx, g.Size, g.Root)
		if err == nil {
			h.sign(t, g)
			err = l.Publish(ctx, own.keys.checkpoint(g))
		}
		if Final(err) {
			t.Errorf("node %s: %v", cfg.Node, err)
			return
		}
	}
	if rand.IntN(2) == 0 {
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = l.Release(last)
		cancel()
	}
	if err := <-ended; err != nil {
		t.Errorf("node %s: %v", cfg.Node, err)
	}
}

// Three nodes on a real server live and die at random, with short lives.
func TestCLU02_CLU03_CLU05_LivesOnARealRegister(t *testing.T) {
	s := openStream(t, stream.Config{Dir: filepath.Join(t.TempDir(), "stream")})
	k, all := newKeys(t), newLeaves(0)
	h := &history{signed: map[uint64]Guard{}, epochs: map[uint64]string{}}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { h.follow(t, ctx, register(t, s)) })
	var mu sync.Mutex
	total := uint64(0)
	grow := func() uint64 { mu.Lock(); defer mu.Unlock(); total++; return total }
	rounds := 12
	if long {
		rounds = 200
	}
	for i := range 3 {
		wg.Go(func() {
			own := &log{leaves: all, keys: k}
			for ctx.Err() == nil {
				mu.Lock()
				own.set(total, 0) // it has caught up with the stream
				mu.Unlock()
				cfg := own.config(fmt.Sprint("n", i), register(t, s))
				cfg.TTL, cfg.Beat = 300*time.Millisecond, 100*time.Millisecond
				cfg.Contains = func(_ context.Context, size uint64, root [32]byte) (bool, error) { // and goes on doing so
					if all.at(size).Root != root {
						return false, errOther
					}
					return true, nil
				}
				life, die := context.WithTimeout(ctx, time.Duration(100+rand.IntN(900))*time.Millisecond)
				h.life(t, life, cfg, own, grow)
				die()
			}
		})
	}
	for ctx.Err() == nil {
		h.mu.Lock()
		enough := len(h.epochs) > rounds && len(h.shown) > 50
		h.mu.Unlock()
		if enough {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	wg.Wait()
	if len(h.epochs) <= rounds || len(h.shown) <= 50 {
		t.Errorf("only %d epochs and %d checkpoints were seen", len(h.epochs), len(h.shown))
	}
	t.Logf("%d epochs, %d signed, %d of them seen by the watch", len(h.epochs), len(h.signed), len(h.shown))
}

// A node of a real cluster of three goes away with its server; another one signs
// what continues it.
func TestCLU05_ANodeOfARealClusterGoes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	addrs := make([]string, 3)
	for i := range addrs {
		addrs[i] = freeport.Addr(t)
	}
	dir := t.TempDir()
	streams := make([]*stream.Stream, 3)
	var wg sync.WaitGroup
	for i := range streams {
		c := &stream.ClusterConfig{Name: "test", Node: fmt.Sprint("n", i), Listen: addrs[i], Secret: "a secret of the test cluster"}
		for j, a := range addrs {
			if j != i {
				c.Routes = append(c.Routes, a)
			}
		}
		wg.Go(func() { streams[i] = openStream(t, stream.Config{Dir: filepath.Join(dir, c.Node), Cluster: c}) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	k, all := newKeys(t), newLeaves(0)
	leases := make([]*Lease, 3)
	for i := range leases {
		own := &log{leaves: all, keys: k, size: 20}
		l, err := New(own.config(fmt.Sprint("n", i), register(t, streams[i])))
		must(t, err)
		leases[i] = l
		ctx, stop := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
		t.Cleanup(func() { stop(); wg.Wait() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	holder := func(not int) int {
		for ctx.Err() == nil {
			for i, l := range leases {
				if i != not && l.Held() {
					return i
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		for i, l := range leases {
			rec, rev := l.Record()
			t.Logf("node %d: trouble %v, revision %d, record %+v", i, l.Trouble(), rev, rec)
		}
		t.Fatal("nobody holds the lease")
		return 0
	}
	first := holder(-1)
	must(t, leases[first].Reserve(ctx, 10, all.at(10).Root))
	must(t, leases[first].Publish(ctx, k.checkpoint(all.at(10))))
	must(t, leases[first].Reserve(ctx, 12, all.at(12).Root)) // signed, and not shown
	began := time.Now()
	must(t, streams[first].Close(context.Background()))
	second := holder(first)
	l := leases[second]
	for err := error(ErrUnavailable); err != nil; { // servers may be choosing a leader
		if err = l.Reserve(ctx, 12, all.at(12).Root); err != nil && (Final(err) || ctx.Err() != nil) {
			t.Fatal(err)
		}
	}
	t.Logf("node %d signs %v after node %d went", second, time.Since(began).Round(time.Millisecond), first)
	is(t, l.Reserve(ctx, 12, newLeaves(3).at(12).Root), ErrDisagrees)
	rec, _ := l.Record()
	if rec.Epoch < 2 || rec.Guard != all.at(12) || !bytes.Equal(rec.Checkpoint, k.checkpoint(all.at(10))) {
		t.Errorf("the register has %+v", rec)
	}
	must(t, l.Publish(ctx, k.checkpoint(all.at(12))))
	if err := leases[first].Publish(ctx, k.checkpoint(all.at(12))); err == nil {
		t.Error("the node that went away publishes")
	}
}
