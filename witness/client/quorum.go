package client

import (
	"slices"

	"counterfoil/ledger/trust"
)

// quorum is what a policy asks for.
type quorum struct {
	policy *trust.Policy
	index  map[string]int // witness by name
	counts []bool         // by witness: the quorum asks for it, perhaps through groups
	need   int            // the fewest witnesses that meet it; 0 for none
}

func newQuorum(p *trust.Policy) quorum {
	q := quorum{policy: p, index: map[string]int{}, counts: make([]bool, len(p.Witnesses))}
	cost := map[string]int{}
	members := map[string][]string{}
	for i, w := range p.Witnesses {
		q.index[w.Name], cost[w.Name] = i, 1
	}
	for _, g := range p.Groups { // members stand before their group
		var costs []int
		for _, m := range g.Members {
			costs = append(costs, cost[m])
		}
		slices.Sort(costs)
		for _, c := range costs[:g.K] {
			cost[g.Name] += c
		}
		members[g.Name] = g.Members
	}
	q.need = cost[p.Quorum]
	for ask := []string{p.Quorum}; len(ask) > 0; ask = ask[1:] {
		if i, ok := q.index[ask[0]]; ok {
			q.counts[i] = true
		}
		ask = append(ask, members[ask[0]]...)
	}
	return q
}

// met reports whether the witnesses that signed accepts meet the quorum. A
// quorum that asks for nobody is never met: nobody witnessed anything.
func (q quorum) met(signed func(i int) bool) bool {
	return q.need > 0 && q.policy.Satisfied(func(name string) bool { return signed(q.index[name]) })
}

// have is how many of the witnesses that the quorum asks for signed.
func (q quorum) have(signed func(i int) bool) (n int) {
	for i, counts := range q.counts {
		if counts && signed(i) {
			n++
		}
	}
	return n
}
