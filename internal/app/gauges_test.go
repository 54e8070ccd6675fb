package app_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/internal/app"
)

// metric is the value of a metric as it stands in /metrics, with its labels.
func (l *ledger) metric(name string) (value float64, there bool) {
	l.t.Helper()
	for line := range strings.Lines(string(l.get("/metrics"))) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				l.t.Fatal(err)
			}
			return f, true
		}
	}
	return 0, false
}

func (l *ledger) wantMetric(name string, want float64) {
	l.t.Helper()
	if got, ok := l.metric(name); !ok || got != want {
		l.t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
	}
}

// What witnesses have not cosigned has an age and a count, also after a new start, and
// neither once they have.
func TestUnwitnessedAge(t *testing.T) {
	h := newHome(t)
	w := newWitness(t, "w1", h.log)
	policy := h.policy(t, 1, w)
	var ahead atomic.Int64
	run := func() *ledger {
		return startLedger(t, h.dir, func(c *app.Config) {
			c.WitnessPolicy = policy
			c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
	}
	l := run()
	l.grow(2)
	l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody("first", "1"))
	l.wantMetric(`counterfoil_lag_leaves{stage="witnessed"}`, 0)
	l.wantMetric("counterfoil_unwitnessed_age_seconds", 0)
	w.misbehave(status(http.StatusServiceUnavailable))
	l.grow(5)
	ahead.Store(int64(time.Hour))
	l.wantMetric(`counterfoil_lag_leaves{stage="witnessed"}`, 2)
	if age, _ := l.metric("counterfoil_unwitnessed_age_seconds"); age < 3600 || age > 3700 {
		t.Errorf("the oldest unwitnessed event is %v s old, want an hour", age)
	}
	l.stop()
	l = run()
	if age, _ := l.metric("counterfoil_unwitnessed_age_seconds"); age < 3600 || age > 3800 {
		t.Errorf("after a new start it is %v s old, want an hour", age)
	}
	w.misbehave(nil)
	l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody("last", "1"))
	l.wantMetric("counterfoil_unwitnessed_age_seconds", 0)
	l.wantMetric(`counterfoil_lag_leaves{stage="witnessed"}`, 0)
}

// Without witnesses nothing waits for them, and every reason and disposition is there
// from the start, at zero.
func TestMetricsFromZero(t *testing.T) {
	l := newLedger(t)
	l.begin("a")
	l.settled("/v1/receipts")
	if _, there := l.metric("counterfoil_unwitnessed_age_seconds"); there {
		t.Error("an age of what nobody is asked to witness")
	}
	for _, name := range []string{`counterfoil_refused_total{reason="disk_full"}`, "counterfoil_vault_failures_total", "counterfoil_unviewed_age_seconds", `counterfoil_lag_leaves{stage="logged"}`} {
		l.wantMetric(name, 0)
	}
	for _, kind := range []string{"contract", "admission"} {
		for _, word := range []string{"continue", "re_admit", "quarantine", "retire"} {
			l.wantMetric(fmt.Sprintf("counterfoil_dispositions{disposition=%q,kind=%q}", word, kind), 0)
		}
	}
	l.wantMetric("counterfoil_ready", 1)
	for _, check := range []string{"disk", "stream", "log", "tiles", "publisher", "index", "views", "running"} {
		l.wantMetric(fmt.Sprintf("counterfoil_check_ok{check=%q}", check), 1)
	}
	if free, _ := l.metric("counterfoil_free_bytes"); free == 0 {
		t.Error("no free space")
	}
	if keep, _ := l.metric("counterfoil_reserve_bytes"); keep < 1<<20 {
		t.Errorf("a reserve of %v bytes", keep)
	}
}

// Reviews move contracts between the dispositions.
func TestDispositionsAreCounted(t *testing.T) {
	var ahead atomic.Int64
	l := startLedger(t, t.TempDir()+"/data", func(c *app.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	review := func(subject, word string) {
		t.Helper()
		body := patched(t, beginBody("c-"+subject+"-"+word, `{"n":1}`), "subject", obj{"kind": "contract", "id": subject})
		out := l.want(http.StatusCreated, "POST", "/v1/attempts", body)
		id, event := text(out, "attemptId"), text(out, "eventId")
		l.append(id, "r-"+word, fmt.Sprintf(`"lifecycle":"review","status":%q,"reviewer":"human:ann","refs":{"reviews":%q}`, word, event))
		l.settled("/v1/receipts")
		ahead.Add(int64(time.Minute)) // counted anew
	}
	review("a", "continue")
	review("b", "quarantine")
	l.wantMetric(`counterfoil_dispositions{disposition="continue",kind="contract"}`, 1)
	l.wantMetric(`counterfoil_dispositions{disposition="quarantine",kind="contract"}`, 1)
	review("a", "quarantine")
	l.wantMetric(`counterfoil_dispositions{disposition="continue",kind="contract"}`, 0)
	l.wantMetric(`counterfoil_dispositions{disposition="quarantine",kind="contract"}`, 2)
}
