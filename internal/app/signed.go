package app

import (
	"crypto/sha256"
	"sync"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// checker opens records: it parses them and verifies their signatures. A leaf
// that this process signed itself, with a key that it checked at start, is
// neither parsed nor verified again by the index and the follower, and one that
// another node signed is by the first of the two alone: an Ed25519
// verification costs as much as everything else that happens to an event
// together. Such a leaf is known by the SHA-256 of its bytes.
type checker struct {
	keys trust.EventKeys

	mu       sync.Mutex
	turn     uint64 // counts changes of keys
	verified generations[[sha256.Size]byte, struct{}]
	// checked are leaves of others that were verified here, with their place: a key
	// may sign one leaf and not the same bytes further on.
	checked generations[leafAt, struct{}]
	records generations[[sha256.Size]byte, *event.Record]
	missing func() // told of a key that is not known, before its event is refused; nil without
	// ours are the records that parse answers with, by their address.
	ours generations[*event.Record, struct{}]
}

type leafAt struct {
	sum   [sha256.Size]byte
	index uint64
}

// Bounds of the caches: 32 bytes a leaf for those that need no verification
// until the follower has read them, about 2 KB each for parsed records.
const (
	verifiedRows = 128 << 10
	recordRows   = 2 << 10
)

// generations is a map that forgets: when the young half is full it becomes the
// old one, and the old one is dropped.
type generations[K comparable, V any] struct {
	limit      int // of one half
	young, old map[K]V
}

func (g *generations[K, V]) put(k K, v V) {
	if g.young == nil || len(g.young) >= g.limit {
		g.young, g.old = make(map[K]V), g.young
	}
	g.young[k] = v
}

func (g *generations[K, V]) get(k K) (V, bool) {
	v, ok := g.young[k]
	if !ok {
		v, ok = g.old[k]
	}
	return v, ok
}

func newChecker(keys trust.EventKeys) *checker {
	c := &checker{keys: keys}
	c.verified.limit, c.checked.limit, c.records.limit, c.ours.limit = verifiedRows, verifiedRows, recordRows, recordRows
	return c
}

// use changes the keys. What was known under the ones before is forgotten.
func (c *checker) use(keys trust.EventKeys) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = keys
	c.turn++
	c.verified, c.checked, c.records, c.ours = empty(c.verified), empty(c.checked), empty(c.records), empty(c.ours)
}

func empty[K comparable, V any](g generations[K, V]) generations[K, V] {
	return generations[K, V]{limit: g.limit}
}

// signed remembers a record that was signed here, and its leaf. The record must
// not be changed any more.
func (c *checker) signed(leaf []byte, rec *event.Record) {
	sum := sha256.Sum256(leaf)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified.put(sum, struct{}{})
	c.records.put(sum, rec)
	c.ours.put(rec, struct{}{})
}

// parse reads a leaf. Records are shared: they must not be changed.
func (c *checker) parse(leaf []byte) (*event.Record, error) {
	sum := sha256.Sum256(leaf)
	c.mu.Lock()
	rec, ok := c.records.get(sum)
	c.mu.Unlock()
	if ok {
		return rec, nil
	}
	rec, err := event.ParseRecord(leaf)
	if err == nil {
		c.mu.Lock()
		c.records.put(sum, rec)
		c.mu.Unlock()
	}
	return rec, err
}

// check reports why the signatures of a record do not count, nil if they do.
func (c *checker) check(rec *event.Record, leaf []byte, leafIndex uint64) error {
	c.mu.Lock()
	_, ok := c.ours.get(rec)
	c.mu.Unlock()
	if ok {
		return nil // parse answered with it, so the leaf is the one that was signed
	}
	sum := sha256.Sum256(leaf)
	c.mu.Lock()
	if _, ok = c.verified.get(sum); !ok {
		_, ok = c.checked.get(leafAt{sum, leafIndex})
	}
	keys, turn := c.keys, c.turn
	c.mu.Unlock()
	if ok {
		return nil
	}
	_, err := keys.Check(rec, leafIndex)
	if err != nil && c.missing != nil && !known(keys, rec) {
		c.missing()
		c.mu.Lock()
		keys, turn = c.keys, c.turn
		c.mu.Unlock()
		_, err = keys.Check(rec, leafIndex)
	}
	if err == nil {
		c.mu.Lock()
		if c.turn == turn { // under the keys of now
			c.checked.put(leafAt{sum, leafIndex}, struct{}{}) // index and follower both ask
		}
		c.mu.Unlock()
	}
	return err
}

func known(keys trust.EventKeys, rec *event.Record) bool {
	_, ok := keys.Key(rec.Signatures[0].KeyID)
	return ok
}
