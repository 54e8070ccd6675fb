package app

import (
	"crypto/sha256"
	"sync"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// checker verifies the signatures of records. A leaf that this process signed
// itself, with a key that it checked at start, need not be verified again by
// the index and the follower: an Ed25519 verification costs as much as
// everything else that happens to an event together.
type checker struct {
	keys trust.EventKeys

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
}

// checkerRows bounds each of the two generations: about 6 MB each.
const checkerRows = 128 << 10

func newChecker(keys trust.EventKeys) *checker {
	return &checker{keys: keys, young: map[[sha256.Size]byte]struct{}{}}
}

// signed remembers a leaf that was signed here.
func (c *checker) signed(leaf []byte) {
	sum := sha256.Sum256(leaf)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= checkerRows {
		c.young, c.old = map[[sha256.Size]byte]struct{}{}, c.young
	}
	c.young[sum] = struct{}{}
}

// check reports why the signatures of a record do not count, nil if they do.
func (c *checker) check(rec *event.Record, leaf []byte, leafIndex uint64) error {
	sum := sha256.Sum256(leaf)
	c.mu.Lock()
	_, ok := c.young[sum]
	if !ok {
		_, ok = c.old[sum]
	}
	c.mu.Unlock()
	if ok {
		return nil
	}
	_, err := c.keys.Check(rec, leafIndex)
	return err
}
