package vault

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"testing"

	"counterfoil/ledger/commit"

	"github.com/dgraph-io/badger/v4"
	"pgregory.net/rapid"
)

// edit changes the files of a closed vault.
func edit(t testing.TB, dir string, f func(txn *badger.Txn) error) {
	t.Helper()
	db, err := openStore(dir, slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, db.Update(f))
	must(t, db.Close())
}

// EVI-12: a power loss can take rows and leave later ones with the sequence that
// includes them. What was noted as flushed decides, and the log fills in the rest.
func TestEVI12_PowerLossIsRefilled(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	dir := t.TempDir()
	v, w := join(t, dir, l.rows(t)), join(t, t.TempDir(), l.rows(t))
	for n := range 10 {
		mustPut(t, v, n)
	}
	must(t, v.Close())
	v = join(t, dir, l.rows(t))
	flushed := v.shared.applied.Load()
	var lost [][]byte
	for n := 10; n < 30; n++ {
		id := mustPut(t, v, n)
		must(t, v.PutBody(id, "slot", "value", big(100_000, byte(n)), commit.Raw))
		if n%3 == 0 {
			lost = append(lost, row(rowKey, v.seal.attempt(id)), v.seal.body(v.seal.attempt(id), "slot", "value"))
		}
	}
	first, _ := attempt(3)
	must(t, w.Erase(first)) // and messages are replaced meanwhile
	id, _ := attempt(12)
	must(t, w.Erase(id))
	mustBeEqual(t, v, w)
	must(t, v.Close())
	edit(t, dir, func(txn *badger.Txn) error {
		for _, name := range lost {
			if err := txn.Delete(name); err != nil {
				return err
			}
		}
		return set(txn, flushedAt(flushed))
	})
	v = join(t, dir, l.rows(t))
	mustBeEqual(t, v, w)
	mustHaveKey(t, v, 15)
	_, err := v.Key(id)
	mustBe(t, err, ErrErased)
}

// A vault and a log that do not belong together are told apart at the start, and
// nothing is written.
func TestVaultLog_RefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	dir := t.TempDir()
	v := join(t, dir, l.rows(t))
	mustPut(t, v, 1)
	var backup bytes.Buffer
	_, err := v.Backup(&backup, 0)
	must(t, err)
	must(t, v.Close())
	other, err := l.s.Rows(t.Context(), "OTHER")
	must(t, err)
	_, err = tryJoin(t, dir, other)
	mustBe(t, err, ErrForeign)
	if n, err := other.Last(t.Context()); n != 0 || err != nil {
		t.Errorf("the other log ends at %d, %v", n, err)
	}

	// What was restored has no log, and may begin one.
	restored := t.TempDir()
	must(t, Restore(restored, slog.New(slog.DiscardHandler), &backup))
	_, err = tryJoin(t, restored, l.rows(t))
	mustBe(t, err, ErrForeign)
	v = join(t, restored, other)
	mustHaveKey(t, v, 1)
	mustBeEqual(t, v, join(t, t.TempDir(), other))

	// A log that lost messages.
	edit(t, dir, func(txn *badger.Txn) error { return setApplied(txn, 1000) })
	_, err = tryJoin(t, dir, l.rows(t))
	mustBe(t, err, ErrForeign)

	// A vault that is alone keeps nothing of this.
	alone := open(t, t.TempDir())
	mustPut(t, alone, 1)
	if n := rowsOf(t, alone, rowShared) + rowsOf(t, alone, rowIndex); n != 0 {
		t.Errorf("a vault without a log has %d rows about one", n)
	}
}

// Another key of an attempt that a node has in its cache is forgotten when another
// node erases it.
func TestPRV01_CachesForgetWhatAnotherNodeErased(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	v, w := join(t, t.TempDir(), l.rows(t)), join(t, t.TempDir(), l.rows(t))
	id := mustPut(t, v, 1)
	mustHaveKey(t, w, 1)
	mustHaveKey(t, w, 1) // cached
	must(t, v.Erase(id))
	must(t, w.newest(t.Context()))
	_, err := w.Key(id)
	mustBe(t, err, ErrErased)
}

// A node without disk space holds what comes, refuses, and goes on when there is
// space again.
func TestVaultLog_LittleSpaceHoldsTheLog(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	dir := t.TempDir()
	v, w := join(t, dir, l.rows(t)), join(t, t.TempDir(), l.rows(t))
	mustPut(t, v, 1)
	must(t, w.newest(t.Context()))
	free := make(chan uint64, 1)
	free <- 1 << 20
	check := spaceCheck{min: 64 << 20, rewrite: noRewrite, free: func(string) (uint64, error) {
		n := <-free
		free <- n
		return n, nil
	}}
	// The committer owns the check.
	must(t, w.do(&op{local: true, always: true, check: func(*badger.Txn) (bool, error) { w.space = check; return true, nil }}))
	mustPut(t, v, 2)
	id, key := attempt(3)
	mustBe(t, w.Put(id, key), ErrNoSpace)
	mustHaveKey(t, w, 1)
	<-free
	free <- 1 << 40
	must(t, w.shared.await(t.Context(), v.shared.applied.Load()))
	must(t, w.Put(id, key))
	mustBeEqual(t, v, w)
}

