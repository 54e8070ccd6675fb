package vault

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

func refBy(owner, role string) Ref {
	return Ref{Owner: owner, Role: role, Class: "c", Kind: "k", Stored: 1, Until: 2}
}

func mustStore(t testing.TB, v *Vault, owner, role string, content []byte) Ref {
	t.Helper()
	r, err := v.PutObject(refBy(owner, role), nil, bytes.NewReader(content), MaxBody)
	must(t, err)
	return r
}

func mustHaveObject(t testing.TB, v *Vault, content []byte) {
	t.Helper()
	r, err := v.OpenObject(sha256.Sum256(content))
	must(t, err)
	got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(r, 100)))
	must(t, err)
	rest, err := io.ReadAll(r)
	must(t, err)
	if got = append(got, rest...); !bytes.Equal(got, content) || r.Size() != int64(len(content)) {
		t.Fatalf("object of %d bytes: %d came back", len(content), len(got))
	}
}

func mustBeGone(t testing.TB, v *Vault, content []byte, want ObjectState) {
	t.Helper()
	_, err := v.OpenObject(sha256.Sum256(content))
	var gone *GoneError
	if !errors.As(err, &gone) || gone.State != want {
		t.Fatalf("error %v, want state %d", err, want)
	}
}

// rowsOf counts the rows of a kind.
func rowsOf(t testing.TB, v *Vault, kind byte) int {
	t.Helper()
	names, err := v.names([]byte{kind}, 1<<20)
	must(t, err)
	return len(names)
}

func end(t testing.TB, v *Vault, r Ref, state ObjectState) {
	t.Helper()
	must(t, v.ChangeRef(r, func(r *Ref) bool { r.State = state; return true }))
}

func TestARC03_ObjectsOfEverySizeComeBack(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	id := mustPut(t, v, 1)
	var all [][]byte
	for i, n := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3*chunkSize + 7, 4 * chunkSize, 9 << 20} {
		all = append(all, random(t, n))
		r := mustStore(t, v, id, fmt.Sprint("r", i), all[i])
		if r.Digest != sha256.Sum256(all[i]) || r.Size != int64(n) || r.State != ObjectKept {
			t.Errorf("stored %+v", r)
		}
	}
	check := func(v *Vault) {
		for _, content := range all {
			mustHaveObject(t, v, content)
		}
	}
	check(v)
	must(t, v.Sync())
	v2 := open(t, copyDir(t, dir)) // killed
	check(v2)
	must(t, v.Close())
	v = open(t, dir)
	check(v)
	refs, err := v.Refs(id)
	must(t, err)
	if len(refs) != len(all) || rowsOf(t, v, rowLoose) != 0 {
		t.Errorf("%d references, %d loose", len(refs), rowsOf(t, v, rowLoose))
	}
	must(t, v.Verify())
	_, err = v.OpenObject([32]byte{1})
	mustBe(t, err, ErrNotFound)
}

