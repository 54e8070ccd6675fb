package app

import (
	"fmt"
	"os"

	"counterfoil/internal/durable"
)

// maxOpenings is how many openings in a row may be cut off before the files are
// held to be the reason. One can be a kill at a bad moment.
const maxOpenings = 2

// openDerived opens a database that can be made again. Some damage to its files
// does not give an error but kills the process, in a goroutine of Badger's or by
// a signal, at every start anew. So openings that did not end well are
// counted, a byte each, in a file beside the directory; after two the directory
// is deleted.
func (l *Ledger) openDerived(dir string, open func() error) error {
	count := dir + ".opening"
	if fi, err := os.Stat(count); err == nil && fi.Size() >= maxOpenings {
		l.log.Warn("the process ended while it opened derived files; they are deleted and made again", "dir", dir, "times", fi.Size())
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("delete derived files: %w", err)
		}
	}
	f, err := os.OpenFile(count, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("count an opening: %w", err)
	}
	if _, err := f.Write([]byte{'x'}); err != nil {
		_ = f.Close()
		return fmt.Errorf("count an opening: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("count an opening: %w", err)
	}
	if err := open(); err != nil {
		// It counts: after an error Badger may still have goroutines that read
		// what is damaged, and take the process down a moment later.
		return err
	}
	if err := durable.Remove(count); err != nil {
		return fmt.Errorf("count an opening: %w", err)
	}
	return nil
}
