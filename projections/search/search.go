// Package search finds leaf indices by what their events carry.
//
// # Postings
//
// Leaf indices are cut into chunks of 256. For each chunk and each value of a
// field that occurs in it, one row tells which of the 256 carry the value:
//
//	x ‖ field ‖ string value ‖ chunk  →  low bytes of the indices, ascending, if
//	                                     fewer than 32; else a 256-bit map
//
// A row of its own for each event and field would cost seven keys an event; this
// costs well under one while values repeat, and the rows are the same however
// the leaves were cut into batches. Several fields are joined chunk by chunk
// (see Join), so that the rarest value bounds the work.
//
// An attempt stands at the leaf index of its first event. Its state changes: the
// index then moves from one posting to another, and a posting that becomes empty
// is deleted. Its tool and agent are those of the first event, so attempts need
// no further postings.
//
// # Time
//
// z ‖ chunk → the least and the greatest occurredAt of the chunk. occurredAt is a
// source's claim and orders nothing, but it mostly rises with the index, so that
// a range of time skips most chunks.
package search

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"counterfoil/projections/kv"
	"counterfoil/projections/receipts"
)

// Field is what a posting is about.
type Field byte

// Fields. All but State are about events.
const (
	Tool      Field = 't'
	Agent     Field = 'a'
	Runtime   Field = 'r'
	Status    Field = 's'
	Lifecycle Field = 'l'
	Kind      Field = 'k'
	State     Field = 'S' // of the attempt that begins at the index
)

// ChunkBits is the logarithm of the number of indices of a chunk.
const ChunkBits = 8

// Bits are indices of one chunk.
type Bits [4]uint64

func (b *Bits) set(i byte)      { b[i>>6] |= 1 << (i & 63) }
func (b *Bits) unset(i byte)    { b[i>>6] &^= 1 << (i & 63) }
func (b *Bits) has(i byte) bool { return b[i>>6]>>(i&63)&1 == 1 }

// Count is the number of indices.
func (b *Bits) Count() int {
	return bits.OnesCount64(b[0]) + bits.OnesCount64(b[1]) + bits.OnesCount64(b[2]) + bits.OnesCount64(b[3])
}

// Each yields the indices of a chunk in order, or against it, until yield
// returns false.
func (b *Bits) Each(chunk uint64, reverse bool, yield func(index uint64) bool) {
	for n := range 256 {
		i := byte(n)
		if reverse {
			i = 255 - i
		}
		if b.has(i) && !yield(chunk<<ChunkBits|uint64(i)) {
			return
		}
	}
}

// Clip keeps the indices of a chunk that are within [from, to).
func (b *Bits) Clip(chunk, from, to uint64) {
	for n := range 256 {
		if i := chunk<<ChunkBits | uint64(n); i < from || i >= to {
			b.unset(byte(n))
		}
	}
}

const mapFrom = 32 // a map takes 32 bytes, a list one byte an index

func (b *Bits) append(dst []byte) []byte {
	if b.Count() < mapFrom {
		for n := range 256 {
			if b.has(byte(n)) {
				dst = append(dst, byte(n))
			}
		}
		return dst
	}
	for _, w := range b {
		dst = kv.AppendUint64(dst, w)
	}
	return dst
}

var errPosting = fmt.Errorf("%w: it is no posting", kv.ErrDamaged)

func parseBits(v []byte) (b Bits, err error) {
	switch {
	case len(v) == mapFrom:
		for i := range b {
			b[i], v, _ = kv.CutUint64(v)
		}
		if b.Count() < mapFrom {
			return b, errPosting
		}
	case len(v) == 0 || len(v) > mapFrom:
		return b, errPosting
	default:
		for n, i := range v {
			if n > 0 && i <= v[n-1] {
				return b, errPosting
			}
			b.set(i)
		}
	}
	return b, nil
}

func postingPrefix(f Field, value string) []byte { return appendPrefix(nil, f, value) }

func appendPrefix(dst []byte, f Field, value string) []byte {
	return kv.AppendString(append(dst, 'x', byte(f)), value)
}

var zonePrefix = []byte{'z'}

type zone struct{ min, max int64 } // milliseconds

func (z zone) append(dst []byte) []byte {
	return kv.AppendUint64(kv.AppendUint64(dst, uint64(z.min)), uint64(z.max))
}

func parseZone(b []byte) (z zone, err error) {
	if len(b) != 16 {
		return z, fmt.Errorf("range of time: %w", errPosting)
	}
	lo, b, _ := kv.CutUint64(b)
	hi, _, _ := kv.CutUint64(b)
	return zone{int64(lo), int64(hi)}, nil
}

