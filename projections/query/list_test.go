package query_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/event"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
)

func inRange(from, to time.Time, occurred string) bool {
	t, _ := event.ParseTime(occurred)
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}

func matches(want, got string) bool { return want == "" || want == got }

// wantReceipts filters the model one event after another.
func wantReceipts(m *leaftest.Model, f query.ReceiptFilter, newest bool) (out []uint64) {
	for _, c := range m.Events {
		e := c.Event
		if matches(f.Tool, e.Action.Name) && matches(f.Agent, e.Source.AgentID) && matches(f.Runtime, e.Source.RuntimeID) &&
			matches(f.Status, e.Status) && matches(f.Lifecycle, string(e.Lifecycle)) && matches(f.Kind, string(e.Subject.Kind)) &&
			inRange(f.From, f.To, e.OccurredAt) {
			out = append(out, c.Index)
		}
	}
	if newest {
		slices.Reverse(out)
	}
	return out
}

func wantAttempts(m *leaftest.Model, f query.AttemptFilter, newest bool) (out []string) {
	for _, c := range m.Events {
		e := c.Event
		if e.Lifecycle == event.Attempt && matches(f.Tool, e.Action.Name) && matches(f.Agent, e.Source.AgentID) &&
			matches(f.Runtime, e.Source.RuntimeID) && matches(f.State, m.Attempts[e.AttemptID].Summary().State) && inRange(f.From, f.To, e.OccurredAt) {
			out = append(out, e.AttemptID)
		}
	}
	if newest {
		slices.Reverse(out)
	}
	return out
}

func gotReceipts(t *testing.T, f *fixture, filter query.ReceiptFilter, page query.Page) (out []uint64) {
	t.Helper()
	for {
		a, err := f.views.Receipts(t.Context(), filter, page)
		if err != nil {
			t.Fatal(err)
		}
		if a.Next != "" && len(a.Receipts) != page.Limit {
			t.Fatalf("a page of %d with limit %d is not the last", len(a.Receipts), page.Limit)
		}
		for _, r := range a.Receipts {
			out = append(out, r.Index)
		}
		if page.Token = a.Next; page.Token == "" {
			return out
		}
	}
}

