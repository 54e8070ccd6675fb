package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gofrs/flock"
)

const currentFile = "current"

var generationName = regexp.MustCompile(`^gen-[0-9]{8}$`)

// currentGeneration returns the name in DIR/current, "" if there is none. A file
// that holds anything else counts as none: what it named is derived.
func currentGeneration(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read which views are current: %w", err)
	}
	name := strings.TrimSuffix(string(b), "\n")
	if !generationName.MatchString(name) {
		return "", nil
	}
	if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return name, nil
}

func nextGeneration(name string) string {
	var n int
	_, _ = fmt.Sscanf(name, "gen-%d", &n) // 0 if there is none
	return fmt.Sprintf("gen-%08d", (n+1)%100_000_000)
}

// setCurrent is the commit point of a rebuild: a crash before the rename leaves
// the old generation current, one after it the new.
func setCurrent(dir, name string) error {
	parent, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("make views current: %w", err)
	}
	defer parent.Close()
	tmp := filepath.Join(dir, currentFile+".tmp")
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make views current: %w", err)
	}
	_, err = f.WriteString(name + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, currentFile))
	}
	if err == nil {
		err = parent.Sync()
	}
	if err != nil {
		return fmt.Errorf("make views current: %w", err)
	}
	return nil
}

// removeOthers deletes every generation but one.
func removeOthers(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list generations: %w", err)
	}
	for _, e := range entries {
		if e.Name() != keep && generationName.MatchString(e.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove old views: %w", err)
			}
		}
	}
	return nil
}

// openingFile counts openings that did not come to an end. Badger panics in
// goroutines of its own on some damaged files, which nobody can recover from; a
// generation that took the process down that often is given up.
const (
	openingFile  = "opening"
	openingTries = 3
)

// startOpening counts one more try and reports how many went wrong before.
func startOpening(dir string) (failed int, err error) {
	path := filepath.Join(dir, openingFile)
	if b, err := os.ReadFile(path); err == nil {
		failed = len(b)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", min(failed, openingTries)+1)), 0o600); err != nil {
		return failed, fmt.Errorf("note that views are being opened: %w", err)
	}
	return failed, nil
}

func endOpening(dir string) error {
	if err := os.Remove(filepath.Join(dir, openingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note that views were opened: %w", err)
	}
	return nil
}

// Building is a generation that is filled beside the current one.
type Building struct {
	// DB is empty at first and the caller's to fill; Swap closes it.
	DB   *DB
	dir  string
	lock *flock.Flock
}

// Build starts a generation beside the current one, which stays as it is until
// Swap. The directory is locked: no server may have it open.
func Build(cfg Config) (*Building, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	name, err := currentGeneration(cfg.Dir)
	if err == nil {
		err = removeOthers(cfg.Dir, name)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	db, err := createGeneration(cfg, nextGeneration(name))
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return &Building{DB: db, dir: cfg.Dir, lock: lock}, nil
}

// Swap closes the new generation, which puts its rows on disk, makes it the
// current one and removes the old.
func (b *Building) Swap() error {
	defer func() { _ = b.lock.Unlock() }() // the lock ends with the process at the latest
	if err := b.DB.Close(); err != nil {
		return err
	}
	if err := setCurrent(b.dir, b.DB.name); err != nil {
		return err
	}
	// From here on the new views are the ones that Open finds; a crash leaves
	// only files for Open to remove.
	return removeOthers(b.dir, b.DB.name)
}

// Abandon removes the new generation and leaves the current one in place.
func (b *Building) Abandon() error {
	err := b.DB.Close()
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(b.dir, b.DB.name)), b.lock.Unlock())
}
