package vault

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"counterfoil/ledger/commit"
)

// holds tells whether a file below dir has these bytes in it.
func holds(t testing.TB, dir string, what []byte) (found []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // gone meanwhile
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err == nil && bytes.Contains(b, what) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// PRV: after an erasure no file of the log has a sealed byte of what was erased,
// and it stays erased for a node that lost its vault and for one that got an old
// copy back.
func TestPRV01_NothingErasedStaysInTheLog(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	dir := t.TempDir()
	v, w := join(t, dir, l.rows(t)), join(t, t.TempDir(), l.rows(t))
	var ids []string
	var wg sync.WaitGroup
	// Side by side, so that messages have rows of several attempts.
	for n := range 24 {
		id, key := attempt(n)
		ids = append(ids, id)
		wg.Go(func() {
			must(t, v.Put(id, key))
			must(t, v.PutBody(id, "small", "value", big(500+n, byte(n)), commit.Raw))
			must(t, v.PutBody(id, "large", "value", big(150_000+n, byte(n)), commit.Raw))
			mustStore(t, v, id, "own", big(80_000+n, byte(n)))
			mustStore(t, v, id, "common", big(70_000, 250))
		})
	}
	wg.Wait()
	mustBeEqual(t, v, w)
	before := dump(t, v)
	must(t, v.Close()) // a copy of an open store might be of no moment at all
	old := copyDir(t, dir)
	v = join(t, dir, l.rows(t))
	purged, redacted, kept := ids[:8], ids[8:16], ids[16:]
	_, err := v.Lower(Redacted, redacted)
	must(t, err)
	_, err = w.Lower(Purged, purged)
	must(t, err)
	end(t, v, refBy2(kept[0], "own", big(80_016, 16)), ObjectExpired)
	mustBeEqual(t, v, w)

	after := dump(t, v)
	gone, left := 0, 0
	for name, value := range before {
		if len(value) < 30 { // a mark without content
			continue
		}
		// The nonce and what follows are in no other row.
		found := holds(t, l.dir, []byte(value[1:min(len(value), 60)]))
		if after[name] == value {
			left++
			if len(found) == 0 {
				t.Fatalf("row of kind %q that holds is not in the log", name[0])
			}
			continue
		}
		if name[0] == rowRef && bytes.Contains([]byte(name), v.attemptBytes(kept[0])) {
			continue // a reference that ended; its owner was not erased
		}
		if gone++; len(found) > 0 {
			t.Errorf("row of kind %q is still in %s", name[0], found)
		}
	}
	if gone < 16*5 || left < 8*4 {
		t.Errorf("compared %d rows that are gone and %d that hold", gone, left)
	}
	if n := rowsOf(t, v, rowPending) + rowsOf(t, v, rowLoose); n != 0 {
		t.Errorf("%d marks are left", n)
	}

	x := join(t, t.TempDir(), l.rows(t)) // lost its vault
	y := join(t, old, l.rows(t))         // an old copy
	mustBeEqual(t, v, w, x, y)
	for _, u := range []*Vault{v, w, x, y} {
		for i, id := range ids {
			_, err := u.Body(id, "large", "value")
			switch {
			case i < 8:
				mustBe(t, err, ErrErased)
				_, err = u.Key(id)
				mustBe(t, err, ErrErased)
			case i < 16:
				mustBe(t, err, ErrRedacted)
				mustHaveKey(t, u, i)
			default:
				mustBody(t, u, id, "large", big(150_000+i, byte(i)))
				mustHaveKey(t, u, i)
			}
		}
		mustHaveObject(t, u, big(70_000, 250))
		mustBeGone(t, u, big(80_000, 0), ObjectErased)
		mustBeGone(t, u, big(80_016, 16), ObjectExpired)
	}
}

func (v *Vault) attemptBytes(id string) []byte {
	a := v.seal.attempt(id)
	return a[:]
}

func refBy2(owner, role string, content []byte) Ref {
	r := refBy(owner, role)
	r.Digest, r.Size, r.State = sha256.Sum256(content), int64(len(content)), ObjectKept
	return r
}
