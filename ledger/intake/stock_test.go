package intake

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"counterfoil/ledger/event"
)

// shelf is a stock over keys in memory, which says what was durable when.
type shelf struct {
	stock
	mu      sync.Mutex
	durable map[string][32]byte
	fills   []int
	fail    error
	hold    chan struct{} // a fill waits for it
}

func newShelf(seed byte) *shelf {
	s := &shelf{durable: map[string][32]byte{}}
	src := rand.NewChaCha8([32]byte{seed})
	var mu sync.Mutex
	s.random = func(parts ...[]byte) error {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range parts {
			if _, err := io.ReadFull(src, p); err != nil {
				return err
			}
		}
		return nil
	}
	s.keep = func(keys map[string][32]byte) error {
		if s.hold != nil {
			<-s.hold
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fail != nil {
			return s.fail
		}
		s.fills = append(s.fills, len(keys))
		for id, k := range keys {
			s.durable[id] = k
		}
		return nil
	}
	return s
}

// TestLOG14_StockGivesEachKeyOnceAndDurable: whoever begins an attempt gets an id of
// the shard that was asked for and a key that nobody else got, which is durable by
// then; few of them wait for a fill.
func TestLOG14_StockGivesEachKeyOnceAndDurable(t *testing.T) {
	const callers, each = 64, 100
	s := newShelf(1)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 2))
			for range each {
				shard := rng.IntN(event.Shards)
				d, err := s.take(t.Context(), shard)
				if err != nil {
					t.Error(err)
					return
				}
				if got, ok := shardOf(d.id); !ok || got != shard {
					t.Errorf("id %s for shard %02x", d.id, shard)
				}
				s.mu.Lock()
				key, durable := s.durable[d.id]
				s.mu.Unlock()
				mu.Lock()
				if !durable || key != d.key || seen[d.id] {
					t.Errorf("%s: durable %v, given before %v", d.id, durable, seen[d.id])
				}
				seen[d.id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != callers*each {
		t.Errorf("%d keys for %d attempts", len(seen), callers*each)
	}
	for _, n := range s.fills {
		if n > stockFill+callers {
			t.Errorf("a fill of %d keys", n)
		}
	}
	if left := len(s.durable) - len(seen); left > stockEach*event.Shards {
		t.Errorf("%d keys are left", left)
	}
	if n := len(s.fills); n > callers*each/20 {
		t.Errorf("%d fills for %d attempts", n, callers*each)
	}
}

// TestLOG14_StockStartsSmall: a ledger that records one attempt makes one key.
func TestLOG14_StockStartsSmall(t *testing.T) {
	s := newShelf(1)
	if _, err := s.take(t.Context(), 7); err != nil || len(s.durable) != 1 {
		t.Errorf("%d keys, %v", len(s.durable), err)
	}
}

// TestLOG14_StockThatCannotBeFilled: everybody who waits for a fill that fails gets
// its error, and no key of it is ever given. The next caller tries again.
func TestLOG14_StockThatCannotBeFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(1)
		s.hold, s.fail = make(chan struct{}), errors.New("input/output error")
		errs := make(chan error, 8)
		for range 7 {
			go func() { _, err := s.take(t.Context(), 3); errs <- err }()
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		go func() { _, err := s.take(gone, 3); errs <- err }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("who does not wait any more got %v", err)
		}
		close(s.hold)
		for range 7 {
			if err := <-errs; !errors.Is(err, s.fail) {
				t.Errorf("who waited got %v", err)
			}
		}
		s.fail = nil
		d, err := s.take(t.Context(), 3)
		if err != nil || s.durable[d.id] != d.key || len(s.durable) != s.fills[0] {
			t.Errorf("after the trouble: %v, %d durable, fills %v", err, len(s.durable), s.fills)
		}
		for shard, n := range s.waiting {
			if n != 0 {
				t.Errorf("%d callers wait in shard %d", n, shard)
			}
		}
	})
}
