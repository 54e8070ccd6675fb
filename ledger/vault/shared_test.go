package vault

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/stream"

	"github.com/dgraph-io/badger/v4"
)

// A log of rows that several vaults of a test share: a real JetStream stream.
type testLog struct {
	s   *stream.Stream
	dir string
}

func newLog(t testing.TB) *testLog {
	t.Helper()
	l := &testLog{dir: filepath.Join(t.TempDir(), "stream")}
	l.start(t)
	t.Cleanup(func() { must(t, l.s.Close(context.WithoutCancel(t.Context()))) })
	return l
}

func (l *testLog) start(t testing.TB) {
	t.Helper()
	var err error
	l.s, err = stream.Open(t.Context(), stream.Config{Dir: l.dir, Tenant: "default", Origin: "example.com/test", Fingerprint: "sha256:00", AckTimeout: 5 * time.Minute})
	must(t, err)
}

func (l *testLog) rows(t testing.TB) *stream.Rows {
	t.Helper()
	r, err := l.s.Rows(t.Context(), "VAULT")
	must(t, err)
	return r
}

var _ Replica = (*stream.Rows)(nil)

// logged is patient: a busy machine is no reason to fail.
func logged(r Replica) Options {
	return Options{MinFree: 1, Replica: r, patience: 5 * time.Minute}
}

func tryJoin(t testing.TB, dir string, r Replica) (*Vault, error) {
	t.Helper()
	return Open(dir, testSeal, logged(r))
}

func join(t testing.TB, dir string, r Replica) *Vault {
	t.Helper()
	v, err := tryJoin(t, dir, r)
	must(t, err)
	t.Cleanup(func() { must(t, v.Close()) })
	return v
}

// dump is what a vault that has the newest of its log has in common with others.
func dump(t failer, v *Vault) map[string]string {
	t.Helper()
	if v.shared != nil {
		must(t, v.newest(context.Background()))
	}
	out := map[string]string{}
	must(t, v.look(func(txn *badger.Txn) error {
		for _, r := range rowsAfter(txn, nil, 1<<30) {
			out[string(r.name)] = string(r.value)
		}
		return nil
	}))
	return out
}

func mustBeEqual(t failer, vs ...*Vault) {
	t.Helper()
	want := dump(t, vs[0])
	for i, v := range vs[1:] {
		if got := dump(t, v); !maps.Equal(got, want) {
			t.Fatalf("vault %d has %d rows, the first %d: other ones", i+1, len(got), len(want))
		}
	}
}

func mustBody(t testing.TB, v *Vault, id, slot string, want []byte) {
	t.Helper()
	b, err := v.Body(id, slot, "value")
	must(t, err)
	if !bytes.Equal(b.Bytes, want) {
		t.Fatalf("body of %s in %s: %d bytes, want %d", id, slot, len(b.Bytes), len(want))
	}
}

func big(n int, seed byte) []byte { return bytes.Repeat([]byte{seed, 1, 2, 3, 5, 7, 11}, n/7+1)[:n] }

// What one node wrote the others read at once, and none writes another thing in
// its place.
func TestVaultLog_EveryNodeReadsWhatOneWrote(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	vs := []*Vault{join(t, t.TempDir(), l.rows(t)), join(t, t.TempDir(), l.rows(t)), join(t, t.TempDir(), l.rows(t))}
	for n := range 30 {
		a, b := vs[n%3], vs[(n+1)%3]
		id := mustPut(t, a, n)
		mustHaveKey(t, b, n)
		body := big(100+n*9000, byte(n))
		must(t, b.PutBody(id, "input", "value", body, commit.Raw))
		mustBody(t, a, id, "input", body)
		mustBody(t, vs[(n+2)%3], id, "input", body)
		mustBe(t, a.PutBody(id, "input", "value", []byte("other"), commit.Raw), ErrConflict)
		_, other := attempt(n + 1000)
		mustBe(t, vs[(n+2)%3].Put(id, other), ErrConflict)
	}
	content := big(200_000, 9)
	mustStore(t, vs[0], mustPut(t, vs[0], 100), "evidence", content)
	mustHaveObject(t, vs[1], content)
	mustBeEqual(t, vs...)
	_, err := vs[2].Key("att_unknown")
	mustBe(t, err, ErrNotFound)
}

