// Package durable changes files so that a crash leaves the old state or the
// new one, and a change that was reported as done survives a power loss (on
// hardware that honours flushes).
//
// # Contract
//
// A function that returns nil has made its change durable: the bytes are
// flushed, and so is the directory entry that names them. A function that
// returns an error has either changed nothing or changed everything; a reader
// never sees half a file. After an error the caller cannot know which of the
// two a later power loss will leave, so it repeats the call or stops; it never
// carries on as if nothing had been asked.
//
// The parent directory is opened before the change and stays open until it has
// been flushed: a write-back error is reported only to descriptors that were
// open when it happened, so a directory opened afterwards could be flushed
// "successfully" although the entry was lost. Holding it open also pins the
// directory: a rename of a parent half-way cannot send the two halves of a
// change to two places.
//
// A crash can leave a file ".NAME.RANDOM.tmp" with the permissions of NAME.
// Nothing reads such a file and it may be deleted.
//
// All functions may be called concurrently. Two concurrent writers of one path
// leave the whole content of one of them. The last element of a path is never
// followed when it is a symbolic link: [WriteFile] replaces the link itself.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile puts data at path, replacing what is there, with exactly the
// permission bits of perm whatever the umask says. The parent directory must
// exist. Until the rename path holds its old content, from then on the new.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return disk{run}.writeFile(path, data, perm)
}

// Create is [WriteFile] for a path that must not exist yet: if it does, the
// error is an [fs.ErrExist] and the existing file is untouched. It needs a
// file system with hard links, since only link(2) puts a finished file in
// place without ever replacing another one.
func Create(path string, data []byte, perm fs.FileMode) error {
	return disk{run}.create(path, data, perm)
}

// Remove deletes the file or empty directory at path. If nothing is there the
// error is an [fs.ErrNotExist]; the directory is flushed all the same, because
// an earlier call may have been cut off between the two.
func Remove(path string) error { return disk{run}.remove(path) }

// Rename moves a file or a directory, within one file system, and flushes both
// parent directories. Replacing follows rename(2): a file replaces a file, a
// directory an empty directory.
func Rename(oldPath, newPath string) error { return disk{run}.rename(oldPath, newPath) }

// MkdirAll makes path and the parents that are missing, each with the
// permission bits of perm less the umask, and flushes every directory that
// received an entry. A directory that exists keeps its permissions; its parent
// is flushed nevertheless where it can be read, because the run that made it
// may have been cut off before its flush.
func MkdirAll(path string, perm fs.FileMode) error { return disk{run}.mkdirAll(path, perm) }

// SyncDir flushes the entries of a directory.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open directory to flush it: %w", err)
	}
	defer dir.Close()
	return disk{run}.syncDir(dir)
}

// step names one operation on the disk, in the order in which a change makes
// them.
type step string

const (
	stepCreate   step = "create temporary file"
	stepWrite    step = "write temporary file"
	stepSyncFile step = "flush temporary file"
	stepRename   step = "rename into place"
	stepLink     step = "link into place"
	stepRemove   step = "remove"
	stepMkdir    step = "make directory"
	stepSyncDir  step = "flush directory"
)

// disk makes every step through do, so that a test can let one fail, before or
// after it took effect.
type disk struct {
	do func(s step, path string, op func() error) error
}

func run(_ step, _ string, op func() error) error { return op() }

// parent is an open directory and the name of an entry in it.
type parent struct {
	root *os.Root // for operations relative to the directory
	dir  *os.File // the same directory, to flush it
	base string
}

func openParent(path string) (*parent, error) {
	path = filepath.Clean(path)
	base := filepath.Base(path)
	if base == "." || base == ".." || base == string(filepath.Separator) {
		return nil, fmt.Errorf("path %q names no entry of a directory", path)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("open parent directory of %s: %w", path, err)
	}
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("open parent directory of %s: %w", path, err)
	}
	return &parent{root: root, dir: dir, base: base}, nil
}

func (p *parent) close() {
	p.dir.Close()
	p.root.Close()
}

func (d disk) syncDir(dir *os.File) error {
	if err := d.do(stepSyncDir, dir.Name(), dir.Sync); err != nil {
		return fmt.Errorf("flush directory %s: %w", dir.Name(), err)
	}
	return nil
}

