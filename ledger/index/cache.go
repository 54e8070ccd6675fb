package index

// cache keeps recently used rows: two generations, so that it stays bounded
// without a list. It is guarded by Index.mu.
type cache struct {
	limit int // rows in a generation
	young map[string]*Row
	old   map[string]*Row
}

func newCache(limit int) *cache {
	return &cache{limit: limit / 2, young: map[string]*Row{}, old: map[string]*Row{}}
}

func (c *cache) get(id string) *Row {
	if r := c.young[id]; r != nil {
		return r
	}
	r := c.old[id]
	if r != nil {
		c.put(id, r)
	}
	return r
}

func (c *cache) put(id string, r *Row) {
	if len(c.young) >= c.limit {
		c.young, c.old = map[string]*Row{}, c.young
	}
	c.young[id] = r
}
