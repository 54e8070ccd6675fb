package stream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"counterfoil/internal/durable"
)

// storeName is the directory that the server keeps below Config.Dir.
const storeName = "jetstream"

func (e *embedded) store() string { return filepath.Join(e.cfg.Dir, storeName) }

// hasStream tells whether the store has anything where the stream would be.
func (e *embedded) hasStream() bool {
	_, err := os.Lstat(filepath.Join(e.store(), account, "streams", e.cfg.Name))
	return !errors.Is(err, fs.ErrNotExist)
}

// setStoreAside moves a store that cannot be used out of the way, to a name
// beside it. It does so only if the store itself is at fault: a directory
// without rights or space would make a new store fail too.
func (e *embedded) setStoreAside(cause error) error {
	if err := e.usable(); err != nil {
		return errors.Join(cause, err)
	}
	for n := 1; ; n++ {
		to := filepath.Join(e.cfg.Dir, fmt.Sprintf("damaged-%d", n))
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			if err != nil || n == 1000 {
				return fmt.Errorf("%w: it cannot be moved to %s: %w", cause, to, err)
			}
			continue
		}
		if err := durable.Rename(e.store(), to); err != nil {
			return fmt.Errorf("%w: move it away: %w", cause, err)
		}
		e.damaged = to
		e.cfg.Logger.Error("the store of the stream was moved away and is made again from the log", "reason", cause, "moved_to", to)
		return nil
	}
}

// usable tells whether the directory takes a new file and everything in the
// store may be read.
func (e *embedded) usable() error {
	probe := filepath.Join(e.cfg.Dir, ".probe")
	if err := durable.WriteFile(probe, make([]byte, 4096), 0o600); err != nil {
		return fmt.Errorf("directory of the stream: %w", err)
	}
	if err := durable.Remove(probe); err != nil {
		return fmt.Errorf("directory of the stream: %w", err)
	}
	return filepath.WalkDir(e.store(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var f *os.File
			if f, err = os.Open(path); err == nil {
				err = f.Close()
			}
		}
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("store of the stream: %w (hint: give the directory to the user that runs the ledger)", err)
		}
		return nil
	})
}
