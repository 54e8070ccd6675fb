package vault

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"counterfoil/ledger/commit"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var testSeal = [32]byte{1, 2, 3, 31: 0xFF}

func open(t testing.TB, dir string) *Vault {
	t.Helper()
	v, err := Open(dir, testSeal, Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// attempt is the id and the key of the nth attempt of a test.
func attempt(n int) (string, [KeySize]byte) {
	return fmt.Sprintf("att_%032x", n), [KeySize]byte([]byte(fmt.Sprintf("key %028d", n)))
}

func mustPut(t testing.TB, v *Vault, n int) string {
	t.Helper()
	id, key := attempt(n)
	must(t, v.Put(id, key))
	return id
}

func mustHaveKey(t testing.TB, v *Vault, n int) {
	t.Helper()
	id, want := attempt(n)
	if got, err := v.Key(id); err != nil || got != want {
		t.Fatalf("key of attempt %d: %q, %v", n, got, err)
	}
}

// failer is a test, or a property of one.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// copyDir copies a directory as it is, without closing what is open in it:
// what a killed process leaves behind.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	for range 100 {
		to := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(to, os.DirFS(from))
		if errors.Is(err, fs.ErrNotExist) { // a table was flushed meanwhile: no state that a kill leaves
			continue
		}
		must(t, err)
		return to
	}
	t.Fatal("the files changed under every copy")
	return ""
}

func TestEVI12_KeysComeBack(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	id, key := attempt(1)
	_, err := v.Key(id)
	mustBe(t, err, ErrNotFound)
	mustPut(t, v, 1)
	mustHaveKey(t, v, 1)
	must(t, v.Put(id, key)) // again: nothing happens
	_, other := attempt(2)
	mustBe(t, v.Put(id, other), ErrConflict)
	mustHaveKey(t, v, 1)
	must(t, v.Close())

	v = open(t, dir)
	mustHaveKey(t, v, 1)
	mustBe(t, v.Put(id, other), ErrConflict)
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm()&0o077 != 0 && fi.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

func TestEVI12_DirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "vault")
	open(t, dir)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if fi, err := os.Stat(d); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("mode of %s: %v, %v", d, fi.Mode(), err)
		}
	}
}

func TestEVI12_SealKeyIsCheckedAtOpen(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	mustPut(t, v, 1)
	must(t, v.Close())
	other := testSeal
	other[31] ^= 1
	for range 2 {
		_, err := Open(dir, other, Options{})
		mustBe(t, err, ErrSealKey)
	}
	v = open(t, dir)
	mustHaveKey(t, v, 1)
}

func TestEVI12_EmptyVaultKeepsItsSealKey(t *testing.T) {
	dir := t.TempDir()
	must(t, open(t, dir).Close())
	_, err := Open(dir, [32]byte{9}, Options{})
	mustBe(t, err, ErrSealKey)
}

func TestEVI12_FingerprintMissingIsNoNewVault(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	mustPut(t, v, 1)
	must(t, v.deleteRows([][]byte{{rowMeta}}))
	must(t, v.Close())
	_, err := Open(dir, testSeal, Options{})
	mustBe(t, err, ErrCorrupt)
}

func TestOneVaultADirectory(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	_, err := Open(dir, testSeal, Options{})
	mustBe(t, err, ErrInUse)
	mustPut(t, v, 1) // undisturbed
	mustHaveKey(t, v, 1)
}

// TestEVI12_KilledAfterPut: what Put and PutBody returned is in the files even
// though nothing was flushed or closed.
func TestEVI12_KilledAfterPut(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	for n := range 100 {
		mustPut(t, v, n)
	}
	id, _ := attempt(7)
	large := random(t, 300<<10)
	must(t, v.PutBody(id, "begin", "input", []byte(`{"a":1}`), commit.JCS))
	must(t, v.PutBody(id, "begin", "result", large, commit.Raw))
	gone, _ := attempt(8)
	must(t, v.Erase(gone))

	w := open(t, copyDir(t, dir))
	for n := range 100 {
		if n != 8 {
			mustHaveKey(t, w, n)
		}
	}
	mustHaveBody(t, w, id, "begin", "input", []byte(`{"a":1}`), commit.JCS)
	mustHaveBody(t, w, id, "begin", "result", large, commit.Raw)
	_, err := w.Key(gone)
	mustBe(t, err, ErrErased)
}

