package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sync makes durable everything whose call returned before Sync was called.
// Callers that arrive during a flush share the next one. If it fails, what the
// disk holds is unknown, and stays so even if a later flush succeeds, since the
// kernel forgets pages that it could not write: the vault fails for good.
//
// With a log ([Options.Replica]) what returned is durable in the log, and Sync has
// nothing to wait for.
func (v *Vault) Sync() error {
	if v.shared == nil {
		return v.flush()
	}
	err := v.enter()
	if err == nil {
		v.leave()
	}
	return err
}

// flush writes what was applied to the disk.
func (v *Vault) flush() error {
	if err := v.enter(); err != nil {
		return err
	}
	done := make(chan error, 1)
	v.flushes <- done
	v.leave()
	return <-done
}

// flushAll is the flusher.
func (v *Vault) flushAll() {
	for first := range v.flushes {
		waiting := []chan error{first}
	gather:
		for {
			select {
			case c, ok := <-v.flushes:
				if !ok {
					break gather
				}
				waiting = append(waiting, c)
			default:
				break gather
			}
		}
		err := v.failed()
		if err == nil {
			if err = v.wal.flush(); err != nil {
				err = v.fail("flush", err)
			}
		}
		for _, c := range waiting {
			c <- err
		}
	}
}

// walFlusher flushes Badger's write-ahead logs.
//
// Badger's own DB.Sync (v4.9.6) is not enough. It flushes the log of the memory
// table being written, but not those of full memory tables that wait to become
// tables on disk, and it never flushes the directory, so that a log that was
// flushed may have no name after a power loss. Therefore every log file in the
// directory is flushed here, and the directory whenever it shows a new name.
//
// A log that was full when it was flushed never changes again and is not
// flushed twice. A log that vanishes has become a table; Badger flushes table
// and manifest before it deletes the log, so only the directory is left to do.
//
// The logs are written through memory maps. On Linux fsync(2) and msync(2) end
// in the same flush of the file's pages, whoever wrote them.
type walFlusher struct {
	path string
	dir  *os.File
	full map[string]bool // full logs that are durable
	seen map[string]bool // names that are durable

	syncFile func(path string) error
	syncDir  func() error
}

func newWALFlusher(path string) (*walFlusher, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &walFlusher{
		path: path, dir: dir, full: map[string]bool{}, seen: map[string]bool{},
		syncFile: syncFile, syncDir: dir.Sync,
	}, nil
}

func (w *walFlusher) close() error { return w.dir.Close() }

func (w *walFlusher) flush() error {
	if _, err := w.dir.Seek(0, 0); err != nil {
		return err
	}
	names, err := w.dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	// Everything that must become durable is in these files, or in tables made
	// of them since: what was written before this call cannot be in a log that
	// is made after it.
	newest := -1
	logs := map[string]int{}
	newNames := false
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
		newNames = newNames || !w.seen[name]
		if base, ok := strings.CutSuffix(name, walSuffix); ok {
			n, err := strconv.Atoi(base)
			if err != nil {
				continue
			}
			logs[name] = n
			newest = max(newest, n)
		}
	}
	for name, n := range logs {
		if w.full[name] {
			continue
		}
		err := w.syncFile(filepath.Join(w.path, name))
		if errors.Is(err, fs.ErrNotExist) {
			newNames = true
			continue
		} else if err != nil {
			return err
		}
		if n < newest {
			w.full[name] = true
		}
	}
	if newNames {
		if err := w.syncDir(); err != nil {
			return err
		}
		w.seen = listed
	}
	for name := range w.full {
		if !listed[name] {
			delete(w.full, name)
		}
	}
	return nil
}

// syncFile flushes a log. The error is an [fs.ErrNotExist] if it is gone, and
// also if it is empty: Badger empties a log before it deletes it.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// Asked twice: a flush that is on its way while the file system gives up can be
	// answered as done though it was not (seen with ext4, once in fifty disks that
	// failed under load). The one after it is refused then, and has nothing to write.
	if err := errors.Join(f.Sync(), f.Sync()); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() == 0 {
		err = fmt.Errorf("%s is empty: %w", path, fs.ErrNotExist)
	}
	return err
}
