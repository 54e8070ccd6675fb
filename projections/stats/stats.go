// Package stats counts what the views hold, in one row.
package stats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

var key = []byte{'n'}

const version = 1

// Names of counters are a group and words, separated by dots; no word of ours
// holds a dot.
const (
	groupEvent  = "event"  // event.<kind>.<lifecycle>.<status>
	groupState  = "state"  // state.<state of the attempt>
	groupParked = "parked" // parked.<reason>
	nameSkew    = "skew"
)

// Counts are the counts at one tree size.
type Counts struct {
	Receipts  uint64 // events that count
	Attempts  uint64
	Parked    uint64 // leaves that do not count
	ClockSkew uint64 // events whose two times are more than a minute apart

	Kinds      map[string]uint64 // events by subject kind
	Lifecycles map[string]uint64 // events by lifecycle
	Statuses   map[string]uint64 // events by "<lifecycle>.<status>"
	States     map[string]uint64 // attempts by state
	Reasons    map[string]uint64 // parked leaves by reason
}

// Projection counts. It is not safe for concurrent use.
type Projection struct {
	counts map[string]uint64 // nil: not read yet
	dirty  bool
}

// New makes a projection.
func New() *Projection { return &Projection{} }

// Apply counts what a leaf turned out to be.
func (p *Projection) Apply(b *kv.Batch, f *receipts.Fact) error {
	if p.counts == nil {
		counts, err := read(b)
		if err != nil {
			return err
		}
		p.counts = counts
	}
	p.dirty = true
	if f.Parked != nil {
		p.counts[groupParked+"."+f.Parked.Reason]++
		return nil
	}
	r := f.Row
	p.counts[groupEvent+"."+string(r.Kind)+"."+string(r.Lifecycle)+"."+r.Status]++
	if r.ClockSkew {
		p.counts[nameSkew]++
	}
	if f.Before.State != f.After.State {
		if f.Before.State != "" {
			p.add(groupState+"."+f.Before.State, -1)
		}
		p.add(groupState+"."+f.After.State, 1)
	}
	return nil
}

// add keeps counters of zero out, so that the row depends on the leaves alone.
func (p *Projection) add(name string, n int) {
	if p.counts[name] += uint64(n); p.counts[name] == 0 {
		delete(p.counts, name)
	}
}

// Pending is how many rows and bytes Flush would write, never less.
func (p *Projection) Pending() (rows, bytes int) {
	if !p.dirty {
		return 0, 0
	}
	return 1, 64 * len(p.counts)
}

// Flush writes the counts.
func (p *Projection) Flush(b *kv.Batch) error {
	if !p.dirty {
		return nil
	}
	return b.Set(slices.Clone(key), encode(p.counts))
}

// Committed tells that what Flush wrote is in the database.
func (p *Projection) Committed() { p.dirty = false }

// Discard forgets everything that is not in the database.
func (p *Projection) Discard() { *p = Projection{} }

func encode(counts map[string]uint64) []byte {
	out := []byte{version}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = binary.AppendUvarint(kv.AppendString(out, name), counts[name])
	}
	return out
}

var errStats = fmt.Errorf("%w: it is no row of counts", kv.ErrDamaged)

func read(r receipts.Reader) (map[string]uint64, error) {
	b, err := r.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return map[string]uint64{}, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || b[0] != version {
		return nil, errStats
	}
	counts := map[string]uint64{}
	for b = b[1:]; len(b) > 0; {
		name, rest, ok := kv.CutString(b)
		n, size := binary.Uvarint(rest)
		if !ok || size <= 0 {
			return nil, errStats
		}
		counts[name], b = n, rest[size:]
	}
	return counts, nil
}

// Read returns the counts.
func Read(r receipts.Reader) (*Counts, error) {
	raw, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	c := &Counts{Kinds: map[string]uint64{}, Lifecycles: map[string]uint64{}, Statuses: map[string]uint64{},
		States: map[string]uint64{}, Reasons: map[string]uint64{}}
	for name, n := range raw {
		words := strings.Split(name, ".")
		switch {
		case words[0] == groupEvent && len(words) == 4:
			c.Receipts += n
			c.Kinds[words[1]] += n
			c.Lifecycles[words[2]] += n
			c.Statuses[words[2]+"."+words[3]] += n
		case words[0] == groupState && len(words) == 2:
			c.Attempts += n
			c.States[words[1]] += n
		case words[0] == groupParked && len(words) == 2:
			c.Parked += n
			c.Reasons[words[1]] += n
		case name == nameSkew:
			c.ClockSkew = n
		default:
			return nil, errStats
		}
	}
	return c, nil
}
