package app

import (
	"context"

	"counterfoil/projections/query"
)

// unfinished counts the attempts in a state, with the age in seconds of the
// oldest, as the views have them. What they cannot say shows in the ledger's
// checks.
func (l *Ledger) unfinished(state string) (count, oldest float64) {
	ctx := context.Background()
	counts, err := l.views.query.Counts(ctx)
	if err != nil || counts.States[state] == 0 {
		return 0, 0
	}
	count = float64(counts.States[state])
	first, err := l.views.query.Attempts(ctx, query.AttemptFilter{State: state}, query.Page{Limit: 1})
	if err != nil || len(first.Attempts) == 0 {
		return count, 0
	}
	return count, max(0, l.cfg.Now().Sub(first.Attempts[0].First.CapturedAt).Seconds())
}
