package follow_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
	"counterfoil/projections/receipts"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

var long = os.Getenv("COUNTERFOIL_LONG") != ""

func config(dir string) kv.Config {
	return kv.Config{Dir: dir, Origin: leaftest.Origin, Tenant: leaftest.Tenant, Schema: follow.Schema}
}

func open(t testing.TB, dir string) *kv.DB {
	t.Helper()
	db, err := kv.Open(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test may have closed it
	return db
}

func follower(t testing.TB, db *kv.DB, src follow.Source, change func(*follow.Config)) *follow.Follower {
	t.Helper()
	cfg := follow.Config{DB: db, Source: src, Check: leaftest.Check}
	if change != nil {
		change(&cfg)
	}
	f, err := follow.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func catchUp(t testing.TB, f *follow.Follower) {
	t.Helper()
	if err := f.CatchUp(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func digest(t testing.TB, db *kv.DB) [32]byte {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Digest(context.Background(), s.Cursor().Size)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// dump is every derived row.
func dump(t testing.TB, db *kv.DB) map[string]string {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := map[string]string{}
	it := s.Iter(nil, false)
	for ok := it.Seek([]byte{0x10}); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		out[string(it.Key())] = string(v)
	}
	return out
}

// fold makes the views of leaves in one go.
func fold(t testing.TB, leaves [][]byte) *kv.DB {
	t.Helper()
	log := leaftest.NewLog(leaves...)
	log.Publish(len(leaves))
	db := open(t, t.TempDir())
	catchUp(t, follower(t, db, log, nil))
	return db
}

// TestLOG05_RebuildIsByteEqual cuts the same leaves into batches and checkpoints
// at random, reopens in between, and compares with one go and with a rebuild.
func TestLOG05_RebuildIsByteEqual(t *testing.T) {
	leaves := leaftest.History(1, 3000)
	want := fold(t, leaves)
	wantDigest := digest(t, want)
	rounds := 4
	if long {
		rounds = 40
	}
	for round := range rounds {
		r := rand.New(rand.NewPCG(uint64(round), 2))
		dir, log := t.TempDir(), leaftest.NewLog(leaves...)
		for size := 0; size < len(leaves); {
			db := open(t, dir)
			f := follower(t, db, log, func(c *follow.Config) { c.BatchLeaves = 1 + r.IntN(300) })
			for range 1 + r.IntN(4) {
				size = min(size+1+r.IntN(700), len(leaves))
				log.Publish(size)
				catchUp(t, f)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		db := open(t, dir)
		if got := digest(t, db); got != wantDigest {
			t.Errorf("round %d: digest %x, want %x\n%s", round, got, wantDigest, cmp.Diff(dump(t, want), dump(t, db)))
		}
		_ = db.Close()

		rebuilt, err := follow.Rebuild(t.Context(), config(dir), follow.Config{Source: log, Check: leaftest.Check})
		if err != nil {
			t.Fatal(err)
		}
		if rebuilt.Digest != wantDigest || rebuilt.Size != uint64(len(leaves)) || rebuilt.Root != leaftest.Root(leaves) {
			t.Errorf("round %d: rebuilt %+v, want digest %x", round, rebuilt, wantDigest)
		}
		if got := digest(t, open(t, dir)); got != wantDigest {
			t.Errorf("round %d: after the swap the digest is %x, want %x", round, got, wantDigest)
		}
	}
}

// TestLOG05_DigestSeesEveryLeafAndIsTakenAtANamedSize guards the digest itself.
func TestLOG05_DigestSeesEveryLeafAndIsTakenAtANamedSize(t *testing.T) {
	leaves := leaftest.History(2, 40)
	seen := map[[32]byte]int{}
	for n := range leaves {
		d := digest(t, fold(t, leaves[:n]))
		if other, ok := seen[d]; ok {
			t.Errorf("sizes %d and %d have one digest", other, n)
		}
		seen[d] = n
	}
	s, err := fold(t, leaves).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Digest(t.Context(), 39)
	var size *kv.SizeError
	if !errors.As(err, &size) || size.Have != 40 || size.Want != 39 {
		t.Errorf("digest at another size: %v", err)
	}
}

// TestLOG05_RebuildLeavesTheOldViewsAfterAnError: nothing is swapped in halfway.
func TestLOG05_RebuildLeavesTheOldViewsAfterAnError(t *testing.T) {
	leaves := leaftest.History(3, 600)
	dir, log := t.TempDir(), leaftest.NewLog(leaves...)
	log.Publish(500)
	db := open(t, dir)
	catchUp(t, follower(t, db, log, nil))
	want := digest(t, db)

	cfg := follow.Config{Source: log, Check: leaftest.Check}
	if _, err := follow.Rebuild(t.Context(), config(dir), cfg); !errors.Is(err, kv.ErrInUse) {
		t.Fatalf("rebuild of open views: %v, want ErrInUse", err)
	}
	_ = db.Close()
	log.PublishAs(600, [32]byte{1})
	var mismatch *follow.MismatchError
	if _, err := follow.Rebuild(t.Context(), config(dir), cfg); !errors.As(err, &mismatch) {
		t.Fatalf("rebuild under a wrong root: %v, want a mismatch", err)
	}
	if got := digest(t, open(t, dir)); got != want {
		t.Errorf("digest %x after a failed rebuild, want %x", got, want)
	}
}

// TestLOG05_AnotherFormatIsFoldedAnew also covers another ledger's rows.
func TestLOG05_AnotherFormatIsFoldedAnew(t *testing.T) {
	leaves := leaftest.History(4, 300)
	dir, log := t.TempDir(), leaftest.NewLog(leaves...)
	log.Publish(300)
	db := open(t, dir)
	catchUp(t, follower(t, db, log, nil))
	want := digest(t, db)
	_ = db.Close()
	for name, change := range map[string]func(*kv.Config){
		"schema": func(c *kv.Config) { c.Schema++ },
		"origin": func(c *kv.Config) { c.Origin = "other.example/log" },
		"tenant": func(c *kv.Config) { c.Tenant = "other" },
	} {
		cfg := config(dir)
		change(&cfg)
		db, err := kv.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if c, _ := db.Cursor(); c.Size != 0 || db.Fresh() == "" {
			t.Errorf("%s: size %d, fresh %q; want an empty database", name, c.Size, db.Fresh())
		}
		_ = db.Close()
	}
	db = open(t, dir)
	catchUp(t, follower(t, db, log, nil))
	if got := digest(t, db); got != want {
		t.Errorf("digest %x, want %x", got, want)
	}
}

// TestLOG06_PoisonLeavesAreParkedAndNothingIsSkipped is the case POISON AND PARK.
func TestLOG06_PoisonLeavesAreParkedAndNothingIsSkipped(t *testing.T) {
	leaves := leaftest.History(5, 2000)
	model := leaftest.Fold(leaves)
	dir, log := t.TempDir(), leaftest.NewLog(leaves...)
	for _, size := range []int{700, 1400, 2000} {
		log.Publish(size)
		db := open(t, dir)
		f := follower(t, db, log, nil)
		catchUp(t, f)
		if got := f.Status().Size; got != uint64(size) {
			t.Fatalf("views at %d, want %d", got, size)
		}
		_ = db.Close()
	}
	db := open(t, dir)
	catchUp(t, follower(t, db, log, nil)) // again: nothing is parked twice
	views := query.New(db, log)
	got, pages := map[uint64]string{}, 0
	for page := (query.Page{Limit: 100}); ; pages++ {
		a, err := views.Parked(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		if a.TreeSize != 2000 {
			t.Errorf("tree size %d, want 2000", a.TreeSize)
		}
		for _, p := range a.Parked {
			got[p.Index] = p.Reason
			if p.Size != uint64(len(leaves[p.Index])) || (p.Detail == "" && p.Reason != receipts.DuplicateLeaf) {
				t.Errorf("parked leaf %d: %+v", p.Index, p)
			}
			if p.Reason == receipts.Unlawful && p.Code == "" {
				t.Errorf("parked leaf %d is unlawful without a code", p.Index)
			}
			if p.Reason == receipts.BadSignature && p.Code != "unknown_key" {
				t.Errorf("parked leaf %d has code %q, want unknown_key", p.Index, p.Code)
			}
		}
		if page.Token = a.Next; page.Token == "" {
			break
		}
	}
	if d := cmp.Diff(model.Parked, got); d != "" {
		t.Error(d)
	}
	reasons := map[string]bool{}
	for _, r := range got {
		reasons[r] = true
	}
	if len(reasons) != 6 || pages == 0 {
		t.Errorf("reasons %v on %d pages; the history should have all six on several", reasons, pages+1)
	}
	counts, err := views.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if counts.Parked != uint64(len(model.Parked)) || counts.Receipts != uint64(len(model.Events)) || counts.Attempts != uint64(len(model.Attempts)) {
		t.Errorf("counts %+v; want %d parked, %d receipts, %d attempts", counts, len(model.Parked), len(model.Events), len(model.Attempts))
	}
	for _, c := range model.Events { // no good leaf is missing
		a, err := views.Receipt(t.Context(), leaftest.Digest(c.Event).EventID())
		if err != nil || a.Receipt.Index != c.Index || a.TreeSize != 2000 {
			t.Fatalf("leaf %d: %+v, %v", c.Index, a, err)
		}
	}
}

func TestLOG05_AWrongRootNeverBecomesVisible(t *testing.T) {
	leaves := leaftest.History(6, 1000)
	for _, tc := range []struct {
		name    string
		prover  bool
		publish func(log *leaftest.Log)
		check   func(t *testing.T, err error)
	}{
		{"root of another tree", false, func(log *leaftest.Log) { log.PublishAs(900, [32]byte{7}) }, func(t *testing.T, err error) {
			var e *follow.MismatchError
			if !errors.As(err, &e) || e.From != 300 || e.Size != 900 || e.Want != [32]byte{7} || e.Located {
				t.Errorf("got %v", err)
			}
		}},
		{"a changed leaf is named", true, func(log *leaftest.Log) {
			log.Publish(900)
			log.OnRead(func(i uint64, leaf []byte) ([]byte, error) {
				if i == 777 {
					return bytes.Replace(leaf, []byte("agent"), []byte("agenT"), 1), nil
				}
				return leaf, nil
			})
		}, func(t *testing.T, err error) {
			var e *follow.MismatchError
			if !errors.As(err, &e) || !e.Located || e.Leaf != 777 || !strings.Contains(e.Error(), "leaf 777 (entry bundle 3)") {
				t.Errorf("got %v", err)
			}
		}},
		{"views of a forked log", true, func(log *leaftest.Log) {
			log.OnRead(nil)
			*log = *leaftest.NewLog(append(leaftest.History(99, 300), leaves[300:]...)...)
			log.Publish(900)
		}, func(t *testing.T, err error) {
			var e *follow.MismatchError
			if !errors.As(err, &e) || !e.Before || !strings.Contains(e.Error(), "leaves below 300") {
				t.Errorf("got %v", err)
			}
		}},
		{"same size, other root", false, func(log *leaftest.Log) { log.PublishAs(300, [32]byte{7}) }, func(t *testing.T, err error) {
			var e *follow.MismatchError
			if !errors.As(err, &e) || !e.Before || e.Size != 300 {
				t.Errorf("got %v", err)
			}
		}},
		{"rolled back", false, func(log *leaftest.Log) { log.Publish(200) }, func(t *testing.T, err error) {
			var e *follow.RolledBackError
			if !errors.As(err, &e) || e.Views != 300 || e.Published != 200 {
				t.Errorf("got %v", err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := leaftest.NewLog(leaves...)
			log.Publish(300)
			db := open(t, t.TempDir())
			var src follow.Source = log
			if tc.prover {
				src = leaftest.Proving{Log: log}
			}
			catchUp(t, follower(t, db, src, nil))
			want := digest(t, db)

			tc.publish(log)
			f := follower(t, db, src, func(c *follow.Config) { c.BatchLeaves = 10 })
			err := f.Run(t.Context())
			tc.check(t, err)
			if got := digest(t, db); got != want {
				t.Error("the views changed")
			}
			if s := f.Status(); s.Stopped == nil || s.LastError == nil || s.Size != 300 {
				t.Errorf("status %+v", s)
			}
			if err := f.WaitFor(t.Context(), 301); err == nil {
				t.Error("waiting on a stopped follower did not fail")
			}
		})
	}
}

// TestLOG05_LeavesThatChangeBetweenTheTwoReadings covers spans that are too long
// to keep: what is folded must be what was proven.
func TestLOG05_LeavesThatChangeBetweenTheTwoReadings(t *testing.T) {
	leaves := leaftest.History(7, 800)
	big := leaftest.Leaf(leaftest.Begin("big", nil))
	garbage := bytes.Repeat([]byte("x"), 60000) // 200 of them do not stay in memory
	for range 200 {
		leaves = append(leaves, garbage)
	}
	leaves = append(leaves, big)
	log := leaftest.NewLog(leaves...)
	log.Publish(len(leaves))
	db := open(t, t.TempDir())
	reads := map[uint64]int{}
	log.OnRead(func(i uint64, leaf []byte) ([]byte, error) {
		if reads[i]++; i == 600 && reads[i] == 2 {
			return []byte("swapped"), nil
		}
		return leaf, nil
	})
	f := follower(t, db, log, nil)
	err := f.Run(t.Context())
	var changed *follow.ChangedError
	if !errors.As(err, &changed) || changed.From != 512 || changed.To != 768 {
		t.Fatalf("got %v, want a change among leaves 512 to 767", err)
	}
	if c, _ := db.Cursor(); c.Size > 512 || c.Root != leaftest.Root(leaves[:c.Size]) {
		t.Errorf("cursor at %d with root %x", c.Size, c.Root)
	}
	catchUp(t, follower(t, db, log, nil)) // the third reading is right again
	if got, want := digest(t, db), digest(t, fold(t, leaves)); got != want {
		t.Errorf("digest %x, want %x", got, want)
	}
}

// TestLOG06_TroubleOfTheSourceIsShownAndEnds: the follower waits, then goes on.
func TestLOG06_TroubleOfTheSourceIsShownAndEnds(t *testing.T) {
	leaves := leaftest.History(8, 400)
	log := leaftest.NewLog(leaves...)
	db := open(t, t.TempDir())
	now := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	f := follower(t, db, log, func(c *follow.Config) { c.RetryEvery, c.Now = time.Hour, func() time.Time { return now } })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()

	log.Publish(100)
	if err := f.WaitFor(ctx, 100); err != nil {
		t.Fatal(err)
	}
	failed, broken := make(chan struct{}, 100), errors.New("tile unreadable")
	log.OnRead(func(i uint64, leaf []byte) ([]byte, error) {
		if i == 150 {
			failed <- struct{}{}
			return nil, broken
		}
		return leaf, nil
	})
	log.Publish(200)
	<-failed
	log.OnRead(nil)
	log.Publish(400) // the next checkpoint wakes it, long before the hour is over
	if err := f.WaitFor(ctx, 400); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if s := f.Status(); s.Lag() != 0 || s.LastSuccess != now || s.LastError != nil || s.Stopped != nil {
		t.Errorf("status %+v", s)
	}
	if got, want := digest(t, db), digest(t, fold(t, leaves)); got != want {
		t.Errorf("digest %x, want %x", got, want)
	}
	for name, read := range map[string]func(uint64, []byte) ([]byte, error){
		"broken": func(uint64, []byte) ([]byte, error) { return nil, broken },
	} {
		log := leaftest.NewLog(leaves...)
		log.Publish(10)
		log.OnRead(read)
		f := follower(t, open(t, t.TempDir()), log, nil)
		if err := f.CatchUp(t.Context()); !errors.Is(err, broken) || f.Status().LastError == nil || f.Status().Lag() != 10 {
			t.Errorf("%s: %v, status %+v", name, err, f.Status())
		}
	}
}

// disorder yields leaves out of order, or too few.
type disorder struct {
	*leaftest.Log
	order []uint64
}

func (d disorder) Leaves(_ context.Context, _, _, _ uint64, yield func(uint64, []byte) error) error {
	for _, i := range d.order {
		if err := yield(i, []byte("leaf")); err != nil {
			return err
		}
	}
	return nil
}

func TestLOG06_MissingDoubledOrMovedLeavesAreNotFolded(t *testing.T) {
	log := leaftest.NewLog([]byte("leaf"), []byte("leaf"), []byte("leaf"))
	log.Publish(3)
	for _, order := range [][]uint64{{}, {0, 1}, {0, 2, 1}, {0, 1, 1}, {1, 2}, {0, 1, 2, 3}} {
		db := open(t, t.TempDir())
		err := follower(t, db, disorder{log, order}, nil).CatchUp(t.Context())
		var source *follow.SourceError
		if !errors.As(err, &source) {
			t.Errorf("order %v: %v, want a source error", order, err)
		}
		if c, _ := db.Cursor(); c.Size != 0 {
			t.Errorf("order %v moved the cursor to %d", order, c.Size)
		}
		_ = db.Close()
	}
}
