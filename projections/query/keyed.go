package query

import (
	"bytes"
	"context"

	"counterfoil/projections/kv"
)

// keyedList is a list in the order of its rows' keys, whatever Page.Newest says.
type keyedList[T any] struct {
	bound  []byte // what its tokens are bound to
	prefix []byte
	start  []byte // where the first page begins
	// read makes a row, and says what becomes of it.
	read func(s *kv.Snapshot, key, value []byte) (T, verdict, error)
}

type verdict int

const (
	taken   verdict = iota
	leftOut         // it is not asked for
	beyond          // nor is anything that follows
)

// page reads a page, the size of the tree that it reflects, and the token of the next.
func (l *keyedList[T]) page(ctx context.Context, db *kv.DB, p Page) (rows []T, size uint64, next string, err error) {
	position, err := p.open(l.bound)
	if err != nil {
		return nil, 0, "", err
	}
	s, err := db.Snapshot()
	if err != nil {
		return nil, 0, "", err
	}
	defer s.Close()
	start := l.start
	if position != nil {
		start = position
	}
	it := s.Iter(l.prefix, false)
	var last []byte
	for ok := it.Seek(start); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return nil, 0, "", err
		}
		if position != nil && bytes.Equal(it.Key(), position) {
			continue // the last of the page before
		}
		b, err := it.Value()
		if err != nil {
			return nil, 0, "", err
		}
		row, v, err := l.read(s, it.Key(), b)
		if err != nil {
			return nil, 0, "", err
		}
		if v == leftOut {
			continue
		}
		if v == beyond {
			break
		}
		if len(rows) == p.Limit {
			next = token(l.bound, last)
			break
		}
		last = append(last[:0], it.Key()...)
		rows = append(rows, row)
	}
	return rows, s.Cursor().Size, next, nil
}
