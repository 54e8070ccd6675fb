package vault

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"counterfoil/internal/durable"
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
	return db.Sync()
}