func gotAttempts(t *testing.T, f *fixture, filter query.AttemptFilter, page query.Page) (out []string) {
	t.Helper()
	for {
		a, err := f.views.Attempts(t.Context(), filter, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range a.Attempts {
			out = append(out, r.ID)
		}
		if page.Token = a.Next; page.Token == "" {
			return out
		}
	}
}

// TestLOG05_ListsEqualThePlainFold asks random questions and compares the answers,
// page by page, with a model that filters one event after another.
func TestLOG05_ListsEqualThePlainFold(t *testing.T) {
	const size = 4000
	questions := 150
	if os.Getenv("COUNTERFOIL_LONG") != "" {
		questions = 5000
	}
	leaves := leaftest.History(31, size)
	m := leaftest.Fold(leaves)
	f := fold(t, leaves)
	r := rand.New(rand.NewPCG(5, 5))
	pick := func(words ...string) string {
		if r.IntN(3) > 0 {
			return ""
		}
		return words[r.IntN(len(words))]
	}
	at := func() time.Time {
		if r.IntN(3) > 0 {
			return time.Time{}
		}
		return leaftest.Start.Add(time.Duration(r.IntN(size*1100)-size*50) * time.Millisecond)
	}
	hits := 0
	for range questions {
		from, to := at(), at()
		if !from.IsZero() && !to.IsZero() && to.Before(from) {
			from, to = to, from
		}
		page := query.Page{Limit: 1 + r.IntN(256), Newest: r.IntN(2) == 0}
		tool := pick("a", "ab", "abc", "send_mail", "überweisen", "a\u00a0b", "A", "")
		agent := pick("agent", "agent-1", "agent-10", fmt.Sprintf("agent-%d", r.IntN(200)))
		rf := query.ReceiptFilter{Tool: tool, Agent: agent, Runtime: pick("runtime-1", "runtime-2", "runtime"),
			Status:    pick("requested", "failed", "unknown", "succeeded", "contradicted", "quarantine", "reversed"),
			Lifecycle: pick("attempt", "outcome", "reversal", "reconciliation", "review"),
			Kind:      pick("tool_action", "contract", "admission", "policy"), From: from, To: to}
		want := wantReceipts(m, rf, page.Newest)
		if d := cmp.Diff(want, gotReceipts(t, f, rf, page)); d != "" {
			t.Fatalf("%+v %+v: %s", rf, page, d)
		}
		af := query.AttemptFilter{Tool: tool, Agent: agent, Runtime: rf.Runtime, State: pick("open", "failed", "unknown", "succeeded", "reversed", "contradicted", "confirmed_absent"),
			From: from, To: to}
		ids := wantAttempts(m, af, page.Newest)
		if d := cmp.Diff(ids, gotAttempts(t, f, af, page)); d != "" {
			t.Fatalf("%+v %+v: %s", af, page, d)
		}
		if len(want) > 0 && len(ids) > 0 {
			hits++
		}
	}
	if hits < questions/4 {
		t.Errorf("%d of %d questions have an answer: ask better ones", hits, questions)
	}
}

// TestLOG05_RangesOfTimeAreHalfOpen asks at the very edges of a chunk's range.
func TestLOG05_RangesOfTimeAreHalfOpen(t *testing.T) {
	at := func(ms int) time.Time { return leaftest.Start.Add(time.Duration(ms) * time.Millisecond) }
	var es []*event.Event
	for i := range 3 {
		es = append(es, leaftest.Begin(fmt.Sprint(i), func(e *event.Event) { e.OccurredAt = event.FormatTime(at(i)) }))
	}
	f := fold(t, events(es...))
	for _, tc := range []struct {
		from, to time.Time
		want     []uint64
	}{
		{at(0), at(3), []uint64{0, 1, 2}}, {at(2), time.Time{}, []uint64{2}}, {at(3), time.Time{}, nil},
		{time.Time{}, at(0), nil}, {time.Time{}, at(1), []uint64{0}}, {at(1), at(2), []uint64{1}}, {at(1), at(1), nil},
	} {
		for _, tool := range []string{"", "send_mail"} {
			got := gotReceipts(t, f, query.ReceiptFilter{Tool: tool, From: tc.from, To: tc.to}, query.Page{Limit: 10})
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("from %v to %v: %s", tc.from, tc.to, d)
			}
		}
	}
}

func TestLOG05_NoNameIsAPrefixOfAnother(t *testing.T) {
	names := []string{"a", "ab", "abc", "b", "a b", "é", "e\u0301", "aa", "a\u00ff"}
	var es []*event.Event
	for i, n := range names {
		es = append(es, leaftest.Begin(fmt.Sprint(i), func(e *event.Event) { e.Action.Name, e.Source.AgentID, e.Source.RuntimeID = n, n, n }))
	}
	f := fold(t, events(es...))
	for i, n := range names {
		for field, filter := range map[string]query.ReceiptFilter{"tool": {Tool: n}, "agent": {Agent: n}, "runtime": {Runtime: n}} {
			if d := cmp.Diff([]uint64{uint64(i)}, gotReceipts(t, f, filter, query.Page{Limit: 10})); d != "" {
				t.Errorf("%s %q: %s", field, n, d)
			}
		}
		if d := cmp.Diff([]string{es[i].AttemptID}, gotAttempts(t, f, query.AttemptFilter{Tool: n, Agent: n}, query.Page{Limit: 10})); d != "" {
			t.Errorf("%q: %s", n, d)
		}
	}
}

