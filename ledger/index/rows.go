package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"counterfoil/internal/durable"
	"counterfoil/ledger/event"
)

// Scope returns the attempt that holds a scope, "" if it is free.
func (x *Index) Scope(s event.Scope) (string, error) {
	x.mu.Lock()
	id, ok := x.dirty.scopes[s]
	if !ok {
		id, ok = x.flushing.scopes[s]
	}
	free, cursor := !ok && x.free.has(s), x.cursor
	x.mu.Unlock()
	if ok || free {
		return id, nil
	}
	v, err := x.get(append(append(make([]byte, 0, len(prefixScope)+len(s)), prefixScope...), s[:]...))
	if err != nil {
		return "", fmt.Errorf("look up a scope: %w", err)
	}
	if v == nil {
		x.mu.Lock()
		if x.cursor == cursor { // else somebody may have taken it meanwhile
			x.free.put(s)
		}
		x.mu.Unlock()
	}
	return string(v), nil
}

// Fresh tells that id was drawn at random just now, and not shown to anybody:
// no attempt has it. So it need not be looked for when its begin arrives.
func (x *Index) Fresh(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh.put(id)
}

// Attempt returns the row of an attempt, nil if there is none. The row must not
// be changed.
func (x *Index) Attempt(id string) (*Row, error) {
	x.mu.Lock()
	row := x.dirty.rows[id]
	if row == nil {
		row = x.flushing.rows[id]
	}
	if row == nil {
		row = x.clean.get(id)
	}
	fresh := row == nil && x.fresh.has(id)
	x.mu.Unlock()
	if row != nil || fresh {
		return row, nil
	}
	v, err := x.get(append(append(make([]byte, 0, len(prefixAtt)+len(id)), prefixAtt...), id...))
	if err != nil || v == nil {
		if err != nil {
			err = fmt.Errorf("look up attempt %s: %w", id, err)
		}
		return nil, err
	}
	row = new(Row)
	if err := row.unmarshal(v); err != nil {
		return nil, fmt.Errorf("attempt %s: %w (hint: stop, delete the index directory and start again; it is rebuilt from the stream)", id, err)
	}
	x.mu.Lock()
	x.clean.put(id, row)
	x.mu.Unlock()
	return row, nil
}

func (x *Index) get(key []byte) (v []byte, err error) {
	err = x.db.View(func(tx *badger.Txn) error {
		it, err := tx.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		v, err = it.ValueCopy(nil)
		return err
	})
	return v, err
}

// errNoSpace: too little is free to write; nothing was written.
var errNoSpace = errors.New("too little disk space for the index")

func (x *Index) checkFree() error {
	if x.cfg.MinFree == 0 {
		return nil
	}
	free, err := durable.FreeBytes(x.cfg.Dir)
	if err == nil && free < x.cfg.MinFree {
		err = fmt.Errorf("%w: %d bytes free in %s, %d needed", errNoSpace, free, x.cfg.Dir, x.cfg.MinFree)
	}
	return err
}

// write puts a layer into Badger, the cursor last: in one transaction, or in
// several if the disk was full for long and the layer has outgrown one. Rows
// ahead of the cursor are safe, see Flush.
func (x *Index) write(l layer, meta []byte) (err error) {
	tx := x.db.NewTransaction(true)
	defer func() { tx.Discard() }()
	set := func(key, v []byte) error {
		err := tx.Set(key, v)
		if !errors.Is(err, badger.ErrTxnTooBig) {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		tx = x.db.NewTransaction(true)
		return tx.Set(key, v)
	}
	for s, id := range l.scopes {
		if err := set(append(append(make([]byte, 0, 2+len(s)), prefixScope...), s[:]...), []byte(id)); err != nil {
			return err
		}
	}
	for id, row := range l.rows {
		v, err := row.marshal()
		if err != nil {
			return err
		}
		if err := set(append(append(make([]byte, 0, 2+len(id)), prefixAtt...), id...), v); err != nil {
			return err
		}
	}
	if meta != nil {
		if err := set(keyMeta, meta); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Flush writes all rows and the cursor.
func (x *Index) Flush() error {
	x.flushMu.Lock()
	defer x.flushMu.Unlock()
	x.mu.Lock()
	if len(x.flushing.rows) == 0 && len(x.flushing.scopes) == 0 {
		x.flushing, x.dirty = x.dirty, newLayer()
	} // else an earlier flush failed: write that layer first
	l, cursor, meta := x.flushing, x.cursor, x.metaLocked()
	if len(x.dirty.rows) > 0 || cursor == x.written {
		// The cursor is ahead of the layer that is written now, or in place.
		// Rows ahead of the cursor are safe: applied again, their events are
		// duplicates of themselves.
		meta = nil
	}
	x.mu.Unlock()
	if meta == nil && len(l.rows) == 0 {
		return nil
	}
	if err := x.checkFree(); err != nil {
		return err
	}
	if err := x.write(l, meta); err != nil {
		return fmt.Errorf("write index rows: %w", err)
	}
	x.mu.Lock()
	for id, row := range l.rows {
		x.clean.put(id, row)
	}
	x.flushing = newLayer()
	if meta != nil {
		x.written = cursor
	}
	x.mu.Unlock()
	return nil
}

func (x *Index) metaLocked() []byte {
	b := make([]byte, 0, 1+8+32+8*event.Shards)
	b = append(b, formatVersion)
	b = binary.BigEndian.AppendUint64(b, x.cursor)
	last := x.lastLocked()
	b = append(b, last[:]...)
	for _, s := range x.shards {
		b = binary.BigEndian.AppendUint64(b, s)
	}
	return b
}

var errRow = errors.New("index row is damaged")

func (r *Row) marshal() ([]byte, error) {
	b := binary.AppendUvarint(make([]byte, 0, 64+110*len(r.Seqs)), uint64(len(r.Seqs)))
	for _, s := range r.Seqs {
		b = binary.AppendUvarint(b, s)
	}
	return r.State.AppendBinary(b)
}

func (r *Row) unmarshal(b []byte) error {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > event.MaxRevision {
		return errRow
	}
	b = b[size:]
	r.Seqs = make([]uint64, n)
	for i := range r.Seqs {
		if r.Seqs[i], size = binary.Uvarint(b); size <= 0 {
			return errRow
		}
		b = b[size:]
	}
	if err := r.State.UnmarshalBinary(b); err != nil {
		return err
	}
	if len(r.State.Entries) != len(r.Seqs) {
		return errRow
	}
	return nil
}