// TestPRV08_NothingIsReadableInTheFiles plants strings in everything that goes
// in and looks for them, in several forms, in every file: with the vault open,
// after it was closed, and after an erasure.
func TestPRV08_NothingIsReadableInTheFiles(t *testing.T) {
	const canary = "CANARY-5f2b91d0"
	dir := t.TempDir()
	v := open(t, dir)
	id, slot, name := "att_"+canary, "append:"+canary, "n-"+canary
	key := [KeySize]byte([]byte(canary + canary + canary)[:KeySize])
	body := []byte(strings.Repeat(`{"secret":"`+canary+`"}`, 20))
	large := bytes.Repeat(body, 400)
	fill := func(v *Vault) {
		must(t, v.Put(id, key))
		must(t, v.PutBody(id, slot, name, body, commit.JCS))
		must(t, v.PutBody(id, slot, name+"large", large, commit.Raw))
	}
	fill(v)
	for n := range 300 { // past the size at which a table is made on disk
		mustPut(t, v, n)
		other, _ := attempt(n)
		must(t, v.PutBody(other, slot, name, random(t, 60<<10), commit.Raw))
	}
	must(t, v.Sync())
	mustNotContain(t, dir, canary)
	must(t, v.Erase(id))
	mustNotContain(t, dir, canary)
	must(t, v.Close())
	mustNotContain(t, dir, canary)

	if got := readAll(t, dir); len(got) < 1<<20 {
		t.Fatalf("only %d bytes looked at: the test does not test", len(got))
	}
	plain := filepath.Join(dir, "plain")
	must(t, os.WriteFile(plain, []byte(hex.EncodeToString([]byte(canary))), 0o600))
	if !contains(readAll(t, dir), canary) {
		t.Fatal("a planted string is not found: the test does not test")
	}
}

func mustNotContain(t *testing.T, dir, canary string) {
	t.Helper()
	if contains(readAll(t, dir), canary) {
		t.Errorf("the canary can be read in the files")
	}
}

func contains(all []byte, canary string) bool {
	c := []byte(canary)
	for _, form := range [][]byte{
		c, []byte(hex.EncodeToString(c)), []byte(strings.ToUpper(hex.EncodeToString(c))),
		[]byte(base64.StdEncoding.EncodeToString(c)[:16]), c[:10], bytes.ToLower(c),
	} {
		if bytes.Contains(all, form) {
			return true
		}
	}
	return false
}

func readAll(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || d != nil && d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // Badger deletes files in the background
		}
		all = append(append(all, b...), p...)
		return err
	}))
	return all
}

func TestPRV08_ErrorsShowNoContent(t *testing.T) {
	v := open(t, t.TempDir())
	id, key := attempt(1)
	must(t, v.Put(id, key))
	must(t, v.PutBody(id, "s", "n", []byte("CANARY-1"), commit.Raw))
	_, other := attempt(2)
	for _, err := range []error{
		v.Put(id, other),
		v.PutBody(id, "s", "n", []byte("CANARY-2"), commit.Raw),
		v.PutBody(id, "s", "m", []byte("CANARY-2"), "CANARY-enc"),
	} {
		if err == nil {
			t.Fatal("no error")
		}
		for _, secret := range []string{"CANARY-1", "CANARY-2", string(key[:]), string(other[:])} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q shows %q", err, secret)
			}
		}
	}
}

func TestClosedVault(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	must(t, v.Close())
	must(t, v.Close())
	_, key := attempt(1)
	_, kerr := v.Key(id)
	_, berr := v.Body(id, "s", "n")
	_, lerr := v.Bodies(id)
	for _, err := range []error{
		v.Put(id, key), kerr, berr, lerr, v.Sync(), v.Erase(id), v.Verify(),
		v.PutBody(id, "s", "n", nil, commit.Raw),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	}
}