// TestLOG06_TokensSurviveRestartsAndGrowth pages with a restart, and new leaves,
// between any two pages.
func TestLOG06_TokensSurviveRestartsAndGrowth(t *testing.T) {
	leaves := leaftest.History(41, 1500)
	f := fold(t, leaves[:600])
	f.log.Append(leaves[600:]...)
	size := 600
	filter := query.ReceiptFilter{Lifecycle: "attempt"}
	var forward, backward []uint64
	f1, b1 := query.Page{Limit: 16}, query.Page{Limit: 16, Newest: true}
	for fDone, bDone := false, false; !fDone || !bDone; {
		if !fDone {
			a, err := f.views.Receipts(t.Context(), filter, f1)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range a.Receipts {
				forward = append(forward, r.Index)
			}
			f1.Token, fDone = a.Next, a.Next == ""
		}
		if !bDone {
			a, err := f.views.Receipts(t.Context(), filter, b1)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range a.Receipts {
				backward = append(backward, r.Index)
			}
			b1.Token, bDone = a.Next, a.Next == ""
		}
		if err := f.db.Close(); err != nil {
			t.Fatal(err)
		}
		f.open(t)
		size = min(size+100, len(leaves))
		f.publish(t, size)
	}
	m := leaftest.Fold(leaves)
	if d := cmp.Diff(wantReceipts(m, filter, false), forward); d != "" {
		t.Error("oldest first:", d) // new leaves come at the end
	}
	if d := cmp.Diff(wantReceipts(leaftest.Fold(leaves[:600]), filter, true), backward); d != "" {
		t.Error("newest first:", d) // new leaves come before the start
	}
}

func TestLOG06_TokensAreBoundAndBounded(t *testing.T) {
	f := fold(t, leaftest.History(51, 900))
	first := func(filter query.ReceiptFilter, page query.Page) string {
		a, err := f.views.Receipts(t.Context(), filter, page)
		if err != nil || a.Next == "" {
			t.Fatalf("no next page: %v", err)
		}
		return a.Next
	}
	filter := query.ReceiptFilter{Lifecycle: "attempt"}
	token := first(filter, query.Page{Limit: 2})
	if len(token) > query.MaxToken {
		t.Errorf("token of %d bytes", len(token))
	}
	refused := func(name string, err error) {
		t.Helper()
		var e *query.InvalidError
		if !errors.As(err, &e) || e.Field != "pageToken" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, other := range map[string]query.ReceiptFilter{
		"no filter": {}, "other word": {Lifecycle: "outcome"}, "one more": {Lifecycle: "attempt", Tool: "a"},
		"other field": {Tool: "attempt"}, "time": {Lifecycle: "attempt", From: leaftest.Start},
	} {
		_, err := f.views.Receipts(t.Context(), other, query.Page{Limit: 2, Token: token})
		refused(name, err)
	}
	_, err := f.views.Receipts(t.Context(), filter, query.Page{Limit: 2, Token: token, Newest: true})
	refused("other order", err)
	_, err = f.views.Attempts(t.Context(), query.AttemptFilter{}, query.Page{Token: token})
	refused("other list", err)
	_, err = f.views.Parked(t.Context(), query.Page{Token: token})
	refused("parked", err)
	_, err = f.views.Dispositions(t.Context(), query.DispositionFilter{}, query.Page{Token: token})
	refused("dispositions", err)
	raw, _ := base64.RawURLEncoding.DecodeString(token)
	other := slices.Clone(raw)
	other[0]++
	for name, bad := range map[string]string{
		"garbage": "garbage", "not base64": "!!", "cut": token[:len(token)-2], "longer": token + "AA", "padded": token + "==",
		"too long": string(make([]byte, query.MaxToken+1)), "other version": base64.RawURLEncoding.EncodeToString(other),
		"no position":  base64.RawURLEncoding.EncodeToString(raw[:17]),
		"end of range": base64.RawURLEncoding.EncodeToString(append(slices.Clone(raw[:17]), 255, 255, 255, 255, 255, 255, 255, 255)),
	} {
		_, err := f.views.Receipts(t.Context(), filter, query.Page{Limit: 2, Token: bad})
		refused(name, err)
	}
	// Another limit is fine.
	if a, err := f.views.Receipts(t.Context(), filter, query.Page{Limit: 3, Token: token}); err != nil || len(a.Receipts) != 3 {
		t.Errorf("another limit: %v", err)
	}
}
