package kv

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Limits of a batch. One Badger transaction takes 15 % of a memtable (1.2 MiB,
// about 12,000 rows); a writer stops at these and commits, and what one more
// leaf can add (an attempt row of 130 KiB, some twenty rows) still fits.
const (
	MaxBatchRows  = 6000
	MaxBatchBytes = 768 << 10
)

// Batch is a set of changes that becomes visible as a whole, together with the
// cursor up to which it goes, or not at all. It is not safe for concurrent use.
type Batch struct {
	d      *DB
	txn    *badger.Txn
	cursor Cursor
	done   bool
}

// Begin starts a batch; it blocks while another one is open. Commit or Discard
// must follow.
func (d *DB) Begin() (*Batch, error) {
	d.writer.Lock()
	if err := d.use(); err != nil {
		d.writer.Unlock()
		return nil, err
	}
	b := &Batch{d: d, txn: d.db.NewTransaction(true)}
	cursor, err := readCursor(b)
	if err != nil {
		b.Discard()
		return nil, err
	}
	b.cursor = cursor
	return b, nil
}

// Cursor is where the batch goes on: that of the last commit.
func (b *Batch) Cursor() Cursor { return b.cursor }

// Get returns the row of a key as of the start of the batch and its own changes;
// ErrNotFound if there is none. The value must not be changed and is valid until
// the batch ends. A row whose bytes changed on disk is ErrDamaged.
func (b *Batch) Get(key []byte) ([]byte, error) { return get(b.txn, key) }

// Set changes a row. Key and value belong to the batch from here on.
func (b *Batch) Set(key, value []byte) error {
	if len(value) > maxRow {
		return fmt.Errorf("%w: row %.20q of %d bytes, limit %d", ErrBatchTooLarge, key, len(value), maxRow)
	}
	return b.changed(key, b.txn.Set(key, seal(key, value)))
}

// Delete removes a row, if there is one. The key belongs to the batch.
func (b *Batch) Delete(key []byte) error { return b.changed(key, b.txn.Delete(key)) }

func (b *Batch) changed(key []byte, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, badger.ErrTxnTooBig):
		return fmt.Errorf("%w at row %.20q", ErrBatchTooLarge, key)
	}
	return fmt.Errorf("change row %.20q: %w", key, err)
}

// Commit makes the changes visible and moves the cursor. From its return on a
// kill of the process loses nothing; Open then finds rows and cursor as they
// are. After an error the changes may be there or not: read the cursor again.
func (b *Batch) Commit(c Cursor) error {
	defer b.Discard()
	if err := checkFree(b.d.cfg); err != nil {
		return err
	}
	if err := b.Set(keyCursor, c.append(nil)); err != nil {
		return err
	}
	c.Under = max(c.Under, c.Size)
	if err := b.Set(keyUnder, AppendUint64(nil, c.Under)); err != nil {
		return err
	}
	if err := b.txn.Commit(); err != nil {
		if errors.Is(err, badger.ErrTxnTooBig) {
			return ErrBatchTooLarge
		}
		return fmt.Errorf("commit the views at size %d: %w", c.Size, err)
	}
	b.d.under.Store(c.Under)
	return nil
}

// Discard drops the changes of a batch that was not committed.
func (b *Batch) Discard() {
	if b.done {
		return
	}
	b.done = true
	b.txn.Discard()
	b.d.release()
	b.d.writer.Unlock()
}

func get(txn *badger.Txn, key []byte) (v []byte, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read row %.20q: %w", key, err)
	}
	return unseal(item)
}
