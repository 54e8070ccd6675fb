// Package badgerdir looks at a directory of Badger before Badger does.
package badgerdir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// ErrDamaged: a table does not end as tables do.
var ErrDamaged = errors.New("a table is damaged")

const (
	// A table ends with its index, the length of that, a checksum and the length of
	// that; lengths are 4 bytes, most significant first.
	lengthSize = 4
	// maxChecksum is more than any checksum takes.
	maxChecksum = 64
)

// CheckTables is ErrDamaged with the name of a table in dir whose end cannot be read.
// Badger (v4.9.6) opens tables in goroutines of its own and takes these lengths as they
// are: zeros or garbage there, which a disk may leave behind that lost what was
// flushed, end the process. What the lengths point at has checksums, of which Badger
// itself makes errors. It reads eight bytes of each table that the manifest lists: what a
// kill left of others is deleted by Badger. Without a manifest there is nothing to look at.
func CheckTables(dir string) error {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return nil //nolint:nilerr // Badger says it better, or begins anew
	}
	defer f.Close()
	m, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir))
	if err != nil {
		return nil //nolint:nilerr // the same
	}
	for id := range m.Tables {
		if err := checkTable(filepath.Join(dir, fmt.Sprintf("%06d.sst", id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func checkTable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	left := fi.Size()
	length := func(what string, most int64) error {
		var b [lengthSize]byte
		if left -= lengthSize; left < 0 {
			return fmt.Errorf("%w: %s has %d bytes, too few for its %s", ErrDamaged, path, fi.Size(), what)
		}
		if _, err := f.ReadAt(b[:], left); err != nil {
			return err
		}
		n := int64(binary.BigEndian.Uint32(b[:]))
		if most = min(most, left); n < 1 || n > most {
			return fmt.Errorf("%w: the %s of %s has %d bytes, 1 to %d expected", ErrDamaged, what, path, n, most)
		}
		left -= n
		return nil
	}
	if err := length("checksum", maxChecksum); err != nil {
		return err
	}
	return length("index", fi.Size())
}
