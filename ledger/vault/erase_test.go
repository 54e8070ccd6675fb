package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"

	"counterfoil/ledger/commit"

	"github.com/dgraph-io/badger/v4"
)

type badgerTxn = badger.Txn

// mustBeErased looks at an attempt through every call.
func mustBeErased(t *testing.T, v *Vault, n int) {
	t.Helper()
	id, key := attempt(n)
	_, kerr := v.Key(id)
	_, berr := v.Body(id, "s", "large")
	_, oerr := v.Opening(id, "s", "large")
	_, lerr := v.Bodies(id)
	for call, err := range map[string]error{
		"Key": kerr, "Body": berr, "Opening": oerr, "Bodies": lerr,
		"Put":     v.Put(id, key),
		"PutBody": v.PutBody(id, "s", "new", []byte("x"), commit.Raw),
	} {
		if !errors.Is(err, ErrErased) {
			t.Errorf("%s of an erased attempt: %v, want ErrErased", call, err)
		}
	}
	a := v.seal.attempt(id)
	for _, kind := range []byte{rowBody, rowChunk, rowPending} {
		names, err := v.names(row(kind, a), 10)
		must(t, err)
		if len(names) != 0 {
			t.Errorf("%d rows of kind %q are left", len(names), kind)
		}
	}
}

func fillAttempt(t *testing.T, v *Vault, n int) {
	t.Helper()
	id := mustPut(t, v, n)
	must(t, v.PutBody(id, "s", "small", []byte("x"), commit.Raw))
	must(t, v.PutBody(id, "s", "large", random(t, 300<<10), commit.Raw))
}

func TestEVI12_ErasedIsErasedForEver(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	fillAttempt(t, v, 1)
	fillAttempt(t, v, 2)
	id, _ := attempt(1)
	must(t, v.Erase(id))
	mustBeErased(t, v, 1)
	must(t, v.Erase(id)) // again: no error
	mustBeErased(t, v, 1)
	mustHaveKey(t, v, 2)
	must(t, v.Close())

	v = open(t, dir)
	mustBeErased(t, v, 1)
	other, _ := attempt(2)
	mustHaveKey(t, v, 2)
	if list, err := v.Bodies(other); err != nil || len(list) != 2 {
		t.Errorf("the other attempt has %d bodies, %v", len(list), err)
	}
}

func TestEVI12_ErasingTheUnknownLeavesNoTombstone(t *testing.T) {
	v := open(t, t.TempDir())
	id, _ := attempt(1)
	mustBe(t, v.Erase(id), ErrNotFound)
	mustPut(t, v, 1)
	mustHaveKey(t, v, 1)
}

func TestEVI12_ManyBodiesAreErased(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	for i := range maxDeletes + 10 {
		must(t, v.PutBody(id, "s", fmt.Sprint(i), []byte("x"), commit.Raw))
	}
	must(t, v.PutBody(id, "s", "large", make([]byte, (maxDeletes+10)*chunkSize/4), commit.Raw))
	must(t, v.Erase(id))
	mustBeErased(t, v, 1)
	if got := countRows(t, v); got != 2 { // fingerprint and tombstone
		t.Errorf("%d rows are left, want 2", got)
	}
}

// TestEVI12_InterruptedErasureIsFinished: killed right after the commit point.
func TestEVI12_InterruptedErasureIsFinished(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	for n := range 3 {
		fillAttempt(t, v, n)
	}
	for n := range 2 {
		id, _ := attempt(n)
		changed, err := v.lower(Purged, id)
		must(t, err)
		if !changed {
			t.Fatal("nothing was erased")
		}
	}
	w := open(t, copyDir(t, dir))
	mustBeErased(t, w, 0)
	mustBeErased(t, w, 1)
	mustHaveKey(t, w, 2)
}

