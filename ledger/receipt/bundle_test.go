package receipt

import (
	"bytes"
	"slices"
	"testing"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// story is an attempt with all five lifecycles and a second attempt, seven
// leaves in all; leaf 3 belongs to the second.
func story(t testing.TB) *world {
	w := newWorld(t)
	a := newAttempt(origin, 1)
	w.log(a)
	o := follow(a, event.Outcome, event.StatusUnknown)
	w.log(o)
	rec := follow(o, event.Reconciliation, event.StatusConfirmedCommitted)
	rec.Statement = event.ReadBack{Source: "crm", Observed: event.ObservedPresent}.Value()
	rec.Tags[lifecycle.TagReadBack] = a.Tags[lifecycle.TagExpectedEffect]
	w.log(rec)
	w.log(newAttempt(origin, 2))
	rev := follow(rec, event.Reversal, event.StatusReversed)
	rev.Refs = map[string]string{lifecycle.RefReverses: event.DigestOf(o.Append(nil)).EventID()}
	w.log(rev)
	review := follow(rev, event.Review, "noted")
	review.Refs = map[string]string{lifecycle.RefReviews: event.DigestOf(rec.Append(nil)).EventID()}
	review.Statement = event.Judgement{Reviewer: "auditor:any"}.Value()
	w.log(review)
	w.log(newAttempt(origin, 3))
	return w
}

func TestBND02_WholeBundleVerifies(t *testing.T) {
	w := story(t)
	for name, b := range map[string][]byte{
		"all leaves":  w.bundle(),
		"one attempt": w.bundle(0, 1, 2, 4, 5),
		"one leaf":    w.bundle(3),
		"older size":  w.build(w.entries(3), w.checkpoint(3)),
		"single leaf": w.build(w.entries(1), w.checkpoint(1)),
	} {
		wantVerified(t, name, Verify(b, w.trusts("event"), Options{}))
	}
	r := Verify(w.bundle(), w.trusts("event", "other"), Options{MinSize: 7})
	if r.Counts != (Counts{Entries: 7, Attempts: 3}) || r.TreeSize != 7 || r.Origin != origin {
		t.Errorf("got %+v", r)
	}
	var names []string
	for _, c := range r.Checks {
		names = append(names, c.Name)
		if want := Pass; c.Status != want && c.Name != CheckCompleteness && c.Name != CheckWitnessQuorum && c.Name != CheckFreshness {
			t.Errorf("%s: %s", c.Name, c.Status)
		}
	}
	if !slices.Equal(names, CheckNames()) {
		t.Errorf("checks %v, want each name once: %v", names, CheckNames())
	}
	if c, _ := r.Find(CheckCompleteness); c.Status != NotChecked || c.Detail != "consistent at size 7, completeness not checked" {
		t.Errorf("completeness: %+v", c)
	}
}

func TestBND10_ExportIsDeterministic(t *testing.T) {
	w := story(t)
	entries := w.entries(7)
	cp := w.checkpoint(7)
	first := w.build(entries, cp)
	slices.Reverse(entries)
	if !bytes.Equal(first, w.build(entries, cp)) {
		t.Error("the order in which entries are given changes the bytes")
	}
	b, err := NewBuilder(cp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range w.entries(7) {
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if streamed, err := b.Bytes(); err != nil || !bytes.Equal(first, streamed) {
		t.Errorf("entry by entry: %v, or other bytes", err)
	}
	parsed, err := Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	if again := w.build(parsed.Entries, parsed.Checkpoint); !bytes.Equal(first, again) {
		t.Error("parsing and building again changes the bytes")
	}
	if err := (canon.Profile{MaxBytes: MaxBundleBytes, MaxDepth: 32}).CheckCanonical(first); err != nil {
		t.Error(err)
	}
}

func TestCLM01_BuildRefusesWhatNobodyCouldVerify(t *testing.T) {
	w := story(t)
	cp := w.checkpoint(7)
	good := func() []Entry { return w.entries(7) }
	foreign := *w.records[0]
	ev := *foreign.Event
	ev.ClaimBoundary = "everything_is_true_v1"
	foreign.Event = &ev
	for name, c := range map[string]struct {
		change     func([]Entry) []Entry
		checkpoint []byte
	}{
		"claim boundary without text": {func(e []Entry) []Entry { e[0].Record = &foreign; return e }, cp},
		"no record":                   {func(e []Entry) []Entry { e[0].Record = nil; return e }, cp},
		"index twice":                 {func(e []Entry) []Entry { return append(e, e[2]) }, cp},
		"beyond the checkpoint":       {func(e []Entry) []Entry { return e }, w.checkpoint(6)},
		"proof too short":             {func(e []Entry) []Entry { e[0].Proof = e[0].Proof[1:]; return e }, cp},
		"proof too long":              {func(e []Entry) []Entry { e[0].Proof = append(e[0].Proof, e[0].Proof[0]); return e }, cp},
		"hash of 31 bytes":            {func(e []Entry) []Entry { e[0].Proof[0] = e[0].Proof[0][1:]; return e }, cp},
		"proof without checkpoint":    {func(e []Entry) []Entry { return e }, nil},
		"checkpoint is no note":       {func(e []Entry) []Entry { return e }, []byte("7")},
		"note is no checkpoint":       {func(e []Entry) []Entry { return e }, w.signNote("hello\n", noteSigner(t, "x", "log"))},
		"index beyond 2^53": {func(e []Entry) []Entry {
			return []Entry{{Record: e[0].Record, LeafIndex: 1 << 53}}
		}, nil},
	} {
		if _, err := Build(c.change(good()), c.checkpoint); err == nil {
			t.Errorf("%s: built", name)
		}
	}
	b, _ := NewBuilder(cp)
	_ = b.Add(good()[3])
	if err := b.Add(good()[1]); err == nil {
		t.Error("out of order: added")
	}
}
