package rig

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// DiskUsage is what a part of the data directory takes on disk: blocks, since
// some files are sparse.
func DiskUsage(dir, part string) int64 {
	var n int64
	_ = filepath.WalkDir(filepath.Join(dir, part), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file that went away meanwhile counts nothing
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}
