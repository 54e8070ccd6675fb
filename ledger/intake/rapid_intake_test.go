package intake_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/internal/testkit/rapidkit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
)

// intakeModel is what must be on a stream: one event for each source event, the
// first content that was sent under it, and at most one outcome of an attempt.
type intakeModel struct {
	t     *testing.T
	s     *shared
	sites []*site
	dirs  []string
	run   int // apart from the other checks on the same stream

	begun   map[string]recorded             // by invocation
	results map[string]map[string]*recorded // by attempt and source event
	order   []event.Digest                  // of the events, as they came
	first   uint64                          // stream sequence before them
}

// recorded is an event and what it was made from.
type recorded struct {
	content string
	digest  event.Digest
	attempt string
	seq     uint64
}

// answered compares an answer with what is recorded for its source event, nil if
// nothing is, and returns what is recorded then.
func (m *intakeModel) answered(rt *rapid.T, res *intake.Result, err error, before *recorded, content string, lawful bool) *recorded {
	var conflict *intake.Conflict
	var unlawful *intake.Unlawful
	switch {
	case before != nil && before.content == content:
		if err != nil || res.New || res.Seq != before.seq || res.Rec.Digest() != before.digest {
			rt.Fatalf("the same again: %+v, %v; want the event at %d", res, err, before.seq)
		}
	case before != nil:
		if !errors.As(err, &conflict) || conflict.EventID != before.digest.EventID() || conflict.Stored == conflict.Offered {
			rt.Fatalf("another content: %+v, %v; want a conflict with %s", res, err, before.digest.EventID())
		}
	case !lawful:
		if !errors.As(err, &unlawful) {
			rt.Fatalf("a second outcome: %+v, %v; want a refusal", res, err)
		}
	default:
		if want := m.first + uint64(len(m.order)) + 1; err != nil || !res.New || res.Seq != want {
			rt.Fatalf("a new event: %+v, %v; want it at %d", res, err, want)
		}
		m.order = append(m.order, res.Rec.Digest())
		return &recorded{content, res.Rec.Digest(), res.Rec.Event.AttemptID, res.Seq}
	}
	return before
}

// site draws one of the intakes, whose stream may lose the answer to what it
// publishes next, stored or not.
func (m *intakeModel) site(rt *rapid.T) *site {
	x := m.sites[rapid.IntRange(0, len(m.sites)-1).Draw(rt, "site")]
	switch rapid.SampledFrom([]string{"none", "none", "stored", "not stored"}).Draw(rt, "lost answer") {
	case "stored":
		m.seen(rt, x) // so that it wins the race
		m.s.lose <- true
	case "not stored":
		m.s.lose <- false
	}
	return x
}

// seen waits until an intake knows what is recorded. Only an append asks for it: a
// begin finds its way by the races that it loses.
func (m *intakeModel) seen(rt *rapid.T, x *site) *site {
	if err := x.index.WaitFor(context.Background(), m.first+uint64(len(m.order))); err != nil {
		rt.Fatal(err)
	}
	return x
}

// calm takes back the loss of an answer that nothing was published for.
func (m *intakeModel) calm() {
	select {
	case <-m.s.lose:
	default:
	}
}

// TestEVI17_ATT26_INV1_IntakeAgainstAModel sends begins and outcomes, new, again
// and with other content, to two intakes of one stream that lose answers and start
// again with and without their index, in any order.
func TestEVI17_ATT26_INV1_IntakeAgainstAModel(t *testing.T) {
	s := newShared(t)
	runs := 0
	rapidkit.Check(t, 15, func(rt *rapid.T) {
		runs++
		m := &intakeModel{t: t, s: s, run: runs, begun: map[string]recorded{}, results: map[string]map[string]*recorded{},
			dirs: []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}}
		st, err := s.stream.State(context.Background())
		if err != nil {
			rt.Fatal(err)
		}
		m.first = st.Last
		for _, dir := range m.dirs {
			m.sites = append(m.sites, s.site(dir))
		}
		defer func() {
			for _, x := range m.sites {
				x.stop()
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){"": m.whole, "begin": m.begin, "outcome": m.outcome, "restart": m.restart})
	})
}

// whole finds every event of the model on the stream, in its order, and no other.
func (m *intakeModel) whole(rt *rapid.T) {
	st, err := m.s.stream.State(context.Background())
	if err != nil || st.Last != m.first+uint64(len(m.order)) {
		rt.Fatalf("the stream ends at %d, %v; want %d", st.Last, err, m.first+uint64(len(m.order)))
	}
	if n := len(m.order); n > 0 {
		msg, err := m.s.stream.Get(context.Background(), st.Last)
		if err != nil {
			rt.Fatal(err)
		}
		rec, err := event.ParseRecord(msg.Body)
		if err != nil || rec.Digest() != m.order[n-1] {
			rt.Fatalf("the last event is %v, %v; want %v", rec, err, m.order[n-1])
		}
	}
}

func (m *intakeModel) begin(rt *rapid.T) {
	inv := fmt.Sprintf("run-%d-call-%d", m.run, rapid.IntRange(0, 5).Draw(rt, "call"))
	content := rapid.SampledFrom([]string{`{"n":1}`, `{"n":2}`}).Draw(rt, "content")
	var before *recorded
	if b, ok := m.begun[inv]; ok {
		before = &b
	}
	res, err := m.site(rt).Begin(context.Background(), parseBegin(m.t, inv, content))
	m.calm()
	now := m.answered(rt, res, err, before, content, true)
	m.begun[inv] = *now
	if before == nil {
		m.results[now.attempt] = map[string]*recorded{}
	}
}

func (m *intakeModel) outcome(rt *rapid.T) {
	inv := fmt.Sprintf("run-%d-call-%d", m.run, rapid.IntRange(0, 5).Draw(rt, "call"))
	b, ok := m.begun[inv]
	if !ok {
		rt.Skip("not begun")
	}
	id := rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "source event")
	status := rapid.SampledFrom([]string{"succeeded", "failed", "unknown"}).Draw(rt, "status")
	rest := `"lifecycle":"outcome","status":"` + status + `","privateResult":` + rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "result")
	there := m.results[b.attempt]
	res, err := m.seen(rt, m.site(rt)).Append(context.Background(), parseAppend(m.t, b.attempt, id, rest))
	m.calm()
	if now := m.answered(rt, res, err, there[id], rest, len(there) == 0); now != nil {
		there[id] = now
	}
}

// restart stops an intake and makes it anew, at times without its index.
func (m *intakeModel) restart(rt *rapid.T) {
	i := rapid.IntRange(0, len(m.sites)-1).Draw(rt, "site")
	m.sites[i].stop()
	if rapid.Bool().Draw(rt, "without its index") {
		m.dirs[i] = filepath.Join(m.t.TempDir(), "fresh")
	}
	m.sites[i] = m.s.site(m.dirs[i])
}