// TestPRV12_OneBodyForAllOwnersAndNoneAcrossTenants: equal content is stored once
// in a vault, and two tenants' vaults have no name and no value in common.
func TestPRV12_OneBodyForAllOwnersAndNoneAcrossTenants(t *testing.T) {
	content := []byte(strings.Repeat("CANARY-b33f public bytes of a package ", 10_000))
	rows := func(seal [32]byte) (*Vault, map[string]bool) {
		v, err := Open(t.TempDir(), seal, Options{MinFree: 1})
		must(t, err)
		t.Cleanup(func() { must(t, v.Close()) })
		for n := range 3 {
			mustStore(t, v, mustPut(t, v, n), "evidence", content)
			mustStore(t, v, mustPut(t, v, n), "artifact", content)
		}
		if got, want := rowsOf(t, v, rowPiece), (len(content)+chunkSize-1)/chunkSize; got != want || rowsOf(t, v, rowObject) != 1 {
			t.Errorf("%d pieces, want %d, of %d objects", got, want, rowsOf(t, v, rowObject))
		}
		out := map[string]bool{}
		must(t, v.view(func(txn *badgerTxn) error {
			names, err := v.names(nil, 1<<20)
			for _, n := range names {
				val, err := get(txn, n)
				must(t, err)
				if n[0] != rowMeta {
					out["name "+string(n)] = true
				}
				if len(val) > 1 { // a mark has no content
					out["value "+string(val)] = true
				}
			}
			return err
		}))
		sum := sha256.Sum256(content)
		must(t, v.Sync())
		all := readAll(t, v.dir)
		if contains(all, "CANARY-b33f") || bytes.Contains(all, sum[:]) || bytes.Contains(all, fmt.Appendf(nil, "%x", sum)) {
			t.Error("content or digest can be read in the files")
		}
		return v, out
	}
	_, one := rows([32]byte{1})
	_, two := rows([32]byte{2})
	for n := range one {
		if two[n] {
			t.Errorf("both vaults have %.8q", n)
		}
	}
}

func TestARC04_WhatIsNotStoredLeavesNothing(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	gone, red := mustPut(t, v, 2), mustPut(t, v, 3)
	must(t, v.Erase(gone))
	_, err := v.Lower(Redacted, []string{red})
	must(t, err)
	before := countRows(t, v)
	boom := errors.New("boom")
	large := make([]byte, 10*chunkSize)
	for what, tc := range map[string]struct {
		ref  Ref
		r    io.Reader
		max  int64
		want error
	}{
		"too large":         {refBy(id, "x"), bytes.NewReader(large), int64(len(large)) - 1, ErrTooLarge},
		"a broken source":   {refBy(id, "x"), io.MultiReader(bytes.NewReader(large), iotest.ErrReader(boom)), MaxBody, boom},
		"other content":     {refBy(id, "x"), bytes.NewReader(large), MaxBody, ErrDigest},
		"unknown owner":     {refBy("att_none", "x"), bytes.NewReader(large), MaxBody, ErrNotFound},
		"erased owner":      {refBy(gone, "x"), bytes.NewReader(large), MaxBody, ErrErased},
		"redacted owner":    {refBy(red, "x"), bytes.NewReader(large), MaxBody, ErrRedacted},
		"no role":           {refBy(id, ""), bytes.NewReader(large), MaxBody, ErrInvalid},
		"a word too long":   {refBy(id, strings.Repeat("x", 256)), bytes.NewReader(large), MaxBody, ErrTooLarge},
		"an owner too long": {refBy(strings.Repeat("x", 129), "x"), bytes.NewReader(large), MaxBody, ErrTooLarge},
	} {
		_, err := v.PutObject(tc.ref, &[32]byte{1}, tc.r, tc.max)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", what, err, tc.want)
		}
		if got := countRows(t, v); got != before {
			t.Errorf("%s: %d rows, before %d", what, got, before)
		}
	}
	must(t, v.Sync())
	free := uint64(10 << 20)
	v.space = spaceCheck{min: 64 << 20, free: func(string) (uint64, error) { return free, nil }, rewrite: noRewrite}
	_, err = v.PutObject(refBy(id, "x"), nil, bytes.NewReader(large), MaxBody)
	mustBe(t, err, ErrNoSpace)
	free = 1 << 30
	if got := countRows(t, v); got != before {
		t.Errorf("a full disk left %d rows, before %d", got, before)
	}
	mustStore(t, v, id, "x", large)
	// Known content is compared with what was said as well.
	sum := sha256.Sum256(large)
	_, err = v.PutObject(refBy(id, "y"), &sum, bytes.NewReader(large[1:]), MaxBody)
	mustBe(t, err, ErrDigest)
}

