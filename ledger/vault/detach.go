package vault

import (
	"errors"
	"fmt"
	"log/slog"
)

// ErrOtherLog: the rows follow a log that is not the one that is there now; it was
// lost, and another was made in its place. It comes with [ErrForeign]. Only Open.
var ErrOtherLog = errors.New("the vault follows a log that is not there any more")

// Detach makes the vault in dir forget the log that it follows; its rows stay. Opened
// with an empty log afterwards, it gives that its rows. No Vault may be open on dir. It
// is durable when it returns, and may be repeated.
func Detach(dir string, log *slog.Logger) (err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db, err := openStore(dir, log)
	if err != nil {
		return fmt.Errorf("detach vault %s: %w", dir, err)
	}
	defer func() {
		if err = errors.Join(err, db.Close()); err != nil {
			err = fmt.Errorf("detach vault %s: %w", dir, err)
		}
	}()
	if err := dropKinds(db, rowShared, rowIndex); err != nil {
		return err
	}
	return db.Sync()
}