// A message that no vault writes is not applied.
func TestChangeRefuses(t *testing.T) {
	t.Parallel()
	good := change{changeRows, []kv{{row(rowKey, attemptName{1}), []byte("sealed")}, {row(rowPending, attemptName{1}), nil}, {looseRow([bodyIDSize]byte{}), []byte{}}}}
	if _, err := decodeChange(good.encode()); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty":            {},
		"another version":  append([]byte{9}, good.encode()[1:]...),
		"unknown kind":     {changeVersion, 'z'},
		"cut off":          good.encode()[:40],
		"place of a vault": change{changeRows, []kv{{sharedRow("applied"), []byte("x")}}}.encode(),
		"fingerprint":      change{changeRows, []kv{{[]byte{rowMeta}, []byte("x")}}}.encode(),
		"index":            change{changeRows, []kv{{indexRow(attemptOwner(attemptName{}), 1), []byte{}}}}.encode(),
		"long name":        change{changeRows, []kv{{row(rowKey, attemptName{}), nil}, {append([]byte{rowKey}, make([]byte, maxRowName)...), nil}}}.encode(),
		"no name":          change{changeRows, []kv{{nil, nil}}}.encode(),
		"unknown row":      change{changeRows, []kv{{[]byte{'Z', 1}, nil}}}.encode(),
		"rows at an end":   change{changeEnd, good.rows}.encode(),
		"begin of no one":  change{changeBegin, nil}.encode(),
		"huge length":      append([]byte{changeVersion, changeRows}, binary.AppendUvarint(nil, 1<<63)...),
	} {
		if c, err := decodeChange(b); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestChangeComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := change{kind: rapid.SampledFrom([]byte{changeRows, changeSeed}).Draw(t, "kind")}
		for range rapid.IntRange(0, 20).Draw(t, "rows") {
			r := kv{name: append([]byte{rapid.SampledFrom([]byte("kbcpodarq")).Draw(t, "kind")}, rapid.SliceOfN(rapid.Byte(), 0, maxRowName-1).Draw(t, "name")...)}
			if rapid.Bool().Draw(t, "set") {
				r.value = append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value")...)
			}
			c.rows = append(c.rows, r)
		}
		got, err := decodeChange(c.encode())
		must(t, err)
		if got.kind != c.kind || len(got.rows) != len(c.rows) {
			t.Fatalf("%d rows of kind %q, want %d of %q", len(got.rows), got.kind, len(c.rows), c.kind)
		}
		for i, r := range got.rows {
			if !bytes.Equal(r.name, c.rows[i].name) || !bytes.Equal(r.value, c.rows[i].value) || (r.value == nil) != (c.rows[i].value == nil) {
				t.Fatalf("row %d is %+v, want %+v", i, r, c.rows[i])
			}
		}
	})
}

func FuzzDecodeChange(f *testing.F) {
	f.Add(change{changeRows, []kv{{row(rowKey, attemptName{1}), []byte("sealed")}, {row(rowPending, attemptName{1}), nil}}}.encode())
	f.Add(change{kind: changeEnd}.encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := decodeChange(in)
		if err != nil {
			mustBe(t, err, ErrCorrupt)
			return
		}
		again, err := decodeChange(c.encode())
		if err != nil || len(again.rows) != len(c.rows) {
			t.Fatalf("%d rows, then %d, %v", len(c.rows), len(again.rows), err)
		}
	})
}

// deaf is a log that does not erase for a while.
type deaf struct {
	Replica
	mu  sync.Mutex
	err error
}

func (d *deaf) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *deaf) Erase(ctx context.Context, seq uint64) error {
	d.mu.Lock()
	err := d.err
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return d.Replica.Erase(ctx, seq)
}

// PRV-01: an erasure that the log did not answer to is under way until the log has
// nothing of it, and is finished without a call or a start.
func TestPRV01_ErasureGoesOnWhenTheLogIsBack(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	d := &deaf{Replica: l.rows(t)}
	v, w := join(t, t.TempDir(), d), join(t, t.TempDir(), l.rows(t))
	id := mustPut(t, v, 1)
	content := big(100_000, 3)
	ref := mustStore(t, v, id, "role", content)
	body := mustPut(t, v, 2)
	must(t, v.PutBody(body, "slot", "value", big(200_000, 5), commit.Raw))
	before := dump(t, v)
	d.set(errLost)
	mustBe(t, v.ChangeRef(ref, func(r *Ref) bool { r.State = ObjectExpired; return true }), ErrUnavailable)
	mustBe(t, v.Erase(body), ErrUnavailable)
	_, err := w.Key(body)
	mustBe(t, err, ErrErased) // the tombstone is in the log
	if under, err := w.Erasing(body); !under || err != nil {
		t.Errorf("under way: %v, %v", under, err)
	}
	d.set(nil)
	until(t, "nothing is under way", func() bool { return rowsOf(t, w, rowPending)+rowsOf(t, w, rowLoose) == 0 })
	if under, err := w.Erasing(body); under || err != nil {
		t.Errorf("under way: %v, %v", under, err)
	}
	mustBeEqual(t, v, w)
	after, gone := dump(t, v), 0
	for name, value := range before {
		if after[name] == value || len(value) < 30 || name[0] == rowRef {
			continue
		}
		if gone++; len(holds(t, l.dir, []byte(value[1:min(len(value), 60)]))) > 0 {
			t.Errorf("a row of kind %q is still in the log", name[0])
		}
	}
	if gone < 7 {
		t.Errorf("compared %d rows", gone)
	}
}