// TestCloseUnderLoad: every call during a Close either works or is ErrClosed,
// and what was answered is there afterwards.
func TestCloseUnderLoad(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	var wg sync.WaitGroup
	kept := make([]int, 16)
	started := make(chan struct{}, 2*len(kept))
	for g := range kept {
		wg.Go(func() {
			defer func() { started <- struct{}{} }()
			for i := 0; ; i++ {
				id, key := attempt(g<<20 | i)
				err := v.Put(id, key)
				if err == nil {
					_, err = v.Key(id)
					kept[g] = i + 1
				}
				if errors.Is(err, ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
				if i == 5 {
					started <- struct{}{}
				}
				if i%7 == 0 {
					if err := v.Sync(); err != nil && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				}
			}
		})
	}
	for range kept {
		<-started
	}
	must(t, v.Close())
	wg.Wait()
	v = open(t, dir)
	for g, n := range kept {
		for i := range n {
			mustHaveKey(t, v, g<<20|i)
		}
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	v, err := Open(t.TempDir(), testSeal, Options{})
	must(t, err)
	mustPut(t, v, 1)
	must(t, v.Sync())
	must(t, v.Close())
	goleak.VerifyNone(t, before)
}

func noRewrite(string, uint64) (uint64, error) { return 0, nil }

// What a compaction may write again is kept free beside the least, and grows
// with the vault.
func TestLOG14_SpaceForACompactionIsKept(t *testing.T) {
	free, occupied := uint64(30<<20), uint64(0)
	s := spaceCheck{min: 8 << 20, free: func(string) (uint64, error) { return free, nil },
		rewrite: func(_ string, limit uint64) (uint64, error) { return min(occupied, limit), nil }}
	for _, c := range []struct {
		occupied, free uint64
		ok             bool
	}{
		{0, 8 << 20, true},
		{22 << 20, 30 << 20, true},
		{22<<20 + 1, 30 << 20, false},
		{1 << 40, MaxRewrite + 8<<20, true},
		{1 << 40, MaxRewrite + 8<<20 - 1, false},
	} {
		occupied, free, s.written = c.occupied, c.free, 0
		if err := s.admit(1); (err == nil) != c.ok {
			t.Errorf("%d bytes of files, %d free: %v, want ok %t", c.occupied, c.free, err, c.ok)
		}
	}
	v := open(t, t.TempDir())
	mustPut(t, v, 1)
	id, _ := attempt(1)
	must(t, v.PutBody(id, "s", "n", make([]byte, 4<<20), commit.Raw))
	if n, err := v.space.rewrite(v.dir, MaxRewrite); err != nil || n < 4<<20 || n > 64<<20 {
		t.Errorf("the vault takes %d bytes, %v; it holds a body of 4 MiB", n, err)
	}
}

func TestLittleSpaceRefusesAndRecovers(t *testing.T) {
	v := open(t, t.TempDir())
	mustPut(t, v, 1)
	free := uint64(10 << 20)
	// The committer reads the check; nothing is under way now.
	must(t, v.Sync())
	v.space = spaceCheck{min: 64 << 20, free: func(string) (uint64, error) { return free, nil }, rewrite: noRewrite}
	id, key := attempt(2)
	mustBe(t, v.Put(id, key), ErrNoSpace)
	mustBe(t, v.PutBody(id, "s", "n", nil, commit.Raw), ErrNotFound)
	first, _ := attempt(1)
	mustBe(t, v.PutBody(first, "s", "n", nil, commit.Raw), ErrNoSpace)
	mustHaveKey(t, v, 1)
	must(t, v.Erase(first)) // erasing is not refused
	free = 1 << 30
	must(t, v.Put(id, key))
	mustHaveKey(t, v, 2)
}

func TestSpaceIsLookedAtEveryMiB(t *testing.T) {
	looks := 0
	s := spaceCheck{min: 1, free: func(string) (uint64, error) { looks++; return 2, nil }, rewrite: noRewrite}
	for range 64 {
		must(t, s.admit(64<<10))
	}
	if looks < 4 || looks > 5 {
		t.Errorf("%d looks for 4 MiB", looks)
	}
	for range 10 {
		must(t, s.admit(0))
	}
}

func TestRandomnessFailing(t *testing.T) {
	boom := errors.New("boom")
	v, err := Open(t.TempDir(), testSeal, Options{Random: iotest.ErrReader(boom)})
	must(t, err)
	defer v.Close()
	id, key := attempt(1)
	mustBe(t, v.Put(id, key), boom)
	_, err = v.Key(id)
	mustBe(t, err, ErrNotFound)
}

func TestBoundsOfIds(t *testing.T) {
	v := open(t, t.TempDir())
	_, key := attempt(1)
	mustBe(t, v.Put("", key), ErrInvalid)
	mustBe(t, v.Put(strings.Repeat("a", 129), key), ErrTooLarge)
	must(t, v.Put(strings.Repeat("a", 128), key))
	_, err := v.Key(strings.Repeat("a", 129))
	mustBe(t, err, ErrTooLarge)
	mustBe(t, v.Erase(""), ErrInvalid)
}

func random(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func mustHaveBody(t testing.TB, v *Vault, id, slot, name string, want []byte, enc commit.Encoding) {
	t.Helper()
	b, err := v.Body(id, slot, name)
	if err != nil {
		t.Fatal(err)
	}
	if b.Encoding != enc || !bytes.Equal(b.Bytes, want) {
		t.Fatalf("body %s/%s of %s: %d bytes, %q; want %d bytes, %q", slot, name, id, len(b.Bytes), b.Encoding, len(want), enc)
	}
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