// Two nodes that write different things in one place: one wins, and everywhere the
// same.
func TestVaultLog_OneOfTwoWins(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	vs := []*Vault{join(t, t.TempDir(), l.rows(t)), join(t, t.TempDir(), l.rows(t))}
	for n := range 40 {
		id, _ := attempt(n)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		bodies := [][]byte{big(150_000, byte(n)), big(150_000, byte(n+100))}
		for i, v := range vs {
			wg.Go(func() {
				_, key := attempt(2*n + i)
				if errs[i] = v.Put(id, key); errs[i] != nil {
					mustBe(t, errs[i], ErrConflict)
				}
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v, %v", n, errs[0], errs[1])
		}
		for i, v := range vs {
			wg.Go(func() { errs[i] = v.PutBody(id, "slot", "value", bodies[i], commit.Raw) })
		}
		wg.Wait()
		won := slices.Index(errs, nil)
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v, %v", n, errs[0], errs[1])
		}
		mustBe(t, errs[1-won], ErrConflict)
		mustBody(t, vs[0], id, "slot", bodies[won])
		mustBody(t, vs[1], id, "slot", bodies[won])
	}
	mustBeEqual(t, vs...)
	// The chunks of the losers are gone.
	if got := rowsOf(t, vs[0], rowChunk); got != 40*3 {
		t.Errorf("%d pieces, want %d", got, 40*3)
	}
}

// A node that lost its vault gets it back from the log, and one that was away what
// it missed, also of messages that were erased meanwhile.
func TestVaultLog_RefillsAndCatchesUp(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	away, kept := t.TempDir(), t.TempDir()
	v, w := join(t, kept, l.rows(t)), join(t, away, l.rows(t))
	for n := range 50 {
		id := mustPut(t, v, n)
		must(t, v.PutBody(id, "input", "value", big(n*4000, 1), commit.Raw))
	}
	mustBeEqual(t, v, w)
	must(t, w.Close())
	for n := range 50 {
		id, _ := attempt(n)
		switch n % 3 {
		case 0:
			must(t, v.Erase(id))
		case 1:
			_, err := v.Lower(Redacted, []string{id})
			must(t, err)
		}
		mustPut(t, v, 100+n)
	}
	w = join(t, away, l.rows(t))
	x := join(t, t.TempDir(), l.rows(t))
	mustBeEqual(t, v, w, x)
	_, err := w.Key("att_00000000000000000000000000000000")
	mustBe(t, err, ErrErased)
	mustBody(t, x, "att_00000000000000000000000000000002", "input", big(8000, 1))
	// And the next one in the other order.
	must(t, v.Close())
	mustPut(t, x, 777)
	v = join(t, kept, l.rows(t))
	mustHaveKey(t, v, 777)
	mustBeEqual(t, v, w, x)
}

// A vault of before gives its rows to an empty log, once; it goes on where it was
// cut off. Another vault with rows of before is refused.
func TestVaultLog_TakesOverRowsOfBefore(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	old, foreign := t.TempDir(), t.TempDir()
	for i, dir := range []string{old, foreign} {
		v := open(t, dir)
		for n := range 300 {
			id := mustPut(t, v, n+i)
			must(t, v.PutBody(id, "input", "value", big(1000, byte(n)), commit.Raw))
		}
		mustStore(t, v, mustPut(t, v, 1), "evidence", big(150_000, 4))
		must(t, v.Erase("att_00000000000000000000000000000007"))
		must(t, v.Close())
	}
	// Cut off at every message: what was stored has no answer.
	cut := &faulty{Replica: l.rows(t)}
	tries := 0
	for ; ; tries++ {
		cut.publishes, cut.from = 0, 1
		cut.lose = true
		v, err := tryJoin(t, old, cut)
		if err == nil {
			must(t, v.Close())
			break
		}
		mustBe(t, err, ErrUnavailable)
		if tries > 100 {
			t.Fatal("it never ends")
		}
	}
	if tries < 5 {
		t.Errorf("only %d cuts", tries)
	}
	_, err := tryJoin(t, foreign, l.rows(t))
	mustBe(t, err, ErrForeign)
	v, w := join(t, old, l.rows(t)), join(t, t.TempDir(), l.rows(t))
	mustBeEqual(t, v, w)
	mustHaveKey(t, w, 299)
	mustHaveObject(t, w, big(150_000, 4))
	// Refused, it is as it was.
	f := open(t, foreign)
	mustHaveKey(t, f, 300)
	if len(dump(t, f)) == 0 {
		t.Error("no rows")
	}
	last, err := l.rows(t).Last(t.Context())
	must(t, err)
	must(t, v.Close())
	v = join(t, old, l.rows(t)) // nothing is given twice
	if again, err := l.rows(t).Last(t.Context()); err != nil || again != last {
		t.Errorf("the log grew from %d to %d, %v", last, again, err)
	}
	// And what was erased before stays erasable in what was given.
	must(t, v.Erase("att_00000000000000000000000000000009"))
	mustBeEqual(t, v, w)
}

// faulty is a log whose answers get lost.
type faulty struct {
	Replica
	mu        sync.Mutex
	publishes int
	from      int  // from this publish on
	lose      bool // the message is stored, the answer is not heard
	refuse    bool // the message is not stored
}

func (f *faulty) set(lose, refuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publishes, f.from, f.lose, f.refuse = 0, 0, lose, refuse
}

var errLost = fmt.Errorf("lost")

func (f *faulty) Publish(ctx context.Context, body []byte, expect uint64) (uint64, uint64, error) {
	f.mu.Lock()
	n, lose, refuse := f.publishes, f.lose, f.refuse
	f.publishes++
	f.mu.Unlock()
	if refuse && n >= f.from {
		return 0, 0, errLost
	}
	seq, last, err := f.Replica.Publish(ctx, body, expect)
	if lose && n >= f.from {
		return 0, 0, errLost
	}
	return seq, last, err
}

// An answer that got lost: what the call wanted is in the log or not, the vault
// finds out, and the call may be made again.
func TestVaultLog_StoredWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	f := &faulty{Replica: l.rows(t)}
	v, w := join(t, t.TempDir(), f), join(t, t.TempDir(), l.rows(t))
	id := mustPut(t, v, 1)
	for i, lose := range []bool{true, false} {
		slot := fmt.Sprint("slot", i)
		body := big(300_000, byte(i))
		// The head is the third publish: two for five chunks.
		f.mu.Lock()
		f.publishes, f.from, f.lose, f.refuse = 0, 2, lose, !lose
		f.mu.Unlock()
		mustBe(t, v.PutBody(id, slot, "value", body, commit.Raw), ErrUnavailable)
		f.set(false, false)
		if _, err := w.Body(id, slot, "value"); lose {
			must(t, err)
		} else {
			mustBe(t, err, ErrNotFound)
		}
		must(t, v.PutBody(id, slot, "value", body, commit.Raw))
		mustBody(t, v, id, slot, body)
		mustBody(t, w, id, slot, body)

		n := 10 + i
		other, key := attempt(n)
		f.set(lose, !lose)
		mustBe(t, v.Put(other, key), ErrUnavailable)
		if !lose { // nothing half written, not even here
			if _, err := v.Key(other); err == nil {
				t.Error("a key that was refused is there")
			}
		}
		f.set(false, false)
		must(t, v.Put(other, key))
		mustHaveKey(t, w, n)

		content := big(100_000, byte(20+i))
		f.mu.Lock()
		f.publishes, f.from, f.lose, f.refuse = 0, 1, lose, !lose
		f.mu.Unlock()
		_, err := v.PutObject(refBy(id, "role"), nil, bytes.NewReader(content), MaxBody)
		mustBe(t, err, ErrUnavailable)
		f.set(false, false)
		mustStore(t, v, id, "role", content)
		mustHaveObject(t, w, content)

		f.set(lose, !lose)
		mustBe(t, v.Erase(other), ErrUnavailable)
		f.set(false, false)
		must(t, v.Erase(other))
		_, err = w.Key(other)
		mustBe(t, err, ErrErased)
	}
	mustBeEqual(t, v, w)
}