// writeTemp leaves a flushed file with data beside p.base and returns its
// name. On an error it leaves nothing.
func (d disk) writeTemp(p *parent, data []byte, perm fs.FileMode) (_ string, err error) {
	name := "." + p.base + "." + rand.Text() + ".tmp"
	var f *os.File
	err = d.do(stepCreate, name, func() (err error) {
		f, err = p.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if f != nil {
		defer func() {
			if cerr := f.Close(); err == nil && cerr != nil {
				err = cerr
			}
			if err != nil {
				_ = p.root.Remove(name)
			}
		}()
	}
	if err != nil {
		return "", err
	}
	err = d.do(stepWrite, name, func() error {
		if err := f.Chmod(perm.Perm()); err != nil {
			return err
		}
		_, err := f.Write(data)
		return err
	})
	if err != nil {
		return "", err
	}
	return name, d.do(stepSyncFile, name, f.Sync)
}

func (d disk) writeFile(path string, data []byte, perm fs.FileMode) error {
	p, err := openParent(path)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer p.close()
	tmp, err := d.writeTemp(p, data, perm)
	if err != nil {
		return fmt.Errorf("write file %s: %w", path, err)
	}
	// The commit point is this rename with the flush below: a crash before it
	// leaves the old content and a temporary file, a crash after it the new.
	err = d.do(stepRename, path, func() error { return p.root.Rename(tmp, p.base) })
	if err != nil {
		_ = p.root.Remove(tmp)
		return fmt.Errorf("write file %s: %w", path, err)
	}
	if err := d.syncDir(p.dir); err != nil {
		return fmt.Errorf("write file %s: it is in place but may not survive a power loss: %w", path, err)
	}
	return nil
}

func (d disk) create(path string, data []byte, perm fs.FileMode) error {
	p, err := openParent(path)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	defer p.close()
	if _, err := p.root.Lstat(p.base); err == nil {
		return fmt.Errorf("create file %s: %w", path, fs.ErrExist)
	}
	tmp, err := d.writeTemp(p, data, perm)
	if err != nil {
		return fmt.Errorf("create file %s: %w", path, err)
	}
	err = d.do(stepLink, path, func() error { return p.root.Link(tmp, p.base) })
	rerr := p.root.Remove(tmp)
	if err != nil {
		return fmt.Errorf("create file %s: %w", path, err)
	}
	if err := errors.Join(d.syncDir(p.dir), rerr); err != nil {
		return fmt.Errorf("create file %s: it is in place but may not survive a power loss: %w", path, err)
	}
	return nil
}

func (d disk) remove(path string) error {
	p, err := openParent(path)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer p.close()
	err = d.do(stepRemove, path, func() error { return p.root.Remove(p.base) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if serr := d.syncDir(p.dir); serr != nil {
		return fmt.Errorf("remove %s: it is gone but may come back after a power loss: %w", path, serr)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

func (d disk) rename(oldPath, newPath string) error {
	from, err := openParent(oldPath)
	if err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	defer from.close()
	to, err := openParent(newPath)
	if err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	defer to.close()
	// Two directories, so by path: os.Root cannot rename out of itself.
	err = d.do(stepRename, newPath, func() error { return os.Rename(oldPath, newPath) })
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", oldPath, newPath, err)
	}
	// The new name first: a power loss between the two flushes may leave both
	// names or the new one, never none.
	if err := d.syncDir(to.dir); err != nil {
		return fmt.Errorf("rename %s to %s: %w", oldPath, newPath, err)
	}
	if filepath.Dir(filepath.Clean(oldPath)) == filepath.Dir(filepath.Clean(newPath)) {
		return nil
	}
	if err := d.syncDir(from.dir); err != nil {
		return fmt.Errorf("rename %s to %s: %w", oldPath, newPath, err)
	}
	return nil
}

func (d disk) mkdirAll(path string, perm fs.FileMode) error {
	path = filepath.Clean(path)
	up := filepath.Dir(path)
	if fi, err := os.Stat(path); err == nil {
		if !fi.IsDir() {
			return fmt.Errorf("make directory %s: expected a directory, found a file", path)
		}
		if up == path || path == "." || path == ".." {
			return nil
		}
		err := d.syncPath(up)
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	if up != path {
		if err := d.mkdirAll(up, perm); err != nil {
			return err
		}
	}
	dir, err := os.Open(up)
	if err != nil {
		return fmt.Errorf("make directory %s: %w", path, err)
	}
	defer dir.Close()
	err = d.do(stepMkdir, path, func() error { return os.Mkdir(path, perm.Perm()) })
	if errors.Is(err, fs.ErrExist) { // another caller was faster
		if fi, serr := os.Stat(path); serr == nil && fi.IsDir() {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("make directory %s: %w", path, err)
	}
	return d.syncDir(dir)
}

func (d disk) syncPath(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open directory to flush it: %w", err)
	}
	defer dir.Close()
	return d.syncDir(dir)
}
