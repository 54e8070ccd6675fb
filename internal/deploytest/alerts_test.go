package deploytest

import (
	"context"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

func alertRules(t testing.TB) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(text(t, "deploy/prometheus/alerts.yaml")), false, model.LegacyValidation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) != 1 {
		t.Fatal("no group of alerts")
	}
	return groups.Groups[0].Rules
}

// Every alert says how bad it is, in words, and has a section in a runbook.
func TestAlertsHaveRunbooks(t *testing.T) {
	for _, r := range alertRules(t) {
		if s := r.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		file, anchor, _ := strings.Cut(r.Annotations["runbook"], "#")
		if r.Annotations["summary"] == "" || anchor == "" {
			t.Errorf("%s: %v", r.Alert, r.Annotations)
			continue
		}
		if !slices.Contains(anchors(text(t, file)), anchor) {
			t.Errorf("%s: %s has no section %s", r.Alert, file, anchor)
		}
	}
}

// anchors are the names that headings get on the pages of a forge.
func anchors(markdown string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(markdown, -1) {
		a := strings.ToLower(strings.ReplaceAll(m[1], " ", "-"))
		out = append(out, regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(a, ""))
	}
	return out
}

// series are samples of one series, one a minute, in the notation of promtool.
type series []string

// memory answers queries from series.
type memory []storage.Series

type sample struct {
	t int64
	f float64
}

func load(t testing.TB, s series) (m memory) {
	t.Helper()
	for _, line := range s {
		ls, values, err := promQL.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, newSample(int64(i)*60_000, v.Value))
			}
		}
		m = append(m, storage.NewListSeries(ls, samples))
	}
	return m
}

func (m memory) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
		return &set{at: -1, list: slices.DeleteFunc(slices.Clone(m), func(s storage.Series) bool {
			return slices.ContainsFunc(ms, func(x *labels.Matcher) bool { return !x.Matches(s.Labels().Get(x.Name)) })
		})}
	}}, nil
}

