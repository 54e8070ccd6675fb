package lifecycle

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"counterfoil/ledger/event"
)

// lawful says from first principles, over the plain list of events so far,
// whether e may follow. It shares nothing with State.
func lawful(list []*event.Event, e *event.Event) bool {
	id := func(e *event.Event) string { return event.DigestOf(e.Append(nil)).EventID() }
	if len(list) == 0 {
		return e.Lifecycle == event.Attempt
	}
	first, head := list[0], list[len(list)-1]
	for _, old := range list {
		if id(old) == id(e) || (old.Lifecycle != event.Attempt && old.Source.EventID == e.Source.EventID) {
			return false
		}
	}
	src := e.Source
	src.EventID = ""
	if e.Lifecycle == event.Attempt || e.Revision != head.Revision+1 || e.Previous != "sha256:"+id(head)[len("evt_"):] ||
		e.Ledger != first.Ledger || e.Tenant != first.Tenant || e.AttemptID != first.AttemptID || e.Subject != first.Subject ||
		src != first.Source || e.Action != first.Action || e.TraceID != first.TraceID {
		return false
	}
	find := func(name string) *event.Event {
		for _, old := range list {
			if e.Refs[name] == id(old) {
				return old
			}
		}
		return nil
	}
	inForce := -1
	for i, old := range list {
		if old.Lifecycle == event.Outcome {
			inForce = i
		}
	}
	told := false // a reconciliation told something about what is in force
	doubt := false
	for i, old := range list {
		switch {
		case old.Lifecycle == event.Reconciliation && old.Status != "still_unknown":
			told = told || i > inForce
			doubt = old.Status == "contradicted"
		case old.Lifecycle == event.Reversal && old.Status != "failed":
			doubt = old.Status == "unknown"
		}
	}
	switch e.Lifecycle {
	case event.Outcome:
		_, corrects := e.Refs["corrects"]
		if inForce < 0 {
			return !corrects && !told
		}
		return find("corrects") == list[inForce] && list[inForce].Status != "unknown"
	case event.Reversal:
		target := find("reverses")
		if target == nil || target.Lifecycle != event.Outcome {
			return false
		}
		for _, old := range list {
			if old.Lifecycle == event.Reversal && old.Status == "reversed" && old.Refs["reverses"] == e.Refs["reverses"] {
				return false
			}
		}
		return true
	case event.Reconciliation:
		open := inForce < 0 || list[inForce].Status == "unknown"
		if !doubt && (!open || told) {
			return false
		}
		rb, _ := e.ReadBack()
		want, have := first.Tags["expectedEffect"], e.Tags["readback"]
		if want == "" && inForce >= 0 {
			want = list[inForce].Tags["result"]
		}
		status := "still_unknown"
		switch {
		case rb.Observed == "absent":
			status = "confirmed_absent"
		case rb.Observed == "present" && rb.Count > 1:
			status = "contradicted"
		case rb.Observed == "present" && want != "" && have != "":
			status = "contradicted"
			if want == have {
				status = "confirmed_committed"
			}
		}
		return e.Status == status
	case event.Review:
		return find("reviews") != nil
	}
	return false
}

// draw makes an event that may or may not follow: mostly a well-linked one,
// sometimes with the link, the identity or the source event id broken.
func draw(t *rapid.T, c *chain) (*event.Event, event.Digest) {
	if len(c.state.Entries) == 0 {
		return c.next(event.Attempt, "")
	}
	l := rapid.SampledFrom(codecLifecycles[1:]).Draw(t, "lifecycle")
	status := rapid.SampledFrom(event.Statuses(l, event.ToolAction)).Draw(t, "status")
	tag := rapid.SampledFrom([]string{"", tagA, tagB}).Draw(t, "tag")
	var changes []func(*event.Event)
	switch l {
	case event.Reconciliation:
		observed := rapid.SampledFrom([]string{event.ObservedPresent, event.ObservedPresent, event.ObservedAbsent, event.ObservedUnreachable}).Draw(t, "observed")
		count := int64(0)
		if observed == event.ObservedPresent {
			count = rapid.Int64Range(0, 2).Draw(t, "count")
		}
		changes = append(changes, readBack(observed, count, tag))
		if rapid.IntRange(0, 9).Draw(t, "derive") > 0 { // mostly the right status, or chains stay short
			status = c.state.Derive(event.ReadBack{Source: "bank", Observed: observed, Count: count}, tag)
		}
	default:
		ids := append(slices.Clone(c.ids), "evt_"+fmt.Sprintf("%064d", 1))
		name := map[event.Lifecycle]string{event.Outcome: RefCorrects, event.Reversal: RefReverses, event.Review: RefReviews}[l]
		if tag != "" && l == event.Outcome {
			changes = append(changes, result(tag))
		}
		if rapid.IntRange(0, 5).Draw(t, "link") > 0 && (l != event.Outcome || c.state.outcome() >= 0) {
			changes = append(changes, ref(name, rapid.SampledFrom(ids).Draw(t, "target")))
		}
	}
	switch rapid.IntRange(0, 29).Draw(t, "break") {
	case 0:
		changes = append(changes, func(e *event.Event) { e.Revision++ })
	case 1:
		changes = append(changes, func(e *event.Event) { e.Previous = "sha256:" + c.ids[0][len("evt_"):] })
	case 2:
		changes = append(changes, func(e *event.Event) { e.Source.AgentID = "other" })
	case 3:
		changes = append(changes, func(e *event.Event) { e.Source.EventID = "event-2" })
	}
	return c.next(l, status, changes...)
}

