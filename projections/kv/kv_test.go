package kv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

const childDir = "KV_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" { // see TestLOG05_ViewsThatKillTheProcess…
		db, err := Open(config(dir))
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m, // Badger leaves these behind when it fails to open
		goleak.IgnoreTopFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"))
}

func config(dir string) Config {
	return Config{Dir: dir, Origin: "ledger.example", Tenant: "default", Schema: 1}
}

func open(t testing.TB, cfg Config) *DB {
	t.Helper()
	db, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test may have closed it
	return db
}

func begin(t testing.TB, db *DB) *Batch {
	t.Helper()
	b, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func snapshot(t testing.TB, db *DB) *Snapshot {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func set(t testing.TB, b *Batch, key, value string) {
	t.Helper()
	if err := b.Set([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, b *Batch, size uint64) {
	t.Helper()
	c := Cursor{Size: size, Root: sha256.Sum256([]byte{byte(size)})}
	for range len(fmt.Sprintf("%b", size)) - len(strings.ReplaceAll(fmt.Sprintf("%b", size), "1", "")) {
		c.Hashes = append(c.Hashes, sha256.Sum256([]byte("node")))
	}
	if err := b.Commit(c); err != nil {
		t.Fatal(err)
	}
}

// all is the rows of an iteration, as "key=value".
func all(t testing.TB, s *Snapshot, prefix, from string, reverse bool) (out []string) {
	t.Helper()
	it := s.Iter([]byte(prefix), reverse)
	ok := it.First()
	if from != "" {
		ok = it.Seek([]byte(from))
	}
	for ; ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(it.Key())+"="+string(v))
	}
	return out
}

// rows is all in a snapshot of its own.
func rows(t testing.TB, db *DB, prefix string) []string {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return all(t, s, prefix, "", false)
}

func TestLOG05_BatchAndCursorBecomeVisibleTogether(t *testing.T) {
	db := open(t, config(t.TempDir()))
	before := snapshot(t, db)
	b := begin(t, db)
	set(t, b, "k1", "a")
	set(t, b, "k2", "b")
	set(t, b, "k1", "c")
	if v, err := b.Get([]byte("k1")); err != nil || string(v) != "c" {
		t.Errorf("own write: %q, %v", v, err)
	}
	during := snapshot(t, db)
	commit(t, b, 5)
	after := snapshot(t, db)
	for name, s := range map[string]*Snapshot{"before": before, "during": during} {
		if _, err := s.Get([]byte("k1")); !errors.Is(err, ErrNotFound) || s.Cursor().Size != 0 {
			t.Errorf("%s: %v at size %d", name, err, s.Cursor().Size)
		}
	}
	if v, err := after.Get([]byte("k1")); err != nil || string(v) != "c" || after.Cursor().Size != 5 || len(after.Cursor().Hashes) != 2 {
		t.Errorf("after: %q, %v, cursor %+v", v, err, after.Cursor())
	}
	b = begin(t, db)
	if b.Cursor().Size != 5 {
		t.Errorf("the next batch goes on at %d", b.Cursor().Size)
	}
	set(t, b, "k3", "x")
	if err := b.Delete([]byte("k1")); err != nil {
		t.Fatal(err)
	}
	b.Discard()
	b.Discard() // once more is harmless
	if got := rows(t, db, "k"); !slices.Equal(got, []string{"1=c", "2=b"}) {
		t.Errorf("a discarded batch shows: %v", got)
	}
}

// TestLOG05_ABatchIsNeverSplit: what does not fit one transaction is refused as a
// whole, and the limits that writers keep do fit.
func TestLOG05_ABatchIsNeverSplit(t *testing.T) {
	db := open(t, config(t.TempDir()))
	fill := func(rows, size int) error {
		b := begin(t, db)
		defer b.Discard()
		for i := range rows {
			if err := b.Set(fmt.Appendf(nil, "%030d", i), make([]byte, size)); err != nil {
				return err
			}
		}
		return b.Commit(Cursor{})
	}
	// A writer stops at a limit; one leaf more may add an attempt row and others.
	if err := fill(MaxBatchRows+30, 40); err != nil {
		t.Errorf("many rows: %v", err)
	}
	if err := fill(5, MaxBatchBytes/5+30<<10); err != nil {
		t.Errorf("many bytes: %v", err)
	}
	for name, f := range map[string]func() error{
		"rows":  func() error { return fill(20000, 1) },
		"bytes": func() error { return fill(30, 64<<10) },
		"row":   func() error { return fill(1, maxRow+1) },
	} {
		if err := f(); !errors.Is(err, ErrBatchTooLarge) {
			t.Errorf("%s: %v, want ErrBatchTooLarge", name, err)
		}
	}
	if got := len(rows(t, db, "0")); got != MaxBatchRows+30 {
		t.Errorf("%d rows, want %d: a refused batch left some", got, MaxBatchRows+30)
	}
}

func TestLOG05_IteratorsStayWithinTheirPrefix(t *testing.T) {
	db := open(t, config(t.TempDir()))
	b := begin(t, db)
	for _, k := range []string{"a1", "b1", "b3", "b5", "b\xff\xff", "c1"} {
		set(t, b, k, k)
	}
	commit(t, b, 1)
	b = begin(t, db)
	set(t, b, "b3", "new") // a second version
	if err := b.Delete([]byte("b5")); err != nil {
		t.Fatal(err)
	}
	commit(t, b, 2)
	s := snapshot(t, db)
	for _, tc := range []struct {
		prefix, from string
		reverse      bool
		want         []string
	}{
		{"b", "", false, []string{"1=b1", "3=new", "\xff\xff=b\xff\xff"}},
		{"b", "", true, []string{"\xff\xff=b\xff\xff", "3=new", "1=b1"}},
		{"b", "2", false, []string{"3=new", "\xff\xff=b\xff\xff"}},
		{"b", "2", true, []string{"1=b1"}},
		{"b", "3", true, []string{"3=new", "1=b1"}},
		{"b", "0", true, nil},
		{"d", "", false, nil},
		{"d", "", true, nil},
	} {
		if d := cmp.Diff(tc.want, all(t, s, tc.prefix, tc.from, tc.reverse)); d != "" {
			t.Errorf("%q from %q reverse %v: %s", tc.prefix, tc.from, tc.reverse, d)
		}
	}
}

// TestLOG05_DigestIsThatOfTheSortedRows computes the digest by hand.
func TestLOG05_DigestIsThatOfTheSortedRows(t *testing.T) {
	db := open(t, config(t.TempDir()))
	b := begin(t, db)
	set(t, b, "z", "")
	set(t, b, "a", "value")
	set(t, b, string(NoteKey([]byte("a"))), "outside")
	commit(t, b, 0)
	h := sha256.New()
	lp := func(b []byte) { _ = binary.Write(h, binary.BigEndian, uint64(len(b))); h.Write(b) }
	cursor := Cursor{Root: sha256.Sum256([]byte{0})}
	for _, row := range [][2]string{{"a", "value"}, {"c", string(cursor.append(nil))}, {"z", ""}} {
		lp([]byte(row[0]))
		lp([]byte(row[1]))
	}
	got, err := snapshot(t, db).Digest(t.Context(), 0)
	if err != nil || !bytes.Equal(got[:], h.Sum(nil)) {
		t.Errorf("digest %x, want %x, %v", got, h.Sum(nil), err)
	}
	_, err = snapshot(t, db).Digest(t.Context(), 1)
	var size *SizeError
	if !errors.As(err, &size) {
		t.Errorf("at another size: %v", err)
	}
}

func TestLOG05_FullDiskIsAnErrorAndNothingIsWritten(t *testing.T) {
	cfg := config(t.TempDir())
	db := open(t, cfg)
	b := begin(t, db)
	set(t, b, "k", "v")
	db.cfg.MinFree = math.MaxUint64
	if err := b.Commit(Cursor{}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("got %v, want ErrDiskFull", err)
	}
	if got := rows(t, db, "k"); got != nil {
		t.Errorf("rows %v", got)
	}
	db.cfg.MinFree = 0
	b = begin(t, db)
	set(t, b, "k", "v")
	commit(t, b, 1)
	_ = db.Close()
	cfg.MinFree = math.MaxUint64
	if _, err := Open(cfg); !errors.Is(err, ErrDiskFull) {
		t.Errorf("open on a full disk: %v", err)
	}
	db = open(t, config(cfg.Dir))
	if c, err := db.Cursor(); err != nil || c.Size != 1 {
		t.Errorf("cursor %+v, %v: views were lost to a full disk", c, err)
	}
}

func TestLOG05_OneOwnerAtATime(t *testing.T) {
	dir := t.TempDir()
	db := open(t, config(dir))
	if _, err := Open(config(dir)); !errors.Is(err, ErrInUse) {
		t.Errorf("second open: %v", err)
	}
	if _, err := Build(config(dir)); !errors.Is(err, ErrInUse) {
		t.Errorf("build beside an open one: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if _, err := db.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("snapshot of a closed database: %v", err)
	}
	if _, err := db.Begin(); !errors.Is(err, ErrClosed) {
		t.Errorf("batch of a closed database: %v", err)
	}
	open(t, config(dir))
}

// TestLOG05_CloseWaitsForReaders: memory that a snapshot reads is never unmapped.
func TestLOG05_CloseWaitsForReaders(t *testing.T) {
	db := open(t, config(t.TempDir()))
	b := begin(t, db)
	set(t, b, "k", "v")
	commit(t, b, 1)
	s := snapshot(t, db)
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	for { // until Close has begun
		if s, err := db.Snapshot(); err != nil {
			break
		} else {
			s.Close()
		}
	}
	select {
	case <-closed:
		t.Fatal("closed under a reader")
	default:
	}
	if v, err := s.Get([]byte("k")); err != nil || string(v) != "v" {
		t.Errorf("read while closing: %q, %v", v, err)
	}
	s.Close()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

func TestLOG05_GenerationsSwapAtOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(db *DB, value string, size uint64) {
		b := begin(t, db)
		set(t, b, "k", value)
		commit(t, b, size)
	}
	db := open(t, config(dir))
	write(db, "old", 1)
	_ = db.Close()
	read := func() (value string, gens []string) {
		db := open(t, config(dir))
		defer db.Close()
		s := snapshot(t, db)
		defer s.Close()
		v, err := s.Get([]byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		gens, err = filepath.Glob(filepath.Join(dir, "gen-*"))
		if err != nil {
			t.Fatal(err)
		}
		return string(v), gens
	}
	// Abandoned.
	b, err := Build(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	write(b.DB, "new", 2)
	if err := b.Abandon(); err != nil {
		t.Fatal(err)
	}
	if v, gens := read(); v != "old" || len(gens) != 1 {
		t.Errorf("after Abandon: %q, %v", v, gens)
	}
	// Lost before the swap, as by a kill.
	b, err = Build(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	write(b.DB, "new", 2)
	_, _ = b.DB.Close(), b.lock.Unlock()
	if v, gens := read(); v != "old" || len(gens) != 1 {
		t.Errorf("after a kill: %q, %v", v, gens)
	}
	// Swapped.
	b, err = Build(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	write(b.DB, "new", 2)
	if err := b.Swap(); err != nil {
		t.Fatal(err)
	}
	if gens, err := filepath.Glob(filepath.Join(dir, "gen-*")); err != nil || len(gens) != 1 {
		t.Errorf("Swap left %v, %v", gens, err)
	}
	if v, gens := read(); v != "new" || len(gens) != 1 {
		t.Errorf("after Swap: %q, %v", v, gens)
	}
}

func TestPRV15_ViewsAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "views")
	open(t, config(dir))
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && d.IsDir() && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLOG05_EncodedStringsKeepOrderAndAreNoPrefixes(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0xFE, 0xFF}), 0, 6).Draw(t, "bytes"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, rest := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "rest")
		ea, eb := AppendString(nil, a), AppendString(nil, b)
		if got, want := bytes.Compare(ea, eb), strings.Compare(a, b); got != want {
			t.Fatalf("%q and %q compare as %d, encoded as %d", a, b, want, got)
		}
		if a != b && bytes.HasPrefix(eb, ea) {
			t.Fatalf("%q is a prefix of %q", a, b)
		}
		s, tail, ok := CutString(append(ea, rest...))
		if !ok || s != a || string(tail) != rest {
			t.Fatalf("%q reads back as %q, %q, %v", a, s, tail, ok)
		}
	})
	for _, bad := range []string{"", "a", "a\x00", "\x00\x02", "a\xff"} {
		if s, _, ok := CutString([]byte(bad)); ok {
			t.Errorf("%q reads as %q", bad, s)
		}
	}
}

func TestLOG05_DamagedCursorsAreRefused(t *testing.T) {
	c := Cursor{Size: 6, Root: [32]byte{1}, Hashes: [][32]byte{{2}, {3}}}
	row := c.append(nil)
	got, err := parseCursor(row)
	if d := cmp.Diff(c, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, bad := range [][]byte{nil, row[:39], row[:len(row)-1], row[:len(row)-32], append(slices.Clone(row), make([]byte, 32)...)} {
		if _, err := parseCursor(bad); err == nil {
			t.Errorf("%d bytes are accepted", len(bad))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	db := open(t, config(t.TempDir()))
	b := begin(t, db)
	for i := range 5000 {
		set(t, b, fmt.Sprint("k", i), "")
	}
	commit(t, b, 0)
	if _, err := snapshot(t, db).Digest(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("digest of a cancelled context: %v", err)
	}
}