func TestARC03_RacingStoresMakeOneObject(t *testing.T) {
	v := open(t, t.TempDir())
	content := random(t, 5*chunkSize)
	var wg sync.WaitGroup
	for n := range 8 {
		id := mustPut(t, v, n)
		wg.Go(func() {
			if _, err := v.PutObject(refBy(id, "x"), nil, bytes.NewReader(content), MaxBody); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	mustHaveObject(t, v, content)
	if got := rowsOf(t, v, rowPiece); got != 5 || rowsOf(t, v, rowBackRef) != 8 || rowsOf(t, v, rowLoose) != 0 {
		t.Errorf("%d pieces, %d references, %d loose", got, rowsOf(t, v, rowBackRef), rowsOf(t, v, rowLoose))
	}
}

// TestARC11_AnObjectEndsWithItsLastReference: and its pieces are deleted.
func TestARC11_AnObjectEndsWithItsLastReference(t *testing.T) {
	v := open(t, t.TempDir())
	content := random(t, 3*chunkSize)
	a, b := mustPut(t, v, 1), mustPut(t, v, 2)
	ra, rb := mustStore(t, v, a, "x", content), mustStore(t, v, b, "x", content)
	end(t, v, ra, ObjectExpired)
	mustHaveObject(t, v, content)
	end(t, v, ra, ObjectCompacted) // it has ended: nothing happens
	end(t, v, rb, ObjectCompacted)
	mustBeGone(t, v, content, ObjectCompacted)
	if rowsOf(t, v, rowPiece)+rowsOf(t, v, rowLoose)+rowsOf(t, v, rowBackRef) != 0 {
		t.Error("pieces or references are left")
	}
	refs, err := v.Refs(a)
	must(t, err)
	if len(refs) != 1 || refs[0].State != ObjectExpired {
		t.Errorf("references: %+v", refs)
	}
	mustStore(t, v, b, "x", content) // the same content again
	mustHaveObject(t, v, content)
	_, err = v.Lower(Redacted, []string{b})
	must(t, err)
	mustBeGone(t, v, content, ObjectErased)
	must(t, v.EachRef(func(r Ref) error {
		if r.Owner != a {
			t.Errorf("a reference of %s is left", r.Owner)
		}
		return nil
	}))
}

func TestARC12_AbsencesAreKept(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	r := refBy(id, "attestation")
	r.Reason = "not_published"
	_, err := v.PutAbsent(r)
	must(t, err)
	_, err = v.PutAbsent(r)
	must(t, err)
	refs, err := v.Refs(id)
	must(t, err)
	if len(refs) != 1 || refs[0].State != ObjectAbsent || refs[0].Reason != "not_published" {
		t.Errorf("%+v", refs)
	}
	must(t, v.Erase(id))
	_, err = v.Refs(id)
	mustBe(t, err, ErrErased)
	if rowsOf(t, v, rowRef) != 0 {
		t.Error("an absence is left")
	}
}

// TestARC11_ReadingMeetsAnErasure: what is read is whole, or says that it is gone.
func TestARC11_ReadingMeetsAnErasure(t *testing.T) {
	v := open(t, t.TempDir())
	content := random(t, 3*chunkSize)
	for n := range 2 {
		id := mustPut(t, v, n)
		mustStore(t, v, id, "x", content)
		r, err := v.OpenObject(sha256.Sum256(content))
		must(t, err)
		_, err = io.ReadFull(r, make([]byte, chunkSize))
		must(t, err)
		must(t, v.Erase(id))
		if n == 1 { // it is stored again meanwhile, under another id
			mustStore(t, v, mustPut(t, v, 9), "x", content)
		}
		_, err = io.ReadAll(r)
		var gone *GoneError
		if !errors.As(err, &gone) || gone.State != ObjectErased {
			t.Errorf("read to the end: %v", err)
		}
	}
}

func TestARC03_DamageIsAnErrorNotAnotherObject(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	one, two := random(t, 3*chunkSize), random(t, 3*chunkSize)
	mustStore(t, v, id, "x", one)
	mustStore(t, v, id, "y", two)
	pieces, err := v.names([]byte{rowPiece}, 10)
	must(t, err)
	heads, err := v.names([]byte{rowObject}, 10)
	must(t, err)
	read := func(content []byte) error {
		r, err := v.OpenObject(sha256.Sum256(content))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		return err
	}
	var head []byte
	must(t, v.view(func(txn *badgerTxn) (err error) { head, err = get(txn, heads[0]); return err }))
	must(t, v.do(&op{rows: []kv{{heads[1], head}}})) // as someone with the files could
	must(t, v.deleteRows(pieces[1:2]))
	must(t, v.deleteRows(pieces[4:5]))
	for _, content := range [][]byte{one, two} {
		mustBe(t, read(content), ErrCorrupt)
	}
}

// TestARC04_AStoreThatWasKilledLeavesNothingOrAll copies the files at every point at
// which something random is drawn, which is before every piece and every head, as a
// killed process would leave them.
func TestARC04_AStoreThatWasKilledLeavesNothingOrAll(t *testing.T) {
	content := random(t, 9*chunkSize+1)
	for at := 1; ; at++ {
		dir, killed := t.TempDir(), ""
		hook := &hookReader{}
		v, err := Open(dir, testSeal, Options{MinFree: 1, Random: hook})
		must(t, err)
		id := mustPut(t, v, 1)
		hook.n, hook.hook = at, func() { killed = copyDir(t, dir) }
		mustStore(t, v, id, "x", content)
		must(t, v.Close())
		if killed == "" {
			if at < 12 {
				t.Fatalf("only %d points: the test does not test", at)
			}
			return
		}
		w := open(t, killed)
		if got := countRows(t, w); got != 2 { // fingerprint and key
			t.Errorf("killed at point %d: %d rows are left", at, got)
		}
		mustStore(t, w, id, "x", content)
		mustHaveObject(t, w, content)
	}
}

// TestARC11_AnEndThatWasKilledIsFinished: right after its commit point.
func TestARC11_AnEndThatWasKilledIsFinished(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	one, two := random(t, 3*chunkSize), random(t, 3*chunkSize)
	a, b := mustPut(t, v, 1), mustPut(t, v, 2)
	ra := mustStore(t, v, a, "x", one)
	mustStore(t, v, b, "x", two)
	_, err := v.changeRef(ra, func(r *Ref) bool { r.State = ObjectExpired; return true })
	must(t, err)
	_, err = v.lower(Purged, b)
	must(t, err)
	w := open(t, copyDir(t, dir))
	mustBeGone(t, w, one, ObjectExpired)
	mustBeGone(t, w, two, ObjectErased)
	if rowsOf(t, w, rowPiece)+rowsOf(t, w, rowLoose)+rowsOf(t, w, rowPending)+rowsOf(t, w, rowBackRef) != 0 {
		t.Error("something is left")
	}
}

func TestARC03_ObjectsAreInBackups(t *testing.T) {
	v := open(t, filepath.Join(t.TempDir(), "vault"))
	id := mustPut(t, v, 1)
	content, later := random(t, 300<<10), random(t, 300<<10)
	r := mustStore(t, v, id, "x", content)
	var whole, more bytes.Buffer
	at, err := v.Backup(&whole, 0)
	must(t, err)
	mustStore(t, v, id, "y", later)
	end(t, v, r, ObjectExpired)
	_, err = v.Backup(&more, at)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "restored")
	must(t, Restore(dir, v.opt.Log, &whole, &more))
	w := open(t, dir)
	mustHaveObject(t, w, later)
	mustBeGone(t, w, content, ObjectExpired)
}

func BenchmarkPutObject(b *testing.B) {
	v := open(b, b.TempDir())
	id := mustPut(b, v, 1)
	content := make([]byte, 1<<20)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		_, _ = rand.Read(content[:32])
		r := mustStore(b, v, id, "x", content)
		end(b, v, r, ObjectExpired)
	}
}
