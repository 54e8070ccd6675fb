package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"counterfoil/internal/badgerdir"
	"counterfoil/ledger/commit"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	memTableSize = 8 << 20
	// Badger admits 15 % of a memory table to one transaction, 1.2 MiB here;
	// a group of writes stays well below.
	maxGroupBytes = 512 << 10
	maxGroupOps   = 1024
	// walSuffix is how Badger calls the write-ahead log of a memory table.
	walSuffix = ".mem"
	// walHeader is the least length of a file of Badger's that holds anything.
	walHeader = 20
)

// openStore opens Badger small: every value is far below the value threshold
// (1 MiB), so the value log stays empty, and with it its garbage collection and
// its own rules of durability. Ciphertext does not compress, hence no
// compression and no block cache.
//
// Checksums are left to [Vault.Verify]. Checked at every read, Badger (v4.9.6)
// takes a damaged block for an absent one: a row in it is "not found", an older
// copy of it may show through, and a compaction drops it silently. Unchecked,
// damage to a value meets the seal and is [ErrCorrupt].
func openStore(dir string, log *slog.Logger) (*badger.DB, error) {
	if err := clearStubs(dir); err != nil {
		return nil, err
	}
	if err := badgerdir.CheckTables(dir); errors.Is(err, badgerdir.ErrDamaged) {
		return nil, fmt.Errorf("%w: %w; hint: restore the vault from a backup", ErrCorrupt, err)
	} else if err != nil {
		return nil, err
	}
	opts := badger.DefaultOptions(dir)
	opts.TableSizeMultiplier = 1 // a compaction sets aside twice the size of each table that it writes
	db, err := badger.Open(opts.
		WithLogger(quiet{log}).
		WithMetricsEnabled(false).
		WithSyncWrites(false). // see walFlusher
		WithDetectConflicts(false).
		WithMemTableSize(memTableSize).
		WithNumMemtables(2).
		WithNumLevelZeroTables(4).
		WithNumLevelZeroTablesStall(12).
		WithNumCompactors(2).
		WithValueLogFileSize(1 << 20).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(16 << 20).
		WithChecksumVerificationMode(options.NoVerification))
	if err != nil && strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return db, err
}

// clearStubs removes log files that hold nothing. Badger empties a log file
// before it deletes it, and makes a new one empty before it gives it its
// length; killed in between it refuses to open the directory for ever
// ("Create a new file"). Badger's own lock on the directory is held meanwhile:
// only a file of a dead process is a stub.
func clearStubs(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // and with it the lock
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("%w: %w", ErrInUse, err)
		}
		return fmt.Errorf("lock directory: %w", err)
	}
	for _, suffix := range []string{walSuffix, ".vlog"} {
		names, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+suffix))
		if err != nil {
			return err
		}
		for _, name := range names {
			fi, err := os.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
			if fi.Mode().IsRegular() && fi.Size() < walHeader {
				if err := os.Remove(name); err != nil {
					return fmt.Errorf("remove an empty log file: %w", err)
				}
			}
		}
	}
	return d.Sync()
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// checkFingerprint compares the seal key with the one the vault was made with;
// a new vault notes it.
func (v *Vault) checkFingerprint() error {
	given := commit.Fingerprint(v.seal.fingerprint)
	var noted string
	empty := true
	err := v.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		it.Rewind()
		empty = !it.Valid()
		it.Close()
		item, err := txn.Get([]byte{rowMeta})
		if err != nil {
			return err
		}
		return item.Value(func(val []byte) error {
			noted = string(val)
			return nil
		})
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound) && empty:
		o := &op{always: true, local: true, rows: []kv{{[]byte{rowMeta}, []byte(given)}}}
		return errors.Join(v.do(o), v.Sync())
	case errors.Is(err, badger.ErrKeyNotFound):
		return fmt.Errorf("%w: it holds rows but no fingerprint of a seal key; hint: some of what was flushed is gone, restore the vault from a backup", ErrCorrupt)
	case err != nil:
		return err
	case noted != given:
		return fmt.Errorf("%w: expected the key with fingerprint %.80q, got %s; hint: give back the tenant key that belongs to this data directory",
			ErrSealKey, noted, given)
	}
	return nil
}

// Verify reads every table of the store and checks its checksums; damage is
// [ErrCorrupt]. It takes about a second for a GiB and holds off Close. Damage
// to the name of a row can make the row seem absent, which only Verify tells.
func (v *Vault) Verify() error {
	if err := v.enter(); err != nil {
		return err
	}
	defer v.leave()
	if err := v.db.VerifyChecksum(); err != nil {
		return fmt.Errorf("verify vault %s: %w: %w", v.dir, ErrCorrupt, err)
	}
	return nil
}

// quiet passes Badger's warnings and errors on and drops its talk.
type quiet struct{ log *slog.Logger }

func (q quiet) Errorf(f string, args ...any)   { q.log.Error("vault store", "text", line(f, args)) }
func (q quiet) Warningf(f string, args ...any) { q.log.Warn("vault store", "text", line(f, args)) }
func (q quiet) Infof(string, ...any)           {}
func (q quiet) Debugf(string, ...any)          {}

func line(f string, args []any) string { return strings.TrimSpace(fmt.Sprintf(f, args...)) }

// MaxRewrite bounds what Badger writes on top of what lies in a vault's
// directory, in bytes. A compaction writes its input again before it deletes it,
// and a full memory table lies in its log and in its new table for a while: that
// is at most as much as there is, and in a large vault at most the tables of
// level 0 when they hold up writes (12 of 8 MiB), those of two levels that they
// meet, and a second compaction beside.
const MaxRewrite = 256 << 20

// spaceCheck asks for the free space once for every MiB written. What Badger may
// write by itself stays free beside the least.
type spaceCheck struct {
	dir     string
	min     uint64
	free    func(path string) (uint64, error)
	rewrite func(path string, limit uint64) (uint64, error)
	written int64 // since the last look; 0: look now
}

func (s *spaceCheck) admit(n int) error {
	if s.written == 0 || s.written > 1<<20 {
		free, err := s.free(s.dir)
		if err != nil {
			return err
		}
		rewrite, err := s.rewrite(s.dir, MaxRewrite)
		if err != nil {
			return err
		}
		if keep := s.min + rewrite; free < keep {
			s.written = 0
			return fmt.Errorf("%w: %d MiB free at %s, %d MiB needed; hint: free some space, nothing was lost",
				ErrNoSpace, free>>20, s.dir, keep>>20)
		}
		s.written = 0
	}
	s.written += int64(max(n, 1))
	return nil
}
