package app

import (
	"fmt"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/telemetry"
	"counterfoil/witness/client"
)

const unwitnessed = "see docs/runbooks/unwitnessed.md"

// witnessChecks adds what witnesses say to a status: one check for the quorum,
// and one a witness. A quorum that is not met, and a witness that does not
// answer, are told and do not make the ledger unready: events are taken,
// logged and published all the same. An incident does, until the witness
// cosigns again: somebody says that this log is not what it was.
func (l *Ledger) witnessChecks(st *api.Status) {
	if l.gather == nil {
		return
	}
	g := l.gather.Status()
	st.WitnessedSize = g.Witnessed
	quorum := api.Check{Name: "witnesses", OK: true}
	switch stopped := l.gather.Stopped(); {
	case stopped != nil:
		quorum.OK, quorum.Detail, quorum.Hint = false, stopped.Error(), unwitnessed
	case g.Need == 0:
		quorum.Detail = "the policy asks for no quorum: nothing is witnessed"
	case g.Published == 0:
		quorum.Detail = "nothing is published yet"
	case g.Witnessed == g.Published:
		quorum.Detail = fmt.Sprintf("checkpoint of size %d meets the quorum", g.Witnessed)
	case g.Witnessed == 0:
		quorum.Detail = fmt.Sprintf("no checkpoint meets the quorum yet, the newest has %d of %d", g.Have, g.Need)
		quorum.Hint = unwitnessed
	default:
		quorum.Detail = fmt.Sprintf("checkpoint of size %d meets the quorum; %d leaves behind, the newest checkpoint has %d of %d",
			g.Witnessed, g.Published-min(g.Witnessed, g.Published), g.Have, g.Need)
		quorum.Hint = unwitnessed
	}
	if g.Unsaved != nil {
		quorum.Detail += "; " + g.Unsaved.Error()
	}
	st.Checks = append(st.Checks, quorum)
	for _, w := range g.Witnesses {
		st.Checks = append(st.Checks, l.witnessCheck(w))
	}
}

func (l *Ledger) witnessCheck(w client.WitnessStatus) api.Check {
	c := api.Check{Name: "witness " + w.Name, OK: w.Open == nil}
	switch {
	case w.Size > 0:
		c.Detail = fmt.Sprintf("cosigned size %d %s ago", w.Size, l.cfg.Now().Sub(w.Last).Round(time.Second))
	case !w.Asked:
		c.Detail = "has no URL in the policy: it cannot be asked"
	default:
		c.Detail = "has cosigned nothing yet"
	}
	if !w.Counts {
		c.Detail += "; the quorum does not ask for it"
	}
	if w.Open == nil && w.Trouble != nil {
		c.Detail, c.Hint = c.Detail+"; "+w.Trouble.Error(), unwitnessed
	}
	if w.Incidents > 0 {
		c.Detail += fmt.Sprintf("; incidents kept: %d", w.Incidents)
	}
	if w.Open != nil {
		c.Detail, c.Hint = c.Detail+"; incident "+w.Open.String(), unwitnessed
	}
	return c
}

func (l *Ledger) witnessMetrics() *telemetry.Witnesses {
	if l.gather == nil {
		return nil
	}
	g := l.gather.Status()
	m := &telemetry.Witnesses{WitnessedSize: g.Witnessed, Stopped: l.gather.Stopped() != nil}
	for _, w := range g.Witnesses {
		if w.Asked {
			m.Each = append(m.Each, telemetry.Witness{Name: w.Name, Size: w.Size, Last: w.Last, Failures: w.Failures, Incidents: w.Incidents, Open: w.Open != nil})
		}
	}
	return m
}
