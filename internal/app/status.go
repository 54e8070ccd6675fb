package app

import (
	"context"
	"fmt"
	"time"

	"counterfoil/internal/api"
)

// lagLimit is how far a stage may be behind before the ledger is unready.
const lagLimit = 100_000

// Status tells where everything is and what is wrong.
func (l *Ledger) Status(ctx context.Context) api.Status {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	st := api.Status{
		SchemaVersion: api.StatusSchema, Origin: l.id.Origin, Tenant: l.id.Tenant, Version: l.cfg.Version, Durability: l.cfg.Durability,
		StreamLast: l.stream.LastSeen(), LogSize: l.seq.Size(), PublishedSize: l.pub.Size(), ViewSize: l.views.size(), Parked: l.views.parked(),
	}
	add := func(name string, err error, ok, hint string) {
		c := api.Check{Name: name, OK: err == nil, Detail: ok}
		if err != nil {
			c.Detail, c.Hint = err.Error(), hint
		}
		st.Checks = append(st.Checks, c)
	}
	add("disk", l.disk.admit(l.waiting()), fmt.Sprintf("%d bytes free, %d in reserve", l.disk.free.Load(), l.disk.keep(0)),
		"free some space; evidence is not refused for its content, and intake goes on by itself")
	add("directory", nil, fmt.Sprintf("data format %d", l.id.FormatVersion), "") // another one does not start
	add("stream", l.stream.Healthy(ctx), fmt.Sprintf("last sequence %d", st.StreamLast), "see the ledger's log; events that were accepted are kept")
	add("log", l.logTrouble(st), fmt.Sprintf("%d leaves", st.LogSize), "see the ledger's log; nothing is skipped, the log goes on where it is")
	add("tiles", l.tiles.Trouble(ctx), "no read met a damaged file", api.DamageHint)
	add("publisher", l.pub.Trouble(), fmt.Sprintf("checkpoint of size %d, signed or found %s ago", st.PublishedSize, l.cfg.Now().Sub(l.pub.At()).Round(time.Second)), "see docs/runbooks/unpublished.md")
	l.clusterCheck(&st)
	l.witnessChecks(&st)
	add("index", l.fatalOf("index"), "follows the stream", "restart the ledger; if it persists, delete the index directory: it is rebuilt")
	add("views", l.views.trouble(st), fmt.Sprintf("tree size %d, %d leaves parked", st.ViewSize, st.Parked), "see docs/runbooks/views.md; counterfoil rebuild makes them anew")
	var stopping error
	if l.isDraining() {
		stopping = errStopping
	}
	add("running", stopping, "takes calls", "")
	st.Ready = true
	for _, c := range st.Checks {
		st.Ready = st.Ready && c.OK
	}
	return st
}

func (l *Ledger) logTrouble(st api.Status) error {
	if err := l.seq.Trouble(); err != nil {
		return err
	}
	if err := l.tlog.Err(); err != nil {
		return err
	}
	if st.StreamLast > st.LogSize+lagLimit {
		return fmt.Errorf("%d events wait to be logged", st.StreamLast-st.LogSize)
	}
	return nil
}

func (l *Ledger) fatalOf(part string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal[part]
}
