package query_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
	"counterfoil/projections/query"
	"counterfoil/projections/receipts"
)

// TestLOG15_TamperedRowsAreDetectedAgainstTheLeaf changes one thing at a time in
// the database and reads it back through the query API.
func TestLOG15_TamperedRowsAreDetectedAgainstTheLeaf(t *testing.T) {
	begun := leaftest.Begin("call", nil)
	outcome := leaftest.After(begun, event.Outcome, event.StatusFailed, "o", nil)
	other := leaftest.Begin("other", nil)
	otherOutcome := leaftest.After(other, event.Outcome, event.StatusSucceeded, "o", nil)
	leaves := events(begun, outcome, other, otherOutcome)
	id := leaftest.Digest(outcome).EventID()
	row := func(t *testing.T, f *fixture, index uint64) receipts.Row {
		s, err := f.db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := receipts.ReadRow(s, index)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	raw := func(t *testing.T, f *fixture, prefix string, n int) (key, value []byte) {
		s, err := f.db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		it := s.Iter([]byte(prefix), false)
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				t.Fatal(err)
			}
			if (prefix == "a") == strings.Contains(string(v), "failed") || prefix != "a" && n == 0 {
				return append([]byte(prefix), it.Key()...), append([]byte(nil), v...)
			}
		}
		t.Fatal("no such row")
		return nil, nil
	}
	change := func(edit func(r *receipts.Row)) func(t *testing.T, f *fixture) (key, value []byte) {
		return func(t *testing.T, f *fixture) ([]byte, []byte) {
			r := row(t, f, 1)
			edit(&r)
			return receipts.RowKey(1), r.Append(nil)
		}
	}
	for name, tamper := range map[string]func(t *testing.T, f *fixture) (key, value []byte){
		"status":     change(func(r *receipts.Row) { r.Status = event.StatusSucceeded }),
		"tool":       change(func(r *receipts.Row) { r.Tool = "read_mail" }),
		"agent":      change(func(r *receipts.Row) { r.Agent = "agent-2" }),
		"runtime":    change(func(r *receipts.Row) { r.Runtime = "runtime-2" }),
		"lifecycle":  change(func(r *receipts.Row) { r.Lifecycle = event.Review }),
		"revision":   change(func(r *receipts.Row) { r.Revision = 3 }),
		"kind":       change(func(r *receipts.Row) { r.Kind = event.Policy }),
		"subject":    change(func(r *receipts.Row) { r.Subject = "x" }),
		"attempt":    change(func(r *receipts.Row) { r.AttemptID = other.AttemptID }),
		"occurredAt": change(func(r *receipts.Row) { r.OccurredAt = r.OccurredAt.Add(time.Hour) }),
		"capturedAt": change(func(r *receipts.Row) { r.CapturedAt = r.CapturedAt.Add(time.Millisecond) }),
		"leaf hash":  change(func(r *receipts.Row) { r.LeafHash[0]++ }),
		"digest":     change(func(r *receipts.Row) { r.Digest[0]++ }),
		"garbage": func(*testing.T, *fixture) ([]byte, []byte) {
			return receipts.RowKey(1), []byte("garbage")
		},
		"row of another leaf": func(t *testing.T, f *fixture) ([]byte, []byte) {
			r := row(t, f, 3)
			return receipts.RowKey(1), r.Append(nil)
		},
		"event key": func(*testing.T, *fixture) ([]byte, []byte) {
			return receipts.EventKey(leaftest.Digest(outcome)), kv.AppendUint64(nil, 3)
		},
		"event key to nowhere": func(*testing.T, *fixture) ([]byte, []byte) {
			return receipts.EventKey(leaftest.Digest(outcome)), kv.AppendUint64(nil, 99)
		},
		"state": func(t *testing.T, f *fixture) ([]byte, []byte) {
			k, v := raw(t, f, "a", 0)
			return k, []byte(strings.Replace(string(v), "\x06failed", "\x07unknown", 1))
		},
		"attempt row cut": func(t *testing.T, f *fixture) ([]byte, []byte) {
			k, v := raw(t, f, "a", 0)
			return k, v[:len(v)-1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fold(t, leaves)
			if err := show(t, f, id, begun.AttemptID); err != nil {
				t.Fatal(err) // nothing is wrong yet
			}
			k, v := tamper(t, f)
			b, err := f.db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Set(k, v); err != nil {
				t.Fatal(err)
			}
			if err := b.Commit(b.Cursor()); err != nil {
				t.Fatal(err)
			}
			err = show(t, f, id, begun.AttemptID)
			var e *query.TamperedError
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want a tampered row", err)
			}
			attemptOnly := e.EventID == "" && e.AttemptID == begun.AttemptID
			if !attemptOnly && name != "digest" && (e.EventID != id || e.Index != 1 && !strings.HasPrefix(name, "event key")) {
				t.Errorf("names event %q, attempt %q, leaf %d: %v", e.EventID, e.AttemptID, e.Index, e)
			}
			// What was not touched is still shown.
			if err := show(t, f, leaftest.Digest(other).EventID(), other.AttemptID); err != nil && name != "event key" {
				t.Errorf("another event: %v", err)
			}
		})
	}
}

// show reads an event and an attempt as an auditor would.
func show(t *testing.T, f *fixture, eventID, attemptID string) error {
	r, err := f.views.Receipt(t.Context(), eventID)
	if err != nil {
		return err
	}
	if _, _, err := f.views.Load(t.Context(), r.Receipt, r.TreeSize); err != nil {
		return err
	}
	a, err := f.views.Attempt(t.Context(), attemptID)
	if err != nil {
		return err
	}
	_, err = f.views.LoadAttempt(t.Context(), a)
	return err
}

func TestLOG15_ALeafThatDiffersFromTheRowIsNotShown(t *testing.T) {
	begun := leaftest.Begin("call", nil)
	f := fold(t, events(begun))
	for name, leaf := range map[string][]byte{"other event": leaftest.Leaf(leaftest.Begin("x", nil)), "empty": nil, "garbage": []byte("g")} {
		f.log.OnRead(func(uint64, []byte) ([]byte, error) { return leaf, nil })
		err := show(t, f, leaftest.Digest(begun).EventID(), begun.AttemptID)
		var e *query.TamperedError
		if !errors.As(err, &e) || e.Index != 0 || e.EventID != leaftest.Digest(begun).EventID() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
