package leaftest

import (
	"fmt"
	"strconv"
	"time"

	"counterfoil/ledger/event"
)

// Actions yields the leaves of n attempts with an outcome each; outcomes come
// lag attempts later.
func Actions(n, lag int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		begin := func(i int) *event.Event {
			return Begin(fmt.Sprintf("call-%d", i), func(e *event.Event) {
				t := Start.Add(time.Duration(i) * time.Millisecond)
				e.OccurredAt, e.CapturedAt = event.FormatTime(t), event.FormatTime(t)
				e.Action.Name = "tool-" + strconv.Itoa(i*7%23)
				e.Source.AgentID = "agent-" + strconv.Itoa(i*13%101)
				e.Commitments = map[string]string{"input": Digest(e).String()}
			})
		}
		for i := range n + lag {
			if i < n && !yield(Unsigned(begin(i))) {
				return
			}
			if j := i - lag; j >= 0 {
				status := event.StatusSucceeded
				if j%10 == 0 {
					status = event.StatusUnknown
				}
				o := After(begin(j), event.Outcome, status, "observed", nil)
				o.Tags["result"] = Tag(strconv.Itoa(j))
				if !yield(Unsigned(o)) {
					return
				}
			}
		}
	}
}
