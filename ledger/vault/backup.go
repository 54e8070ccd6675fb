package vault

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"counterfoil/internal/durable"

	"github.com/dgraph-io/badger/v4"
)

// Backup writes the rows of the vault to w, sealed as they are: everything whose
// Put returned before the call, or, with since, what came after the Backup that
// returned it. It returns what to give as since the next time. It may run beside
// everything else, and holds off Close.
func (v *Vault) Backup(w io.Writer, since uint64) (next uint64, err error) {
	if err := v.enter(); err != nil {
		return 0, err
	}
	defer v.leave()
	next, err = v.db.Backup(w, since)
	if err != nil {
		return 0, fmt.Errorf("back up vault %s: %w", v.dir, err)
	}
	return max(next, since), nil
}

// Restore makes a vault in dir, which must be empty or missing, from what Backup
// wrote: a whole backup, then those that continue it, in order. Rows are not
// opened: [Open] tells whether the seal key fits. It is durable when it returns.
// The vault has no log yet; to go on with the one of other nodes, let it be filled
// from that instead of a backup.
func Restore(dir string, log *slog.Logger, backups ...io.Reader) (err error) {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("restore vault: %w", err)
	}
	db, err := openStore(dir, log)
	if err != nil {
		return fmt.Errorf("restore vault %s: %w", dir, err)
	}
	defer func() {
		if err = errors.Join(err, db.Close()); err != nil {
			err = fmt.Errorf("restore vault %s: %w", dir, err)
		}
	}()
	for _, r := range backups {
		if err := db.Load(r, 64); err != nil {
			return err
		}
	}
	// The rows begin a life of their own: whatever log they followed, it may be
	// gone, or have gone on without them.
	if err := dropKinds(db, rowShared, rowIndex); err != nil {
		return err
	}
	return db.Sync()
}

// dropKinds deletes all rows of some kinds.
func dropKinds(db *badger.DB, kinds ...byte) error {
	batch := db.NewWriteBatch()
	defer batch.Cancel()
	err := db.View(func(txn *badger.Txn) error {
		for _, kind := range kinds {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				if err := batch.Delete(it.Item().KeyCopy(nil)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return batch.Flush()
}
