package query_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/dispositions"
	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
	"counterfoil/projections/receipts"
)

type fixture struct {
	dir   string
	db    *kv.DB
	log   *leaftest.Log
	views *query.Views
}

// fold makes the views of leaves.
func fold(t testing.TB, leaves [][]byte) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), log: leaftest.NewLog(leaves...)}
	f.open(t)
	t.Cleanup(func() { _ = f.db.Close() })
	f.publish(t, len(leaves))
	return f
}

func (f *fixture) open(t testing.TB) {
	t.Helper()
	db, err := kv.Open(kv.Config{Dir: f.dir, Origin: leaftest.Origin, Tenant: leaftest.Tenant, Schema: follow.Schema})
	if err != nil {
		t.Fatal(err)
	}
	f.db, f.views = db, query.New(db, f.log)
}

func (f *fixture) publish(t testing.TB, size int) {
	t.Helper()
	f.log.Publish(size)
	fl, err := follow.New(follow.Config{DB: f.db, Source: f.log, Check: leaftest.Check})
	if err != nil {
		t.Fatal(err)
	}
	if err := fl.CatchUp(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// events makes leaves of events.
func events(es ...*event.Event) (leaves [][]byte) {
	for _, e := range es {
		leaves = append(leaves, leaftest.Leaf(e))
	}
	return leaves
}

func attempt(t testing.TB, f *fixture, id string) *query.AttemptAnswer {
	t.Helper()
	a, err := f.views.Attempt(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.views.LoadAttempt(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// inState lists the attempts of a state.
func inState(t testing.TB, f *fixture, state string) (ids []string) {
	t.Helper()
	a, err := f.views.Attempts(t.Context(), query.AttemptFilter{State: state}, query.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range a.Attempts {
		ids = append(ids, x.ID)
	}
	return ids
}

// TestEVI09_UnknownStaysUnknown is the case UNKNOWN OUTCOME on the read side.
func TestEVI09_UnknownStaysUnknown(t *testing.T) {
	open := leaftest.Begin("open", nil)
	begun := leaftest.Begin("unknown", func(e *event.Event) { e.Tags["expectedEffect"] = leaftest.Tag("sent") })
	unknown := leaftest.After(begun, event.Outcome, event.StatusUnknown, "o", nil)
	corrected := leaftest.After(unknown, event.Outcome, event.StatusSucceeded, "c", leaftest.Refers("corrects", unknown))
	unreachable := leaftest.After(unknown, event.Reconciliation, event.StatusStillUnknown, "r1", leaftest.ReadBack(event.ObservedUnreachable, ""))
	confirmed := leaftest.After(unreachable, event.Reconciliation, event.StatusConfirmedCommitted, "r2",
		leaftest.ReadBack(event.ObservedPresent, leaftest.Tag("sent")))
	f := fold(t, events(open, begun, unknown, corrected, unreachable, confirmed))

	for size, want := range map[int]string{6: event.StatusConfirmedCommitted, 5: event.StatusUnknown, 4: event.StatusUnknown, 3: event.StatusUnknown} {
		g := fold(t, events(open, begun, unknown, corrected, unreachable, confirmed)[:size])
		a := attempt(t, g, begun.AttemptID)
		if a.Attempt.State != want || a.Attempt.Outcome != event.StatusUnknown || a.TreeSize != uint64(size) {
			t.Errorf("size %d: state %q, outcome %q; want %q, unknown", size, a.Attempt.State, a.Attempt.Outcome, want)
		}
		if d := cmp.Diff([]string{begun.AttemptID}, inState(t, g, want)); d != "" {
			t.Errorf("size %d: %s", size, d)
		}
		if ids := inState(t, g, event.StatusFailed); ids != nil {
			t.Errorf("size %d: failed attempts %v", size, ids)
		}
	}
	if a := attempt(t, f, open.AttemptID); a.Attempt.State != lifecycle.Open || a.Attempt.Outcome != "" {
		t.Errorf("an attempt without an outcome is %+v", a.Attempt.Summary)
	}
	p, err := f.views.Parked(t.Context(), query.Page{})
	if err != nil || len(p.Parked) != 1 || p.Parked[0].Index != 3 || p.Parked[0].Code != lifecycle.LeavesUnknown {
		t.Errorf("a correction out of unknown: %+v, %v", p, err)
	}
}

func TestEVI19_ReversalKeepsTheOutcome(t *testing.T) {
	begun := leaftest.Begin("call", nil)
	outcome := leaftest.After(begun, event.Outcome, event.StatusSucceeded, "o", nil)
	reversal := leaftest.After(outcome, event.Reversal, event.StatusReversed, "r", leaftest.Refers("reverses", outcome))
	f := fold(t, events(begun, outcome, reversal))
	a := attempt(t, f, begun.AttemptID)
	if a.Attempt.State != event.StatusReversed || a.Attempt.Outcome != event.StatusSucceeded || a.Attempt.Reversal != event.StatusReversed {
		t.Errorf("summary %+v", a.Attempt.Summary)
	}
	r, err := f.views.Receipt(t.Context(), leaftest.Digest(outcome).EventID())
	if err != nil || r.Receipt.Status != event.StatusSucceeded || r.Receipt.Index != 1 {
		t.Errorf("the outcome's receipt: %+v, %v", r, err)
	}
	if ids := inState(t, f, event.StatusSucceeded); ids != nil {
		t.Errorf("still listed as succeeded: %v", ids)
	}
}

// TestEVI18_EachLifecycleYieldsAReceipt also checks what the rows say.
func TestEVI18_EachLifecycleYieldsAReceipt(t *testing.T) {
	begun := leaftest.Begin("call", nil)
	outcome := leaftest.After(begun, event.Outcome, event.StatusUnknown, "o", nil)
	reconciled := leaftest.After(outcome, event.Reconciliation, event.StatusConfirmedAbsent, "r", leaftest.ReadBack(event.ObservedAbsent, ""))
	reversal := leaftest.After(reconciled, event.Reversal, event.StatusFailed, "x", leaftest.Refers("reverses", outcome))
	review := leaftest.After(reversal, event.Review, "disputed", "v", leaftest.Refers("reviews", outcome))
	all := []*event.Event{begun, outcome, reconciled, reversal, review}
	f := fold(t, events(all...))
	a := attempt(t, f, begun.AttemptID)
	if a.Attempt.Revision != 5 || a.Attempt.FirstIndex() != 0 || a.Attempt.LastIndex() != 4 || a.Attempt.Review != "disputed" {
		t.Errorf("attempt %+v", a.Attempt)
	}
	for i, e := range all {
		r, err := f.views.Receipt(t.Context(), leaftest.Digest(e).EventID())
		if err != nil {
			t.Fatal(err)
		}
		want := receipts.Row{Index: uint64(i), Digest: leaftest.Digest(e), LeafHash: r.Receipt.LeafHash, AttemptID: e.AttemptID,
			Lifecycle: e.Lifecycle, Revision: int64(i + 1), Status: e.Status, Kind: event.ToolAction, Subject: "send_mail",
			Tool: "send_mail", Agent: "agent-1", Runtime: "runtime-1", OccurredAt: leaftest.Start, CapturedAt: leaftest.Start}
		if d := cmp.Diff(want, r.Receipt); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(want, a.Receipts[i]); d != "" {
			t.Error(d)
		}
		rec, leaf, err := f.views.Load(t.Context(), r.Receipt, r.TreeSize)
		if err != nil || rec.Digest() != want.Digest || string(leaf) != string(leaftest.Leaf(e)) {
			t.Errorf("leaf %d: %v", i, err)
		}
	}
}

func TestLOG06_EveryAnswerStatesItsTreeSize(t *testing.T) {
	contract := leaftest.Begin("c", func(e *event.Event) { e.Subject = event.Subject{Kind: event.Contract, ID: "mail"} })
	review := leaftest.After(contract, event.Review, "quarantine", "v", leaftest.Refers("reviews", contract))
	f := fold(t, append(events(contract, review), []byte("garbage")))
	sizes := map[string]uint64{}
	check := func(name string, size uint64, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		sizes[name] = size
	}
	r, err := f.views.Receipt(t.Context(), leaftest.Digest(review).EventID())
	check("receipt", r.TreeSize, err)
	a, err := f.views.Attempt(t.Context(), contract.AttemptID)
	check("attempt", a.TreeSize, err)
	rs, err := f.views.Receipts(t.Context(), query.ReceiptFilter{}, query.Page{})
	check("receipts", rs.TreeSize, err)
	as, err := f.views.Attempts(t.Context(), query.AttemptFilter{}, query.Page{})
	check("attempts", as.TreeSize, err)
	none, err := f.views.Receipts(t.Context(), query.ReceiptFilter{Tool: "nothing"}, query.Page{})
	check("no receipts", none.TreeSize, err)
	p, err := f.views.Parked(t.Context(), query.Page{})
	check("parked", p.TreeSize, err)
	c, err := f.views.Counts(t.Context())
	check("counts", c.TreeSize, err)
	d, err := f.views.Disposition(t.Context(), event.Contract, "mail")
	check("disposition", d.TreeSize, err)
	ds, err := f.views.Dispositions(t.Context(), query.DispositionFilter{}, query.Page{})
	check("dispositions", ds.TreeSize, err)
	size, err := f.views.Size()
	check("size", size, err)
	for name, size := range sizes {
		if size != 3 {
			t.Errorf("%s has tree size %d, want 3", name, size)
		}
	}
	empty := fold(t, nil)
	e, err := empty.views.Receipts(t.Context(), query.ReceiptFilter{}, query.Page{Newest: true})
	if err != nil || e.TreeSize != 0 || e.Receipts != nil {
		t.Errorf("empty views: %+v, %v", e, err)
	}
}

// TestEVI14_SkewIsFlaggedAndOrderIsTheIndex is the case CLOCKS: +45 s, +10 min,
// −3 days, equal times, and a ledger clock that steps back.
func TestEVI14_SkewIsFlaggedAndOrderIsTheIndex(t *testing.T) {
	var es []*event.Event
	for i, c := range []struct{ occurred, captured time.Duration }{
		{0, 0}, {45 * time.Second, 0}, {10 * time.Minute, time.Second}, {-72 * time.Hour, 2 * time.Second},
		{-3 * time.Second, -3 * time.Second}, {60 * time.Second, 0}, {60*time.Second + time.Millisecond, 0},
	} {
		es = append(es, leaftest.Begin(fmt.Sprint(i), func(e *event.Event) {
			e.OccurredAt, e.CapturedAt = event.FormatTime(leaftest.Start.Add(c.occurred)), event.FormatTime(leaftest.Start.Add(c.captured))
		}))
	}
	f := fold(t, events(es...))
	a, err := f.views.Receipts(t.Context(), query.ReceiptFilter{}, query.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var order []uint64
	var skewed []bool
	for _, r := range a.Receipts {
		order, skewed = append(order, r.Index), append(skewed, r.ClockSkew)
	}
	if d := cmp.Diff([]uint64{0, 1, 2, 3, 4, 5, 6}, order); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]bool{false, false, true, true, false, false, true}, skewed); d != "" {
		t.Error(d)
	}
	if c, err := f.views.Counts(t.Context()); err != nil || c.ClockSkew != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLOG05_TheLatestDispositionCounts(t *testing.T) {
	about := func(invocation, id string, kind event.SubjectKind) *event.Event {
		return leaftest.Begin(invocation, func(e *event.Event) { e.Subject = event.Subject{Kind: kind, ID: id} })
	}
	judge := func(b *event.Event, status string) *event.Event {
		return leaftest.After(b, event.Review, status, "v-"+status, leaftest.Refers("reviews", b))
	}
	a1, a2, b, adm, tool := about("1", "a", event.Contract), about("2", "a", event.Contract), about("3", "ab", event.Contract),
		about("4", "a", event.Admission), about("5", "a", event.ToolAction)
	ra := judge(a1, "quarantine")
	es := []*event.Event{a1, a2, b, adm, tool, ra, judge(b, "continue"), judge(a2, "retire"), judge(adm, "re_admit"), judge(tool, "noted"),
		leaftest.After(ra, event.Review, "continue", "again", leaftest.Refers("reviews", a1))}
	f := fold(t, events(es...))
	list := func(filter query.DispositionFilter, limit int) (out []string) {
		for page := (query.Page{Limit: limit}); ; {
			ans, err := f.views.Dispositions(t.Context(), filter, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ans.Dispositions {
				out = append(out, fmt.Sprintf("%s %s %s %d", d.Kind, d.Subject, d.Status, d.Index))
			}
			if page.Token = ans.Next; page.Token == "" {
				return out
			}
		}
	}
	all := []string{"admission a re_admit 8", "contract a continue 10", "contract ab continue 6"}
	for _, limit := range []int{1, 2, 3, 256} {
		if d := cmp.Diff(all, list(query.DispositionFilter{}, limit)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(all[1:], list(query.DispositionFilter{Kind: event.Contract}, limit)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(all[:1], list(query.DispositionFilter{Status: "re_admit"}, limit)); d != "" {
			t.Error(d)
		}
	}
	got, err := f.views.Disposition(t.Context(), event.Contract, "a")
	want := dispositions.Disposition{Kind: event.Contract, Subject: "a", Status: "continue", Index: 10, Digest: leaftest.Digest(es[10]), AttemptID: a1.AttemptID}
	if d := cmp.Diff(want, got.Disposition); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := f.views.Disposition(t.Context(), event.Contract, "b"); !errors.Is(err, query.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestLOG06_UnknownNamesAreNotFoundOrRefused(t *testing.T) {
	f := fold(t, leaftest.History(1, 20))
	ghost := leaftest.Begin("ghost", nil)
	if _, err := f.views.Receipt(t.Context(), leaftest.Digest(ghost).EventID()); !errors.Is(err, query.ErrNotFound) {
		t.Errorf("receipt: %v", err)
	}
	if _, err := f.views.Attempt(t.Context(), ghost.AttemptID); !errors.Is(err, query.ErrNotFound) {
		t.Errorf("attempt: %v", err)
	}
	refused := func(field string, err error) {
		t.Helper()
		var e *query.InvalidError
		if !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err := f.views.Receipt(t.Context(), "evt_x")
	refused("eventId", err)
	_, err = f.views.Attempt(t.Context(), "att_x")
	refused("attemptId", err)
	list := func(f2 query.ReceiptFilter, p query.Page) error {
		_, err := f.views.Receipts(t.Context(), f2, p)
		return err
	}
	refused("status", list(query.ReceiptFilter{Status: "bogus"}, query.Page{}))
	refused("lifecycle", list(query.ReceiptFilter{Lifecycle: "bogus"}, query.Page{}))
	refused("kind", list(query.ReceiptFilter{Kind: "bogus"}, query.Page{}))
	refused("to", list(query.ReceiptFilter{From: leaftest.Start, To: leaftest.Start.Add(-1)}, query.Page{}))
	refused("limit", list(query.ReceiptFilter{}, query.Page{Limit: 257}))
	refused("limit", list(query.ReceiptFilter{}, query.Page{Limit: -1}))
	_, err = f.views.Attempts(t.Context(), query.AttemptFilter{State: "requested"}, query.Page{})
	refused("state", err)
	_, err = f.views.Dispositions(t.Context(), query.DispositionFilter{Kind: event.ToolAction}, query.Page{})
	refused("kind", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.views.Receipts(ctx, query.ReceiptFilter{}, query.Page{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLOG05_AllStatesHaveWords: every state that the fold can reach can be asked for.
func TestLOG05_AllStatesHaveWords(t *testing.T) {
	f := fold(t, leaftest.History(21, 6000))
	c, err := f.views.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.States) < 8 {
		t.Errorf("the history reaches %v only", c.States)
	}
	for state, n := range c.States {
		got := 0
		for page := (query.Page{Limit: 256, Newest: rand.IntN(2) == 0}); ; {
			a, err := f.views.Attempts(t.Context(), query.AttemptFilter{State: state}, page)
			if err != nil {
				t.Fatal(err)
			}
			got += len(a.Attempts)
			if page.Token = a.Next; page.Token == "" {
				break
			}
		}
		if uint64(got) != n {
			t.Errorf("%d attempts are listed as %s, %d are counted", got, state, n)
		}
	}
}