// posting is a decoded row of this package.
type posting struct {
	bits  Bits
	chunk uint64
	dirty bool
}

// Projection writes the rows of this package. It is not safe for concurrent use.
type Projection struct {
	postings map[string]*posting // by key
	zones    map[uint64]*zone    // by chunk, all dirty
	dirty    int
	bytes    int
	chunk    uint64 // the newest that was written to
	last     *zone  // of that chunk, as it is in the database
	key      []byte // of the posting that is looked up
}

// New makes an empty projection.
func New() *Projection {
	return &Projection{postings: map[string]*posting{}, zones: map[uint64]*zone{}}
}

// Apply takes over what a leaf turned out to be.
func (p *Projection) Apply(b *kv.Batch, f *receipts.Fact) error {
	r := f.Row
	if r == nil {
		return nil
	}
	for _, v := range []struct {
		f Field
		s string
	}{{Tool, r.Tool}, {Agent, r.Agent}, {Runtime, r.Runtime}, {Status, r.Status}, {Lifecycle, string(r.Lifecycle)}, {Kind, string(r.Kind)}} {
		if err := p.change(b, v.f, v.s, r.Index, true); err != nil {
			return err
		}
	}
	if f.Before.State != f.After.State {
		if f.Before.State != "" {
			if err := p.change(b, State, f.Before.State, f.Attempt.First(), false); err != nil {
				return err
			}
		}
		if err := p.change(b, State, f.After.State, f.Attempt.First(), true); err != nil {
			return err
		}
	}
	return p.widen(b, r.Index, r.OccurredAt)
}

func (p *Projection) change(b *kv.Batch, f Field, value string, index uint64, set bool) error {
	chunk := index >> ChunkBits
	p.key = kv.AppendUint64(appendPrefix(p.key[:0], f, value), chunk)
	key := p.key
	e := p.postings[string(key)]
	if e == nil {
		e = &posting{chunk: chunk}
		if chunk<<ChunkBits < b.Cursor().Size { // there are no rows beyond
			v, err := b.Get(key)
			if err == nil {
				e.bits, err = parseBits(v)
			}
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				return fmt.Errorf("posting %c %q of chunk %d: %w", f, value, chunk, err)
			}
		}
		p.postings[string(key)] = e
	}
	if !e.dirty {
		e.dirty = true
		p.dirty++
		p.bytes += len(key) + mapFrom
	}
	if set {
		e.bits.set(byte(index))
	} else {
		e.bits.unset(byte(index))
	}
	return nil
}

func (p *Projection) widen(b *kv.Batch, index uint64, occurred time.Time) error {
	ms, chunk := occurred.UnixMilli(), index>>ChunkBits
	z := p.zones[chunk]
	if z == nil {
		z = &zone{ms, ms}
		switch {
		case p.last != nil && p.chunk == chunk:
			*z = *p.last
		case chunk<<ChunkBits < b.Cursor().Size:
			v, err := b.Get(kv.AppendUint64(zonePrefix[:1:1], chunk))
			if err == nil {
				*z, err = parseZone(v)
			}
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				return fmt.Errorf("chunk %d: %w", chunk, err)
			}
		}
		p.zones[chunk] = z
	}
	z.min, z.max = min(z.min, ms), max(z.max, ms)
	p.chunk = chunk
	return nil
}

// Pending is how many rows and bytes Flush would write, never less.
func (p *Projection) Pending() (rows, bytes int) {
	return p.dirty + len(p.zones), p.bytes + 32*len(p.zones)
}

// Flush writes what is pending.
func (p *Projection) Flush(b *kv.Batch) error {
	for key, e := range p.postings {
		if !e.dirty {
			continue
		}
		var err error
		if e.bits.Count() == 0 {
			err = b.Delete([]byte(key))
		} else {
			err = b.Set([]byte(key), e.bits.append(nil))
		}
		if err != nil {
			return err
		}
	}
	for chunk, z := range p.zones {
		if err := b.Set(kv.AppendUint64(zonePrefix[:1:1], chunk), z.append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// Committed tells that what Flush wrote is in the database. Postings of the
// newest chunk stay, since the next leaves change them again.
func (p *Projection) Committed() {
	for key, e := range p.postings {
		if e.dirty = false; e.chunk != p.chunk {
			delete(p.postings, key)
		}
	}
	if z := p.zones[p.chunk]; z != nil {
		p.last = z
	}
	p.zones, p.dirty, p.bytes = map[uint64]*zone{}, 0, 0
}

// Discard forgets everything that is not in the database.
func (p *Projection) Discard() { *p = *New() }
