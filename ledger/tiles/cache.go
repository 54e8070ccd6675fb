package tiles

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache keeps the values used last, up to a number of bytes. It is safe for
// concurrent use; the values are shared and never changed.
type cache[V interface{ bytes() int }] struct {
	mu   sync.Mutex
	lru  *simplelru.LRU[Path, V]
	size int // bytes of all values
	most int
}

func newCache[V interface{ bytes() int }](most int) *cache[V] {
	c := &cache[V]{most: most}
	// The error is for a size below 1. The bound that counts is most.
	c.lru, _ = simplelru.NewLRU(math.MaxInt32, func(_ Path, v V) { c.size -= v.bytes() })
	return c
}

func (c *cache[V]) get(p Path) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Get(p)
}

func (c *cache[V]) add(p Path, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.bytes() > c.most || c.lru.Contains(p) {
		return
	}
	c.lru.Add(p, v)
	for c.size += v.bytes(); c.size > c.most; {
		c.lru.RemoveOldest()
	}
}
