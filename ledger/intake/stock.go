package intake

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"

	"counterfoil/ledger/event"
)

const (
	// stockEach is how many keys are kept ready in each shard.
	stockEach = 4
	// stockFill is how many are made durable at once, at most. The first fill has
	// one, and each has twice as many as the one before: who records little leaves
	// little behind.
	stockFill = 256
)

// stock holds ids of attempts that are still to come, with their keys. The keys are
// durable before anybody asks for one, so that a begin waits neither for a flush nor,
// in a cluster, for the other nodes. What is left at the end stays in the vault, as
// keys of nothing: 120 bytes each, 1,024 at most.
type stock struct {
	random func(parts ...[]byte) error
	keep   func(keys map[string][32]byte) error // durable once it has returned

	mu      sync.Mutex
	ready   [event.Shards][]drawn
	waiting [event.Shards]int // callers who found nothing
	size    int               // keys of the next fill
	filling *filling          // nil: nobody fills
}

// drawn is what an attempt begins with.
type drawn struct {
	id  string
	key [32]byte
}

type filling struct {
	done chan struct{}
	err  error // set before done is closed
}

// take draws an id and a key that nobody else gets. It waits while the stock of the
// shard is filled up. An error is that of the filling, or of ctx.
func (s *stock) take(ctx context.Context, shard int) (drawn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[shard]++
	defer func() { s.waiting[shard]-- }()
	for {
		if n := len(s.ready[shard]) - 1; n >= 0 {
			d := s.ready[shard][n]
			s.ready[shard] = s.ready[shard][:n]
			return d, nil
		}
		f := s.filling
		if f == nil {
			f = &filling{done: make(chan struct{})}
			s.filling = f
			need := s.shortage()
			s.mu.Unlock()
			fresh, err := s.fill(need)
			s.mu.Lock()
			for _, d := range fresh {
				i, _ := shardOf(d.id)
				s.ready[i] = append(s.ready[i], d)
			}
			s.filling, f.err = nil, err
			close(f.done)
		} else {
			s.mu.Unlock()
			select {
			case <-f.done:
			case <-ctx.Done():
			}
			s.mu.Lock()
			if ctx.Err() != nil {
				return drawn{}, ctx.Err()
			}
		}
		if f.err != nil {
			return drawn{}, f.err
		}
	}
}

// shortage lists the shards to draw for: one for each caller who waits, then those
// that have the least.
func (s *stock) shortage() (need []int) {
	s.size = min(max(2*s.size, 1), stockFill)
	var have [event.Shards]int
	for shard, callers := range s.waiting {
		// Some of them may just be about to find what there is.
		have[shard] = max(len(s.ready[shard])-callers, 0)
		for range callers - len(s.ready[shard]) {
			need = append(need, shard)
		}
	}
	for level := range stockEach {
		for shard := range have {
			if len(need) >= s.size {
				return need
			}
			if have[shard] <= level {
				have[shard]++
				need = append(need, shard)
			}
		}
	}
	return need
}

// fill draws for shards and makes the keys durable.
func (s *stock) fill(shards []int) ([]drawn, error) {
	fresh := make([]drawn, len(shards))
	keys := make(map[string][32]byte, len(shards))
	for i, shard := range shards {
		var name [15]byte
		if err := s.random(name[:], fresh[i].key[:]); err != nil {
			return nil, err
		}
		fresh[i].id = event.NewAttemptID(hex.EncodeToString([]byte{byte(shard)}), name)
		keys[fresh[i].id] = fresh[i].key
	}
	if err := s.keep(keys); err != nil {
		return nil, fmt.Errorf("store keys of attempts: %w", err)
	}
	return fresh, nil
}
