package intake

import (
	"context"
	"sync"

	"counterfoil/ledger/event"
)

// beginCacheRows bounds each of the two generations of the cache: about 1 KB a
// row.
const beginCacheRows = 4 << 10

// beginCache keeps the begins of attempts that are likely to be continued, so
// that an append need not read one back. The zero value is ready.
type beginCache struct {
	mu         sync.Mutex
	young, old map[string]*event.Event
}

func (c *beginCache) get(id string) *event.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.young[id]; e != nil {
		return e
	}
	return c.old[id]
}

func (c *beginCache) put(e *event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) >= beginCacheRows {
		c.young, c.old = make(map[string]*event.Event), c.young
	}
	c.young[e.AttemptID] = e
}

// beginOf returns the begin of an attempt, which is at sequence seq.
func (in *Intake) beginOf(ctx context.Context, attemptID string, seq uint64) (*event.Event, error) {
	if e := in.begins.get(attemptID); e != nil {
		return e, nil
	}
	res, err := in.stored(ctx, seq)
	if err != nil {
		return nil, err
	}
	in.begins.put(res.Rec.Event)
	return res.Rec.Event, nil
}