// fires evaluates a rule every minute, as Prometheus does, and returns the minutes at
// which it fires.
func fires(t testing.TB, engine *promql.Engine, r rulefmt.Rule, m memory, minutes int) (out []int) {
	t.Helper()
	since := map[string]int{}
	for at := range minutes {
		q, err := engine.NewInstantQuery(context.Background(), m, nil, r.Expr, time.UnixMilli(int64(at)*60_000))
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		v, err := q.Exec(context.Background()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		now, firing := map[string]int{}, false
		for _, s := range v {
			key := s.Metric.DropReserved(func(n string) bool { return n == model.MetricNameLabel }).String()
			first, ok := since[key]
			if !ok {
				first = at
			}
			now[key] = first
			firing = firing || time.Duration(at-first)*time.Minute >= time.Duration(r.For)
			if math.IsNaN(s.F) {
				t.Errorf("%s: no number", r.Alert)
			}
		}
		if since = now; firing {
			out = append(out, at)
		}
		q.Close()
	}
	return out
}

// Each alert fires in the first story at the named minute and not before, and never in
// the second.
func TestAlertsFire(t *testing.T) {
	const l, w = `{instance="l",job="counterfoil"}`, `{instance="w",job="counterfoil-witness"}`
	cases := map[string]struct {
		bad, good series
		at        int // first minute
	}{
		"CounterfoilDown":     {series{`up` + l + ` 1 1 0x20`}, series{`up` + l + ` 1 1 0 1x20`, `up` + w + ` 0x20`}, 4},
		"CounterfoilNotReady": {series{`counterfoil_ready` + l + ` 1 0x20`}, series{`counterfoil_ready` + l + ` 1 0 1x20`}, 3},
		"CounterfoilSigningStopped": {series{`counterfoil_signing_stopped` + l + ` 0 0 1x20`},
			series{`counterfoil_signing_stopped` + l + ` 0x20`}, 2},
		"CounterfoilWitnessIncident": {series{`counterfoil_witness_incident_open{instance="l",witness="w1"} 0 1x20`, `counterfoil_witness_incident_open{instance="l",witness="w2"} 0x20`},
			series{`counterfoil_witness_incident_open{instance="l",witness="w1"} 0x20`}, 1},
		"CounterfoilLogDamaged": {series{`counterfoil_check_ok{check="tiles"} 1 0x20`}, series{`counterfoil_check_ok{check="tiles"} 1x20`, `counterfoil_check_ok{check="views"} 0x20`}, 1},
		"CounterfoilDiskFull":   {series{`counterfoil_free_bytes` + l + ` 9 9 5x20`, `counterfoil_reserve_bytes` + l + ` 6x20`}, series{`counterfoil_free_bytes` + l + ` 9x20`, `counterfoil_reserve_bytes` + l + ` 6x20`}, 3},
		"CounterfoilDiskLow":    {series{`counterfoil_free_bytes` + l + ` 30 20x30`, `counterfoil_reserve_bytes` + l + ` 6x30`}, series{`counterfoil_free_bytes` + l + ` 25x30`, `counterfoil_reserve_bytes` + l + ` 6x30`}, 11},
		"CounterfoilStream":     {series{`counterfoil_check_ok{check="stream"} 1 0x20`}, series{`counterfoil_check_ok{check="stream"} 1 0 1x20`}, 2},
		"CounterfoilBacklog":    {series{`counterfoil_lag_leaves{stage="logged"} 0+3000x20`}, series{`counterfoil_lag_leaves{stage="logged"} 5000x20`, `counterfoil_lag_leaves{stage="viewed"} 9000x20`}, 7},
		"CounterfoilUnpublished": {series{`counterfoil_lag_leaves{stage="published"} 0 0 7x20`, `counterfoil_checkpoint_age_seconds 0+60x20`},
			series{`counterfoil_lag_leaves{stage="published"} 7x20`, `counterfoil_checkpoint_age_seconds 1x20`, `counterfoil_lag_leaves{stage="logged"} 7x20`}, 4},
		"CounterfoilUnwitnessed":   {series{`counterfoil_unwitnessed_age_seconds` + l + ` 0+60x40`}, series{`counterfoil_unwitnessed_age_seconds` + l + ` 900x40`}, 21},
		"CounterfoilWitnessSilent": {series{`counterfoil_witness_last_cosigned_seconds{witness="w1"} 60x300`}, series{`counterfoil_witness_last_cosigned_seconds{witness="w1"} 60+60x300`, `counterfoil_witness_last_cosigned_seconds{witness="new"} 0x300`}, 187},
		"CounterfoilViewsBehind":   {series{`counterfoil_unviewed_age_seconds` + l + ` 0+60x20`}, series{`counterfoil_unviewed_age_seconds` + l + ` 100x20`}, 8},
		"CounterfoilParked":        {series{`counterfoil_parked_leaves` + l + ` 2 2 2 3x20`}, series{`counterfoil_parked_leaves` + l + ` 2x20`}, 3},
		"CounterfoilVaultFailing":  {series{`counterfoil_vault_failures_total` + l + ` 0 0 1x20`}, series{`counterfoil_vault_failures_total` + l + ` 0x20`}, 2},
		"CounterfoilRefusing": {series{`counterfoil_refused_total{instance="l",reason="disk_full"} 0 0 1+5x20`},
			series{`counterfoil_refused_total{instance="l",reason="disk_full"} 4x20`, `counterfoil_refused_total{instance="l",reason="stopping"} 0+5x20`}, 7},
		"CounterfoilErrors": {series{`counterfoil_http_requests_total{instance="l",status="201"} 0+100x30`, `counterfoil_http_requests_total{instance="l",status="503"} 0+5x30`},
			series{`counterfoil_http_requests_total{instance="l",status="201"} 0+100x30`, `counterfoil_http_requests_total{instance="l",status="409"} 0+50x30`, `counterfoil_http_requests_total{instance="l",status="500"} 0+1x30`}, 6},
		"CounterfoilSlow": {series{`counterfoil_stage_seconds_bucket{instance="l",stage="logged",le="1"} 0+90x30`, `counterfoil_stage_seconds_bucket{instance="l",stage="logged",le="4"} 0+100x30`, `counterfoil_stage_seconds_bucket{instance="l",stage="logged",le="+Inf"} 0+100x30`},
			series{`counterfoil_stage_seconds_bucket{instance="l",stage="logged",le="1"} 0+100x30`, `counterfoil_stage_seconds_bucket{instance="l",stage="logged",le="4"} 0+100x30`, `counterfoil_stage_seconds_bucket{instance="l",stage="logged",le="+Inf"} 0+100x30`}, 11},
		"CounterfoilUnknownOutcomes": {series{`counterfoil_oldest_attempt_age_seconds{state="unknown"} 86340+60x20`}, series{`counterfoil_oldest_attempt_age_seconds{state="unknown"} 3600x20`, `counterfoil_oldest_attempt_age_seconds{state="open"} 90000x20`}, 2},
		"CounterfoilOpenAttempts":    {series{`counterfoil_oldest_attempt_age_seconds{state="open"} 86340+60x20`}, series{`counterfoil_oldest_attempt_age_seconds{state="open"} 0x20`}, 2},
		"CounterfoilQuarantined": {series{`counterfoil_dispositions{instance="l",kind="contract",disposition="quarantine"} 0 0 1x20`},
			series{`counterfoil_dispositions{instance="l",kind="contract",disposition="quarantine"} 0x20`, `counterfoil_dispositions{instance="l",kind="contract",disposition="continue"} 9x20`}, 2},
		"CounterfoilRestarting": {series{`process_start_time_seconds` + l + ` 0 1 2 3x20`}, series{`process_start_time_seconds` + l + ` 0 1 2x20`}, 3},
		"CounterfoilNoSigner": {series{`counterfoil_signs{instance="n1",job="counterfoil"} 1 0x20`, `counterfoil_signs{instance="n2",job="counterfoil"} 0x20`},
			series{`counterfoil_signs{instance="n1",job="counterfoil"} 1 0x20`, `counterfoil_signs{instance="n2",job="counterfoil"} 0 1x20`}, 2},
		"CounterfoilNodeAway":        {series{`counterfoil_nodes_away` + l + ` 0 1x20`}, series{`counterfoil_nodes_away` + l + ` 0 1 1 0x20`}, 6},
		"CounterfoilWitnessDown":     {series{`up` + w + ` 1 0x20`}, series{`up` + w + ` 1x20`, `counterfoil_witness_ready` + w + ` 1x20`, `up` + l + ` 0x20`}, 6},
		"CounterfoilWitnessEvidence": {series{`counterfoil_witness_evidence` + w + ` 0 1x20`}, series{`counterfoil_witness_evidence` + w + ` 0x20`}, 1},
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute, Parser: promQL, LookbackDelta: 5 * time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	for _, r := range alertRules(t) {
		c, ok := cases[r.Alert]
		if !ok {
			t.Errorf("nothing tries %s", r.Alert)
			continue
		}
		delete(cases, r.Alert)
		bad := fires(t, engine, r, load(t, c.bad), c.at+3)
		if len(bad) == 0 || bad[0] != c.at {
			t.Errorf("%s fires at minutes %v, want from %d on", r.Alert, bad, c.at)
		}
		if good := fires(t, engine, r, load(t, c.good), c.at+8); len(good) > 0 {
			t.Errorf("%s fires at minutes %v without need", r.Alert, good)
		}
	}
	for name := range cases {
		t.Errorf("no alert %s", name)
	}
}
