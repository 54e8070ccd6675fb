package leaftest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"counterfoil/ledger/event"
)

// History makes n leaves that a seed determines: attempts of several kinds,
// tools and agents with outcomes, corrections, reversals, reconciliations and
// reviews, lawful for the most part, and now and then a leaf of each sort that
// does not count.
func History(seed uint64, n int) [][]byte {
	h := &history{r: rand.New(rand.NewPCG(seed, 1))}
	for len(h.leaves) < n {
		h.step()
	}
	return h.leaves[:n]
}

type history struct {
	r      *rand.Rand
	leaves [][]byte
	// open attempts: all events so far, oldest first
	attempts [][]*event.Event
	begun    int
}

func pick[T any](r *rand.Rand, s ...T) T { return s[r.IntN(len(s))] }

func (h *history) add(e *event.Event) { h.leaves = append(h.leaves, Leaf(e)) }

// now rises with the leaf index, apart from sources whose clocks are off.
func (h *history) times(e *event.Event) {
	t := Start.Add(time.Duration(len(h.leaves)) * time.Second)
	e.CapturedAt = event.FormatTime(t)
	e.OccurredAt = event.FormatTime(t.Add(pick(h.r, 0, 0, 0, 0, 0, 45*time.Second, 10*time.Minute, -72*time.Hour)))
}

func (h *history) step() {
	switch x := h.r.IntN(100); {
	case x < 35 || len(h.attempts) == 0:
		h.begin()
	case x < 88:
		h.goOn()
	default:
		h.poison()
	}
}

func (h *history) begin() {
	e := Begin(fmt.Sprintf("call-%d", h.begun), func(e *event.Event) {
		h.times(e)
		e.Action.Name = pick(h.r, "a", "ab", "abc", "send_mail", "überweisen", "a\u00a0b")
		e.Source.AgentID = pick(h.r, "agent", "agent-1", "agent-10", fmt.Sprintf("agent-%d", h.r.IntN(200)))
		e.Source.RuntimeID = pick(h.r, "runtime-1", "runtime-2")
		e.Subject.Kind = pick(h.r, event.ToolAction, event.ToolAction, event.ToolAction, event.Contract, event.Admission, event.Retrieval)
		e.Subject.ID = pick(h.r, "s", "su", "subject-"+fmt.Sprint(h.r.IntN(20)))
		if h.r.IntN(3) == 0 {
			e.Tags["expectedEffect"] = Tag("effect")
		}
	})
	h.begun++
	h.add(e)
	h.attempts = append(h.attempts, []*event.Event{e})
}

// goOn adds an event to an attempt. It does not look at the rules closely: what
// breaks them is parked.
func (h *history) goOn() {
	i := h.r.IntN(len(h.attempts))
	if len(h.attempts) > 40 {
		i = len(h.attempts) - 1 - h.r.IntN(40)
	}
	chain := h.attempts[i]
	last, target := chain[len(chain)-1], chain[h.r.IntN(len(chain))]
	id := fmt.Sprintf("event-%d", len(chain))
	var e *event.Event
	switch h.r.IntN(8) {
	case 0, 1, 2, 3:
		e = After(last, event.Outcome, pick(h.r, event.StatusSucceeded, event.StatusFailed, event.StatusUnknown, event.StatusNotStarted), id, nil)
		if target.Lifecycle == event.Outcome {
			e.Refs = map[string]string{"corrects": Digest(target).EventID()}
		}
		e.Tags["result"] = Tag(pick(h.r, "effect", "other"))
	case 4:
		e = After(last, event.Reversal, pick(h.r, event.StatusReversed, event.StatusFailed, event.StatusUnknown), id, Refers("reverses", target))
	case 5, 6:
		observed := pick(h.r, event.ObservedPresent, event.ObservedAbsent, event.ObservedUnreachable)
		status := map[string]string{event.ObservedPresent: pick(h.r, event.StatusConfirmedCommitted, event.StatusContradicted, event.StatusStillUnknown),
			event.ObservedAbsent: event.StatusConfirmedAbsent, event.ObservedUnreachable: event.StatusStillUnknown}[observed]
		readback := ""
		if observed == event.ObservedPresent {
			readback = Tag(pick(h.r, "effect", "other"))
		}
		e = After(last, event.Reconciliation, status, id, ReadBack(observed, readback))
	default:
		words := event.Statuses(event.Review, last.Subject.Kind)
		e = After(last, event.Review, pick(h.r, words...), id, Refers("reviews", target))
	}
	h.times(e)
	h.add(e)
	if lawful(chain, e) {
		h.attempts[i] = append(chain[:len(chain):len(chain)], e)
	}
}

func (h *history) poison() {
	chain := h.attempts[h.r.IntN(len(h.attempts))]
	e := chain[h.r.IntN(len(chain))]
	switch h.r.IntN(8) {
	case 0:
		h.leaves = append(h.leaves, []byte("garbage"))
	case 1:
		h.leaves = append(h.leaves, nil)
	case 2:
		h.leaves = append(h.leaves, Leaf(e)) // a duplicate
	case 3:
		h.leaves = append(h.leaves, LeafBy(Other, Begin(fmt.Sprintf("forged-%d", len(h.leaves)), nil)))
	case 4:
		h.add(Begin(fmt.Sprintf("far-%d", len(h.leaves)), func(e *event.Event) { e.Ledger = "other.example/log" }))
	case 5:
		h.add(Begin(fmt.Sprintf("foreign-%d", len(h.leaves)), func(e *event.Event) { e.Tenant = "other" }))
	case 6: // a second attempt in the scope
		h.add(Begin(chain[0].Source.InvocationID, func(b *event.Event) {
			b.Source.RuntimeID = chain[0].Source.RuntimeID
			b.AttemptID = event.NewAttemptID(event.ScopeOf(Tenant, b.Source.RuntimeID, b.Source.InvocationID).Shard(), [15]byte{1})
		}))
	case 7: // an event of an attempt that never began
		h.add(After(Begin(fmt.Sprintf("ghost-%d", len(h.leaves)), nil), event.Outcome, event.StatusFailed, "e", nil))
	}
}
