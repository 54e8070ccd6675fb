//go:build linux || darwin

package kv

import (
	"fmt"
	"syscall"
)

// freeBytes is what an unprivileged process may still write below path.
func freeBytes(path string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}
