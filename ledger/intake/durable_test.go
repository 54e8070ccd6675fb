package intake_test

import (
	"errors"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
)

// TestLOG14_KeysAreDurableBeforeTheEventIsPublished: a stream or a log may outlive
// what the vault did not flush, and an event without its key takes nothing more, and
// answers no repeat. A flush that fails records nothing, and the same begin is
// recorded once the vault is well.
func TestLOG14_KeysAreDurableBeforeTheEventIsPublished(t *testing.T) {
	s := newShared(t)
	s.alone = true
	in := s.site(t.TempDir())
	b := parseBegin(t, "call-1", `{"amount":"1"}`)
	b.KeepBody = true

	broken := errors.New("input/output error")
	s.broken.Store(&broken)
	if _, err := in.Begin(t.Context(), b); !errors.Is(err, broken) {
		t.Fatalf("a begin whose key is not durable: %v", err)
	}
	if st, err := s.stream.State(t.Context()); err != nil || st.Last != 0 {
		t.Fatalf("the stream ends at %d, %v; nothing may be published", st.Last, err)
	}
	s.broken.Store(nil)
	res, err := in.Begin(t.Context(), b)
	if err != nil || !res.New {
		t.Fatalf("the same begin, once the vault is well: %+v %v", res, err)
	}

	out := parseOutcome(t, res.Rec.Event.AttemptID)
	s.broken.Store(&broken)
	if _, err := in.Append(t.Context(), out); !errors.Is(err, broken) {
		t.Fatalf("an outcome whose body is not durable: %v", err)
	}
	s.broken.Store(nil)
	if _, err := in.Append(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if n := s.loose.Load(); n != 0 {
		t.Errorf("%d keys or bodies were never flushed", n)
	}
	if _, state, err := in.Attempt(t.Context(), res.Rec.Event.AttemptID); err != nil || state.Revision() != 2 {
		t.Errorf("the attempt has %v, %v", state, err)
	}
}

func parseOutcome(t testing.TB, attempt string) *intake.Append {
	t.Helper()
	a, err := intake.ParseAppend([]byte(`{"lifecycle":"`+event.Outcome+`","sourceEventId":"done","occurredAt":"2026-07-28T00:00:01.000Z","status":"succeeded","privateResult":{"ok":true}}`), attempt)
	if err != nil {
		t.Fatal(err)
	}
	a.KeepBody = true
	return a
}
