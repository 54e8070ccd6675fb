package vault

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"counterfoil/ledger/commit"
)

// TestDUR03_BackupAndRestore: a whole backup and one that continues it give the
// same keys, bodies and erasures, under the same seal key and no other.
func TestDUR03_BackupAndRestore(t *testing.T) {
	v := open(t, filepath.Join(t.TempDir(), "vault"))
	big := bytes.Repeat([]byte("body "), 100_000)
	for n := range 50 {
		id := mustPut(t, v, n)
		must(t, v.PutBody(id, "begin", "input", big[:1+n*10_000], commit.Raw))
	}
	var whole, more bytes.Buffer
	at, err := v.Backup(&whole, 0)
	must(t, err)
	for n := 50; n < 60; n++ {
		mustPut(t, v, n)
	}
	gone, _ := attempt(7)
	must(t, v.Erase(gone))
	again, err := v.Backup(&more, at)
	must(t, err)
	if again <= at || more.Len() >= whole.Len()/10 {
		t.Errorf("the second backup has %d bytes up to %d, the first %d up to %d", more.Len(), again, whole.Len(), at)
	}

	dir := filepath.Join(t.TempDir(), "restored")
	must(t, Restore(dir, slog.New(slog.DiscardHandler), &whole, &more))
	if _, err := Open(dir, [32]byte{9}, Options{MinFree: 1}); !errors.Is(err, ErrSealKey) {
		t.Errorf("another seal key: %v", err)
	}
	r := open(t, dir)
	for n := range 60 {
		id, key := attempt(n)
		got, err := r.Key(id)
		if n == 7 {
			if !errors.Is(err, ErrErased) {
				t.Errorf("the erased attempt: %v", err)
			}
			continue
		}
		if err != nil || got != key {
			t.Errorf("attempt %d: %v", n, err)
		}
		if n < 50 {
			b, err := r.Body(id, "begin", "input")
			if err != nil || !bytes.Equal(b.Bytes, big[:1+n*10_000]) {
				t.Errorf("body of attempt %d: %v", n, err)
			}
		}
	}
	must(t, r.Verify())
}