// TestEVI18_EVI19_EVI20_FoldAgreesWithTheRules: the fold accepts exactly the
// chains that the rules allow, and a state that went through the binary codec
// goes on like one that did not.
func TestEVI18_EVI19_EVI20_FoldAgreesWithTheRules(t *testing.T) {
	accepted := map[event.Lifecycle]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := newChain(t, rapid.SampledFrom([]string{"", tagA}).Draw(t, "expected"))
		var list []*event.Event
		for range rapid.IntRange(1, 24).Draw(t, "events") {
			e, d := draw(t, c)
			if err := e.Validate(); err != nil {
				t.Fatalf("test event: %v", err)
			}
			stored := decode(t, encode(t, &c.state))
			if a, b := c.state.Check(e, d), stored.Check(e, d); code(a) != code(b) {
				t.Fatalf("stored state says %v, live state %v", b, a)
			}
			v, want := c.state.Apply(e, d), lawful(list, e)
			if (v == nil) != want {
				t.Fatalf("event %d, %s %s: fold says %v, rules say lawful=%v", len(list)+1, e.Lifecycle, e.Status, v, want)
			}
			if v != nil {
				continue
			}
			list, c.ids = append(list, e), append(c.ids, d.EventID())
			accepted[e.Lifecycle]++
			again := decode(t, encode(t, &c.state))
			if diff := cmp.Diff(&c.state, again, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("codec: %s", diff)
			}
		}
		// Folding the accepted events anew gives the same state.
		var fold State
		for _, e := range list {
			if v := fold.Apply(e, event.DigestOf(e.Append(nil))); v != nil {
				t.Fatalf("second fold: %v", v)
			}
		}
		if diff := cmp.Diff(c.state, fold, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("second fold: %s", diff)
		}
	})
	for _, l := range codecLifecycles {
		if accepted[l] == 0 {
			t.Errorf("no %s was ever accepted: the test tells nothing about it", l)
		}
	}
}

// TestEVI09_EVI10_OnlyAReadBackResolvesUnknown: whatever comes, an unknown
// outcome stays the outcome in force, and only a reconciliation gives another
// state word than unknown, or a reversal.
func TestEVI09_EVI10_OnlyAReadBackResolvesUnknown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChain(t, tagA)
		c.add(event.Attempt, "")
		c.add(event.Outcome, event.StatusUnknown, result(tagB))
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			e, d := draw(t, c)
			before := c.state.Summary()
			if c.state.Apply(e, d) != nil {
				continue
			}
			c.ids = append(c.ids, d.EventID())
			after := c.state.Summary()
			if after.Outcome != event.StatusUnknown {
				t.Fatalf("%s %s changed the outcome to %s", e.Lifecycle, e.Status, after.Outcome)
			}
			if after.State != before.State && e.Lifecycle != event.Reconciliation && after.State != event.StatusReversed {
				t.Fatalf("%s %s changed the state from %s to %s", e.Lifecycle, e.Status, before.State, after.State)
			}
		}
	})
}

type fataler interface{ Fatalf(string, ...any) }

func encode(t fataler, s *State) []byte {
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

func decode(t fataler, b []byte) *State {
	s := new(State)
	if err := s.UnmarshalBinary(b); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return s
}

func TestCodecRefusesDamage(t *testing.T) {
	c := newChain(t, tagA)
	c.add(event.Attempt, "")
	c.add(event.Outcome, succeeded, result(tagB))
	c.add(event.Review, "noted", ref(RefReviews, c.ids[1]))
	whole := encode(t, &c.state)
	for n := range whole {
		if new(State).UnmarshalBinary(whole[:n]) == nil {
			t.Errorf("accepted with %d of %d bytes", n, len(whole))
		}
	}
	if new(State).UnmarshalBinary(append(slices.Clone(whole), 0)) == nil {
		t.Error("accepted with a byte behind it")
	}
	other := slices.Clone(whole)
	other[0]++
	if new(State).UnmarshalBinary(other) == nil {
		t.Error("accepted with another version")
	}
}

func FuzzStateCodec(f *testing.F) {
	c := newChain(f, tagA)
	f.Add(encode(f, &c.state))
	c.add(event.Attempt, "")
	c.add(event.Outcome, unknown, result(tagB))
	c.add(event.Reconciliation, contra, readBack(event.ObservedPresent, 2, ""))
	c.add(event.Reversal, failed, ref(RefReverses, c.ids[1]))
	f.Add(encode(f, &c.state))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := new(State)
		if s.UnmarshalBinary(b) != nil {
			return
		}
		if again := decode(t, encode(t, s)); !cmp.Equal(s, again, cmpopts.EquateEmpty()) {
			t.Fatalf("changed by a round trip: %s", cmp.Diff(s, again))
		}
		_, _, _ = s.Summary(), s.Reconcilable(), s.Derive(event.ReadBack{Observed: event.ObservedPresent}, tagA)
	})
}
