package audit

import (
	"maps"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
)

// counts is what the fold adds up. Words without a count are absent.
type counts struct {
	// Counted is the number of leaves whose events count, Parked of those that
	// do not, by kind.
	Counted uint64          `json:"counted"`
	Parked  map[Kind]uint64 `json:"parked"`
	// NotJudged is the number of leaves whose chain began before the first leaf.
	NotJudged uint64 `json:"notJudged"`
	// Events by lifecycle, Attempts by state word, Dispositions by word: the latest
	// of each contract and admission.
	Events       map[event.Lifecycle]uint64 `json:"events"`
	Attempts     map[string]uint64          `json:"attempts"`
	Dispositions map[string]uint64          `json:"dispositions"`
}

func newCounts() counts {
	return counts{Parked: map[Kind]uint64{}, Events: map[event.Lifecycle]uint64{}, Attempts: map[string]uint64{}, Dispositions: map[string]uint64{}}
}

func (c *counts) parked() uint64 { return total(c.Parked) }

// moved counts a subject, or an attempt, from one word to another; "" is none.
func moved(m map[string]uint64, from, to string) {
	if from != "" {
		if m[from]--; m[from] == 0 {
			delete(m, from)
		}
	}
	if to != "" {
		m[to]++
	}
}

func total[K comparable](m map[K]uint64) (n uint64) {
	for v := range maps.Values(m) {
		n += v
	}
	return n
}

// stateOf is the state word of an attempt, "" before it has begun.
func stateOf(s *lifecycle.State) string {
	if len(s.Entries) == 0 {
		return ""
	}
	return s.Summary().State
}
