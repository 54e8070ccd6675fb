package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/telemetry"
	"counterfoil/ledger/event"
	"counterfoil/projections/query"
)

// gauged is what was found for an earlier scrape and still holds.
type gauged struct {
	mu           sync.Mutex
	recorded     map[uint64]time.Time // when the event at a leaf index was recorded; two at most
	dispositions []telemetry.Disposition
	size         uint64 // of the views then
	at           time.Time
}

// countEvery is the shortest time between two counts of the dispositions: each
// reads a row for every contract and admission.
const countEvery = 10 * time.Second

func (l *Ledger) gauges() telemetry.Gauges {
	return telemetry.Gauges{
		StreamLast:    func() float64 { return float64(l.stream.LastSeen()) },
		LogSize:       func() float64 { return float64(l.seq.Size()) },
		PublishedSize: func() float64 { return float64(l.pub.Size()) },
		ViewSize:      func() float64 { return float64(l.views.size()) },
		Parked:        func() float64 { return float64(l.views.parked()) },
		Witnesses:     l.witnessMetrics,
		FreeBytes:     func() float64 { return float64(l.disk.free.Load()) },
		ReserveBytes:  func() float64 { return float64(l.disk.keep(l.waiting())) },
		Attempts:      l.unfinished,
		PublishedAge:  func() float64 { return l.cfg.Now().Sub(l.pub.At()).Seconds() },
		Signs:         l.signsMetric, Epoch: l.epochMetric, NodesAway: l.awayMetric,
		Lags:         l.lags,
		Checks:       l.checkMetrics,
		Dispositions: l.dispositions,
		Version:      l.cfg.Version, Durability: l.cfg.Durability,
	}
}

// lags reads the stages from the last to the first, so that none is ahead of the one
// before it.
func (l *Ledger) lags() telemetry.Lags {
	var lag telemetry.Lags
	viewed, witnessed := l.views.size(), uint64(0)
	if l.Witnesses() {
		lag.Asked, witnessed = true, l.gather.Status().Witnessed
	}
	published := l.pub.Size()
	logged := l.seq.Size()
	lag.Logged = l.stream.LastSeen() - min(logged, l.stream.LastSeen())
	lag.Published = logged - min(published, logged)
	lag.Viewed = published - min(viewed, published)
	lag.UnviewedAge = l.ageOf(viewed, published, viewed)
	if lag.Asked {
		lag.Witnessed = published - min(witnessed, published)
		lag.UnwitnessedAge = l.ageOf(witnessed, published, viewed)
	}
	return lag
}

// ageOf is how many seconds ago the event at a leaf index was recorded, by the
// ledger's clock; 0 if it is not in the tree of that size. A leaf that cannot be read
// shows in the check of the tiles.
func (l *Ledger) ageOf(index, size, keep uint64) float64 {
	if index >= size {
		return 0
	}
	g := &l.gauged
	g.mu.Lock()
	defer g.mu.Unlock()
	at, known := g.recorded[index]
	if !known {
		leaf, err := l.tiles.Leaf(context.Background(), index, size)
		if err != nil {
			return 0
		}
		rec, err := l.check.parse(leaf.Data)
		if err != nil {
			return 0 // it counts for nothing, and has no time
		}
		if at, err = time.Parse(event.TimeLayout, rec.Event.CapturedAt); err != nil {
			return 0
		}
		if len(g.recorded) >= 2 {
			clear(g.recorded)
		}
		if g.recorded == nil {
			g.recorded = map[uint64]time.Time{}
		}
		g.recorded[index] = at
	}
	return max(0, l.cfg.Now().Sub(at).Seconds())
}

func (l *Ledger) checkMetrics() []telemetry.Check {
	var out []telemetry.Check
	for _, c := range l.Status(context.Background()).Checks {
		out = append(out, telemetry.Check{Name: c.Name, OK: c.OK})
	}
	return out
}

// dispositions counts the latest reviews of contracts and admissions. What the views
// cannot say shows in their check.
func (l *Ledger) dispositions() []telemetry.Disposition {
	g := &l.gauged
	g.mu.Lock()
	defer g.mu.Unlock()
	now, size := l.cfg.Now(), l.views.size()
	if age := now.Sub(g.at); g.dispositions != nil && (g.size == size || age >= 0 && age < countEvery) {
		return slices.Clone(g.dispositions)
	}
	var out []telemetry.Disposition
	for _, kind := range []event.SubjectKind{event.Contract, event.Admission} {
		first := len(out)
		for _, word := range event.Statuses(event.Review, kind) {
			out = append(out, telemetry.Disposition{Kind: string(kind), Word: word})
		}
		for page := (query.Page{Limit: query.MaxLimit}); ; {
			a, err := l.views.query.Dispositions(context.Background(), query.DispositionFilter{Kind: kind}, page)
			if err != nil {
				return slices.Clone(g.dispositions)
			}
			for _, d := range a.Dispositions {
				for i := first; i < len(out); i++ {
					if out[i].Word == d.Status {
						out[i].Count++
					}
				}
			}
			if page.Token = a.Next; a.Next == "" {
				break
			}
		}
	}
	g.dispositions, g.size, g.at = out, size, now
	return slices.Clone(out)
}

// countRefusal counts an event that cannot be taken now.
func (l *Ledger) countRefusal(err error) {
	var u *api.Unavailable
	if err != nil && errors.As(err, &u) {
		l.metrics.Refused(u.Reason)
	}
}
