//go:build linux || darwin

package durable

import (
	"fmt"
	"syscall"
)

// FreeBytes is the number of bytes that an unprivileged process may still
// write to the file system that holds path. Quotas of users or projects are
// not part of it. A store that writes through a memory map asks before it
// writes: on a full disk such a write kills the process (SIGBUS) instead of
// returning an error.
func FreeBytes(path string) (uint64, error) {
	free, _, err := Space(path)
	return free, err
}

// Space is FreeBytes, and the size in bytes of that file system.
func Space(path string) (free, size uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}