// TestEVI12_ErasureRacesWithEverything: when Erase has returned nobody gets the
// key, from the cache neither, and no body came in behind its back.
func TestEVI12_ErasureRacesWithEverything(t *testing.T) {
	v := open(t, t.TempDir())
	for n := range 20 {
		id, key := attempt(n)
		must(t, v.Put(id, key))
		large := random(t, 200<<10)
		var wg sync.WaitGroup
		tolerate := func(err error) {
			if err != nil && !errors.Is(err, ErrErased) && !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		}
		for range 4 {
			wg.Go(func() { _, err := v.Key(id); tolerate(err) })
			wg.Go(func() { tolerate(v.Put(id, key)) })
			wg.Go(func() { tolerate(v.PutBody(id, "s", "large", large, commit.Raw)) })
			wg.Go(func() { _, err := v.Body(id, "s", "large"); tolerate(err) })
		}
		wg.Go(func() { must(t, v.Erase(id)) })
		wg.Wait()
		mustBeErased(t, v, n)
	}
}

// hookReader runs hook once, at the nth read.
type hookReader struct {
	n    int
	hook func()
}

func (r *hookReader) Read(p []byte) (int, error) {
	if r.hook != nil {
		if r.n--; r.n == 0 {
			hook := r.hook
			r.hook = nil
			hook()
		}
	}
	return rand.Read(p)
}

// TestEVI12_NothingIsAddedAfterTheTombstone erases the attempt in the middle of
// a PutBody, before each of its steps.
func TestEVI12_NothingIsAddedAfterTheTombstone(t *testing.T) {
	for _, size := range []int{10, 6 * chunkSize} {
		steps := 1 // the head
		if size > maxInline {
			steps = 1 + 6 + 1 // the id, the chunks, the head
		}
		for at := range steps {
			random := &hookReader{}
			v, err := Open(t.TempDir(), testSeal, Options{MinFree: 1, Random: random})
			must(t, err)
			id := mustPut(t, v, 1)
			erased := false
			random.n, random.hook = at+1, func() {
				must(t, v.Erase(id))
				erased = true
			}
			mustBe(t, v.PutBody(id, "s", "large", make([]byte, size), commit.Raw), ErrErased)
			if !erased {
				t.Fatal("the hook did not run: the test does not test")
			}
			mustBeErased(t, v, 1)
			must(t, v.Close())
		}
	}
}

// TestEVI12_NoPieceIsAddedAfterTheTombstone: a crash after such a piece would
// leave it for ever.
func TestEVI12_NoPieceIsAddedAfterTheTombstone(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	_, key := attempt(1)
	aead, err := v.seal.bodies(key)
	must(t, err)
	must(t, v.Erase(id))
	body := make([]byte, 2*chunkSize)
	h := head{size: len(body)}
	mustBe(t, v.putChunks(v.seal.attempt(id), aead, &h, body), ErrErased)
	mustBeErased(t, v, 1)
}

// TestEVI12_BodiesNeedTheAttemptKey: the seal key alone does not open a body,
// so destroying the key row is enough for whoever has no older copy of it.
func TestEVI12_BodiesNeedTheAttemptKey(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	must(t, v.PutBody(id, "s", "n", []byte("x"), commit.Raw))
	for n, want := range map[int]error{1: nil, 2: ErrCorrupt} {
		_, key := attempt(n)
		aead, err := v.seal.bodies(key)
		must(t, err)
		mustBe(t, v.view(func(txn *badgerTxn) error {
			_, err := v.readHead(txn, aead, v.seal.body(v.seal.attempt(id), "s", "n"))
			return err
		}), want)
	}
}

func TestEVI12_CacheForgetsTheErased(t *testing.T) {
	v := open(t, t.TempDir())
	id, key := attempt(1)
	must(t, v.Put(id, key))
	mustHaveKey(t, v, 1)
	before := v.erasureCount()
	must(t, v.Erase(id))
	if _, ok := v.cache.Get(id); ok {
		t.Error("the key of an erased attempt is cached")
	}
	// A reader that had the key before the erasure comes to cache it late.
	v.remember(id, key, before)
	mustBeErased(t, v, 1)
}

func TestCacheIsBounded(t *testing.T) {
	v, err := Open(t.TempDir(), testSeal, Options{CacheKeys: 3, MinFree: 1})
	must(t, err)
	defer v.Close()
	for n := range 10 {
		mustPut(t, v, n)
	}
	if got := v.cache.Len(); got != 3 {
		t.Errorf("%d keys cached, want 3", got)
	}
	for n := range 10 {
		mustHaveKey(t, v, n)
	}
}
