// Package program says whether a program that an operator named may be started:
// one that holds a key, or that reads back what an action did.
package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

var (
	// ErrPath: the path is not absolute in its one spelling.
	ErrPath = errors.New("expected an absolute path without dot elements")
	// ErrUnsafe: it is no executable regular file, or somebody other than its
	// owner could exchange it.
	ErrUnsafe = errors.New("program is not safely kept")
)

// Check refuses a path that is not absolute, and a program that is a link, no
// executable regular file, or writable by group or others, itself or by its
// directory, unless that has the sticky bit (ATT-34). Otherwise the error wraps
// ErrPath, ErrUnsafe or that of the file system.
func Check(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("program %q: %w", path, ErrPath)
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("program %s: %w: expected an executable regular file, found %s; hint: give the path of the program itself", path, ErrUnsafe, fi.Mode())
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("program %s: %w: mode %04o lets group or others exchange it; hint: chmod go-w", path, ErrUnsafe, fi.Mode().Perm())
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if dir.Mode().Perm()&0o022 != 0 && dir.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("program %s: %w: its directory has mode %04o, in which group or others exchange files; hint: chmod go-w", path, ErrUnsafe, dir.Mode().Perm())
	}
	return nil
}
