package review

import (
	"cmp"
	"slices"
	"time"

	"counterfoil/ledger/event"
)

// Selection says which contracts a run is about.
type Selection struct {
	// Receipts are digests of receipts; empty selects all.
	Receipts []string
	// OnlyDue leaves out contracts that nothing but a schedule asks for. One that
	// nobody reviewed yet is always due.
	OnlyDue bool
	// Trigger is recorded for all; empty records the weightiest trigger of each
	// contract, or schedule.
	Trigger Trigger
	// Budget is the most contracts that the run reviews; 0 is no limit.
	Budget int
	// State is what triggers are found by.
	State State
	// Now is what ages are counted to.
	Now time.Time
}

// Candidate is a contract with why it is reviewed.
type Candidate struct {
	Contract
	Trigger Trigger
	// Due are all triggers, the weightiest first.
	Due []Trigger
}

// Plan is the work of a run, in order.
type Plan struct {
	Review []Candidate
	// Deferred are beyond the budget: neither passed nor failed (OPS-10).
	Deferred []Candidate
}

// New makes a plan. It looks at nothing but what the contracts' rows say, so no
// evidence is opened for what is not reviewed (OPS-05, OPS-06). The order is by
// impact, privileged first; then by days since the newest review of the
// receipt, never first; then by the weight of the trigger; then by name.
func (s Selection) New(contracts []Contract) Plan {
	var all []Candidate
	for _, c := range contracts {
		if len(s.Receipts) > 0 && !slices.Contains(s.Receipts, c.Terms.Receipt) {
			continue
		}
		due := DueOf(&c, s.State)
		if s.OnlyDue && len(due) == 0 && !c.neverReviewed() {
			continue
		}
		trigger := s.Trigger
		if trigger == "" {
			trigger = event.TriggerSchedule
			if len(due) > 0 {
				trigger = due[0]
			}
		}
		all = append(all, Candidate{c, trigger, due})
	}
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(weightOfImpact[a.Terms.Impact], weightOfImpact[b.Terms.Impact]),
			cmp.Compare(s.days(&b.Contract), s.days(&a.Contract)),
			cmp.Compare(weight(a.Due), weight(b.Due)),
			cmp.Compare(a.Name, b.Name))
	})
	n := len(all)
	if s.Budget > 0 {
		n = min(n, s.Budget)
	}
	return Plan{Review: all[:n:n], Deferred: all[n:]}
}

var weightOfImpact = map[string]int{event.ImpactPrivileged: 0, event.ImpactStandard: 1, event.ImpactLow: 2}

// weightOf orders triggers: the weightiest first.
var weightOf = map[Trigger]int{
	event.TriggerIncident: 0, event.TriggerImpact: 1, event.TriggerPolicy: 2, event.TriggerVerifier: 3, event.TriggerRetention: 4,
}

func weight(due []Trigger) int {
	if len(due) == 0 {
		return len(weightOf)
	}
	return weightOf[due[0]]
}

func (c *Contract) neverReviewed() bool { return c.Last == nil || c.Last.Receipt != c.Terms.Receipt }

// never is more days than any clock gives.
const never = 1 << 40

// days is the age of the newest review of the receipt. Whole days, so that the
// trigger has its say among those of a day.
func (s Selection) days(c *Contract) int64 {
	if c.neverReviewed() {
		return never
	}
	return int64(s.Now.Sub(c.Last.At) / (24 * time.Hour))
}
