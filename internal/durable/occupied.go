//go:build linux || darwin

package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Occupied is the number of bytes that the regular files directly in dir take on
// the disk, at most limit: it stops looking there. Holes in files do not count.
// Files that vanish meanwhile count or do not; a directory that is not there
// takes nothing.
func Occupied(dir string, limit uint64) (uint64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var n uint64
	for _, e := range entries {
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && fi.Mode().IsRegular() {
			n += uint64(st.Blocks) * 512
		}
		if n >= limit {
			return limit, nil
		}
	}
	return n, nil
}
