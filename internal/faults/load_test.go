package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/testkit/fsck"
)

// load sends begins and outcomes from some clients until stop is closed. Calls
// that are not acknowledged are given to refused.
func (p *process) load(got *acks, name string, clients int, stop <-chan struct{}, refused func(code int, body []byte, err error)) (done func()) {
	var wg sync.WaitGroup
	for w := range clients {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-p.ended:
					return
				default:
				}
				code, b, err := p.call(http.MethodPost, "/v1/attempts", beginBody(fmt.Sprintf("%s-w%d-%d", name, w, i)))
				if err != nil || code != http.StatusCreated {
					refused(code, b, err)
					if err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond) // as a caller does that is told to come later
					continue
				}
				var r receipt
				if err := json.Unmarshal(b, &r); err != nil {
					p.t.Errorf("answer %q: %v", b, err)
					return
				}
				got.add(r)
				if o, ok := p.send("/v1/attempts/"+r.AttemptID+"/events", outcomeBody(r.AttemptID, "succeeded")); ok {
					got.add(o)
				}
			}
		})
	}
	return wg.Wait
}

// wholeAfterwards stops the ledger, checks its log and views with other means,
// and finds every acknowledged event again after a restart.
func (p *process) wholeAfterwards(got *acks) {
	t := p.t.(*testing.T)
	t.Helper()
	st, vkey := p.settled(), trustVKey(t, p)
	p.stop()
	fsck.Check(t, filepath.Join(p.dir, "log"), st.Origin, vkey)
	rebuildEqual(t, p.dir)
	q := start(t, p.dir)
	got.check(t, q)
	q.stop()
}

// tail is the end of a long output.
func tail(s string) string { return s[max(0, len(s)-4000):] }
