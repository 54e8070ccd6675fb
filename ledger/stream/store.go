package stream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"counterfoil/internal/durable"
)

// A server that cannot open a stream at its start deletes it, whatever the
// reason: a full disk, a file where a directory should be. So before every
// start there must be space, and the files with the messages get a second name
// (a hard link, which costs no space) until the stream is open.
const (
	storeName    = "jetstream" // what the server keeps below Config.Dir
	keptName     = "kept"      // second names of the files with messages
	salvagedName = "salvaged"  // a new store with these, until it is complete

	// startFree is how much of the disk must be free for a start.
	startFree = 4 << 20
)

func (e *embedded) path(names ...string) string {
	return filepath.Join(append([]string{e.cfg.Dir}, names...)...)
}

// messages is the directory with the messages of the stream in a store.
func (e *embedded) messages(store string) string {
	return e.path(store, account, "streams", e.cfg.Name, "msgs")
}

// hasStream tells whether the store has anything where the stream would be.
func (e *embedded) hasStream() bool {
	_, err := os.Lstat(filepath.Dir(e.messages(storeName)))
	return !errors.Is(err, fs.ErrNotExist)
}

// ready tells whether a server may start: there is space, and the directory
// takes a file.
func (e *embedded) ready() error {
	free, err := durable.FreeBytes(e.cfg.Dir)
	if err == nil && free < startFree {
		err = fmt.Errorf("no space left: %d bytes free in %s, %d needed", free, e.cfg.Dir, startFree)
	}
	if err == nil {
		err = durable.WriteFile(e.path(".probe"), make([]byte, 4096), 0o600)
	}
	if err == nil {
		err = durable.Remove(e.path(".probe"))
	}
	if err != nil {
		return unavailable("directory of the stream", err)
	}
	return nil
}

// keep gives the files with messages second names and returns how many there
// are. Names of a start that was cut off are used if the server had deleted the
// stream by then.
func (e *embedded) keep() (int, error) {
	kept := e.path(keptName)
	blocks, err := filepath.Glob(filepath.Join(escape(e.messages(storeName)), "*.blk"))
	if err != nil {
		return 0, fmt.Errorf("files of the stream: %w", err)
	}
	if len(blocks) == 0 {
		old, err := filepath.Glob(filepath.Join(escape(kept), "*.blk"))
		return len(old), err
	}
	if err := os.RemoveAll(kept); err != nil {
		return 0, fmt.Errorf("files of the stream: %w", err)
	}
	if err := durable.MkdirAll(kept, 0o700); err != nil {
		return 0, fmt.Errorf("files of the stream: %w", err)
	}
	n := 0
	for _, b := range blocks {
		fi, err := os.Lstat(b)
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		f, err := os.OpenFile(b, os.O_RDWR, 0)
		if err != nil {
			return 0, fmt.Errorf("files of the stream: %w (hint: give the directory to the user that runs the ledger)", err)
		}
		if err := errors.Join(f.Close(), os.Link(b, filepath.Join(kept, filepath.Base(b)))); err != nil {
			return 0, fmt.Errorf("files of the stream: %w", err)
		}
		n++
	}
	if err := durable.SyncDir(kept); err != nil {
		return 0, fmt.Errorf("files of the stream: %w", err)
	}
	return n, nil
}

// escape makes a path safe for a pattern of filepath.Glob.
func escape(path string) string {
	var out []rune
	for _, c := range path {
		switch c {
		case '*', '?', '[', '\\':
			out = append(out, '\\')
		}
		out = append(out, c)
	}
	return string(out)
}

// unkeep drops the second names once the stream is open.
func (e *embedded) unkeep() error {
	if err := os.RemoveAll(e.path(keptName)); err != nil {
		return fmt.Errorf("files of the stream: %w", err)
	}
	return nil
}

// setStoreAside moves a store that the server could not use out of the way and,
// with salvage, puts the files with messages into a new one: creating the
// stream there reads what is readable. What was moved stays for who wants to
// look; its files are the same as those of the new store.
func (e *embedded) setStoreAside(cause error, salvage bool) error {
	to := ""
	for n := 1; ; n++ {
		to = e.path(fmt.Sprintf("damaged-%d", n))
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil || n == 1000 {
			return fmt.Errorf("%w: it cannot be moved to %s: %w", cause, to, err)
		}
	}
	if err := durable.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("%w: move it away: %w", cause, err)
	}
	if err := durable.Rename(e.path(storeName), filepath.Join(to, storeName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: move it away: %w", cause, err)
	}
	e.damaged = to
	e.cfg.Logger.Error("the store of the stream was moved away", "reason", cause, "moved_to", to)
	if !salvage {
		return nil
	}
	if err := e.salvage(); err != nil {
		return fmt.Errorf("%w: salvage its messages: %w", cause, err)
	}
	return nil
}

// salvage makes a store of the files with messages. It is put in place as a
// whole: the server that was stopped may still be removing empty directories.
func (e *embedded) salvage() error {
	if err := os.RemoveAll(e.path(salvagedName)); err != nil {
		return err
	}
	to := e.messages(salvagedName)
	if err := durable.MkdirAll(to, 0o700); err != nil {
		return err
	}
	blocks, err := filepath.Glob(filepath.Join(escape(e.path(keptName)), "*.blk"))
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if err := os.Link(b, filepath.Join(to, filepath.Base(b))); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(to); err != nil {
		return err
	}
	return durable.Rename(e.path(salvagedName), e.path(storeName))
}
