// Package telemetry declares the metrics of a ledger as data: name, unit and
// meaning in one place. No label carries an id or a private value.
package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the metrics of one ledger, in a registry of their own.
type Metrics struct {
	reg      *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	stage    *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	vault    prometheus.Counter
}

// Gauges are read when metrics are scraped.
type Gauges struct {
	StreamLast    func() float64
	LogSize       func() float64
	PublishedSize func() float64
	ViewSize      func() float64
	Parked        func() float64
	FreeBytes     func() float64
	ReserveBytes  func() float64 // below which no event is taken now
	PublishedAge  func() float64
	// Signs is 1 if this node is the one that signs, Epoch how often another one took
	// over, NodesAway how many of the ledger's nodes do not report. A ledger alone
	// signs, in epoch 0.
	Signs, Epoch, NodesAway func() float64
	// Lags are how far the stages are behind.
	Lags func() Lags
	// Checks are the named conditions of readiness.
	Checks func() []Check
	// Dispositions counts what the latest reviews say.
	Dispositions func() []Disposition
	// Version and Durability describe the program that runs.
	Version, Durability string
	// Attempts counts the attempts in a state, and tells how many seconds ago the
	// oldest of them was begun; 0 without any.
	Attempts  func(state string) (count, oldest float64)
	Witnesses func() *Witnesses // nil without a witness policy
}

// reasons are why an event cannot be taken at the moment, as docs/spec/http.md has them.
var reasons = []string{"disk_full", "key_missing", "log_behind", "log_set_back", "log_unavailable", "not_signer", "signer_unavailable", "stopping", "stream_unavailable", "vault_unavailable"}

// buckets cover 0.5 ms to 16 s.
var buckets = prometheus.ExponentialBuckets(0.0005, 2, 16)

// New registers all metrics.
func New(g Gauges) *Metrics {
	m := &Metrics{
		reg: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "counterfoil_http_requests_total", Help: "Finished requests by route and status."}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "counterfoil_http_request_seconds", Help: "Time to answer a request, by route.", Buckets: buckets}, []string{"route"}),
		stage: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "counterfoil_stage_seconds", Help: "Time from the stream's acknowledgement until an event reached a stage that a caller waited for.", Buckets: buckets}, []string{"stage"}),
	}
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "counterfoil_refused_total", Help: "Events that could not be taken at the moment, by reason; never for their content."}, []string{"reason"})
	for _, r := range reasons {
		m.refused.WithLabelValues(r) // from 0 on, so that the first one is an increase
	}
	m.vault = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "counterfoil_vault_failures_total", Help: "Flushes of the vault that failed."})
	m.reg.MustRegister(m.requests, m.seconds, m.stage, m.refused, m.vault, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, d := range []struct {
		name, help string
		read       func() float64
	}{
		{"counterfoil_stream_last_sequence", "Last sequence of the stream.", g.StreamLast},
		{"counterfoil_log_size", "Durable leaves of the log.", g.LogSize},
		{"counterfoil_published_size", "Size of the newest signed checkpoint.", g.PublishedSize},
		{"counterfoil_view_size", "Tree size that the views reflect.", g.ViewSize},
		{"counterfoil_parked_leaves", "Leaves that do not count.", g.Parked},
		{"counterfoil_free_bytes", "Free bytes on the file system of the data directory.", g.FreeBytes},
		{"counterfoil_reserve_bytes", "Free bytes below which no event is taken now.", g.ReserveBytes},
		{"counterfoil_checkpoint_age_seconds", "Age of the newest signed checkpoint.", g.PublishedAge},
		{"counterfoil_signs", "1 if this node signs checkpoints; of several nodes one does.", g.Signs},
		{"counterfoil_signer_epoch", "How often another node began to sign; 0 of a ledger alone.", g.Epoch},
		{"counterfoil_nodes_away", "Nodes of the ledger that do not report.", g.NodesAway},
	} {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.read))
	}
	m.reg.MustRegister(witnesses{g.Witnesses})
	m.reg.MustRegister(&waiting{read: g.Attempts}, lags{g.Lags}, checks{g.Checks}, dispositions{g.Dispositions})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "counterfoil_build_info", Help: "1, with the version of the program and its durability profile.",
		ConstLabels: prometheus.Labels{"version": g.Version, "durability": g.Durability}})
	build.Set(1)
	m.reg.MustRegister(build)
	return m
}

// waiting are the attempts that nobody knows the end of. Both figures of a state
// are read at once.
type waiting struct {
	read func(state string) (count, oldest float64)
}

var (
	waitingCount = prometheus.NewDesc("counterfoil_attempts", "Attempts whose end is not known, by state: open is without an outcome, unknown is with one that says so.", []string{"state"}, nil)
	waitingAge   = prometheus.NewDesc("counterfoil_oldest_attempt_age_seconds", "Age of the oldest attempt in a state, by the ledger's clock; 0 without any.", []string{"state"}, nil)
)

// Describe implements prometheus.Collector.
func (w *waiting) Describe(out chan<- *prometheus.Desc) {
	out <- waitingCount
	out <- waitingAge
}

// Collect implements prometheus.Collector.
func (w *waiting) Collect(out chan<- prometheus.Metric) {
	for _, state := range []string{"open", "unknown"} {
		count, oldest := w.read(state)
		out <- prometheus.MustNewConstMetric(waitingCount, prometheus.GaugeValue, count, state)
		out <- prometheus.MustNewConstMetric(waitingAge, prometheus.GaugeValue, oldest, state)
	}
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{Registry: m.reg})
}

// Request counts a finished request.
func (m *Metrics) Request(route string, status int, d time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(d.Seconds())
}

// Stage observes how long a caller waited for a stage.
func (m *Metrics) Stage(stage string, d time.Duration) {
	m.stage.WithLabelValues(stage).Observe(d.Seconds())
}

// Refused counts an event that could not be taken at the moment. The reason is one of
// the fixed words of the API.
func (m *Metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// VaultFailed counts a flush of the vault that failed.
func (m *Metrics) VaultFailed() { m.vault.Inc() }