// The answer comes late: the publish is sent again inside and meets itself.
func TestVaultLog_MeetsItsOwnMessage(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	v := join(t, t.TempDir(), &echo{l.rows(t)})
	w := join(t, t.TempDir(), l.rows(t))
	for n := range 20 {
		id := mustPut(t, v, n)
		must(t, v.PutBody(id, "a", "value", big(100_000, byte(n)), commit.Raw))
		mustStore(t, v, id, "role", big(70_000, byte(n)))
		changed, err := v.Lower(Purged, []string{id})
		if err != nil || (changed != 1) {
			t.Fatalf("changed %d, %v", changed, err)
		}
	}
	mustBeEqual(t, v, w)
	if n := rowsOf(t, v, rowPiece) + rowsOf(t, v, rowChunk) + rowsOf(t, v, rowLoose); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// echo stores every message and then says what the log says to the same again.
type echo struct{ Replica }

func (e *echo) Publish(ctx context.Context, body []byte, expect uint64) (uint64, uint64, error) {
	if seq, last, err := e.Replica.Publish(ctx, body, expect); err != nil || seq == 0 {
		return seq, last, err
	}
	return e.Replica.Publish(ctx, body, expect)
}

// Without its log a vault reads what it has and changes nothing.
func TestVaultLog_Unavailable(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	v := join(t, t.TempDir(), l.rows(t))
	id := mustPut(t, v, 1)
	before := dump(t, v)
	must(t, l.s.Close(t.Context()))
	mustHaveKey(t, v, 1)
	other, key := attempt(2)
	mustBe(t, v.Put(other, key), ErrUnavailable)
	_, err := v.Key(other)
	mustBe(t, err, ErrUnavailable) // another node may have it
	mustBe(t, v.Erase(id), ErrUnavailable)
	mustBe(t, v.PutBody(id, "slot", "value", []byte("x"), commit.Raw), ErrUnavailable)
	got := map[string]string{}
	must(t, v.look(func(txn *badger.Txn) error {
		for _, r := range rowsAfter(txn, nil, 1<<30) {
			got[string(r.name)] = string(r.value)
		}
		return nil
	}))
	if !maps.Equal(got, before) {
		t.Error("rows changed")
	}
	mustHaveKey(t, v, 1)
}
