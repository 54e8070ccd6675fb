package search

import (
	"context"
	"fmt"
	"math"
	"time"

	"counterfoil/projections/kv"
)

// Term asks for a value of a field.
type Term struct {
	Field Field
	Value string
}

// Range is a half-open range of occurredAt; a zero time is no bound.
type Range struct{ From, To time.Time }

// Empty reports whether the range bounds nothing.
func (r Range) Empty() bool { return r.From.IsZero() && r.To.IsZero() }

// Contains reports whether t is within the range.
func (r Range) Contains(t time.Time) bool {
	return (r.From.IsZero() || !t.Before(r.From)) && (r.To.IsZero() || t.Before(r.To))
}

func (r Range) overlaps(z zone) bool {
	return (r.From.IsZero() || z.max >= r.From.UnixMilli()) && (r.To.IsZero() || z.min < r.To.UnixMilli())
}

// Join yields, chunk by chunk, the indices that carry all terms and whose chunk
// reaches into a range of time. Its work is bounded by the chunks of the rarest
// term, or by all chunks without a term.
type Join struct {
	its     []*kv.Iter // one for each term, then the ranges of time
	terms   int
	rng     Range
	reverse bool
	next    uint64 // chunk to go on at
	done    bool
}

// NewJoin starts at the chunk of index, in index order or against it.
func NewJoin(s *kv.Snapshot, terms []Term, rng Range, index uint64, reverse bool) *Join {
	j := &Join{terms: len(terms), rng: rng, reverse: reverse, next: index >> ChunkBits}
	for _, t := range terms {
		j.its = append(j.its, s.Iter(postingPrefix(t.Field, t.Value), reverse))
	}
	if !rng.Empty() || len(terms) == 0 {
		j.its = append(j.its, s.Iter(zonePrefix, reverse))
	}
	return j
}

// Next returns the next chunk with candidates; ok is false at the end.
func (j *Join) Next(ctx context.Context) (chunk uint64, b Bits, ok bool, err error) {
	for !j.done {
		if err := ctx.Err(); err != nil {
			return 0, b, false, err
		}
		chunk, found, err := j.align()
		if err != nil || !found {
			j.done = true
			return 0, b, false, err
		}
		j.step(chunk)
		b, err := j.candidates()
		if err != nil {
			return 0, b, false, fmt.Errorf("chunk %d: %w", chunk, err)
		}
		if b.Count() > 0 {
			return chunk, b, true, nil
		}
	}
	return 0, b, false, nil
}

// align moves all iterators to the next chunk that all of them have.
func (j *Join) align() (chunk uint64, found bool, err error) {
	chunk = j.next
	for agreed := 0; agreed < len(j.its); {
		for _, it := range j.its {
			if !it.Seek(kv.AppendUint64(nil, chunk)) {
				return 0, false, nil
			}
			at, rest, ok := kv.CutUint64(it.Key())
			if !ok || len(rest) != 0 {
				return 0, false, errPosting
			}
			if at != chunk {
				chunk, agreed = at, 0
			}
			if agreed++; agreed == len(j.its) {
				break
			}
		}
	}
	return chunk, true, nil
}

func (j *Join) step(chunk uint64) {
	switch {
	case !j.reverse && chunk < math.MaxUint64:
		j.next = chunk + 1
	case j.reverse && chunk > 0:
		j.next = chunk - 1
	default:
		j.done = true
	}
}

func (j *Join) candidates() (b Bits, err error) {
	for i := range b {
		b[i] = math.MaxUint64
	}
	for i, it := range j.its {
		v, err := it.Value()
		if err != nil {
			return b, err
		}
		if i < j.terms {
			p, err := parseBits(v)
			if err != nil {
				return b, err
			}
			for w := range b {
				b[w] &= p[w]
			}
			continue
		}
		z, err := parseZone(v)
		if err != nil {
			return b, err
		}
		if !j.rng.overlaps(z) {
			return Bits{}, nil
		}
	}
	return b, nil
}
