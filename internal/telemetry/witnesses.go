package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Witnesses are figures of the gathering of cosignatures.
type Witnesses struct {
	WitnessedSize uint64
	Stopped       bool // nothing is signed any more
	Each          []Witness
}

// Witness are figures of one witness.
type Witness struct {
	Name      string    // in the policy
	Size      uint64    // of the largest checkpoint that it cosigned
	Last      time.Time // of its last cosignature, zero for none
	Failures  map[string]uint64
	Incidents int  // that are kept
	Open      bool // it has not cosigned since the last one
}

var (
	witnessedSize = prometheus.NewDesc("counterfoil_witnessed_size", "Size of the newest checkpoint that meets the quorum of witnesses.", nil, nil)
	stopped       = prometheus.NewDesc("counterfoil_signing_stopped", "1 once a witness has shown that the log was set back or forked: nothing is signed any more.", nil, nil)
	cosignedSize  = prometheus.NewDesc("counterfoil_witness_cosigned_size", "Size of the largest checkpoint that the witness cosigned.", []string{"witness"}, nil)
	lastCosigned  = prometheus.NewDesc("counterfoil_witness_last_cosigned_seconds", "When the last cosignature of the witness came, in seconds since 1970; 0 for never.", []string{"witness"}, nil)
	failures      = prometheus.NewDesc("counterfoil_witness_failures_total", "Requests to the witness that gave no cosignature, by class.", []string{"witness", "class"}, nil)
	incidents     = prometheus.NewDesc("counterfoil_witness_incidents", "Incidents with the witness that are kept.", []string{"witness"}, nil)
	openIncident  = prometheus.NewDesc("counterfoil_witness_incident_open", "1 while the witness has not cosigned since its last incident.", []string{"witness"}, nil)
)

// witnesses collects them when metrics are scraped. They are unchecked metrics:
// which witnesses there are is up to the policy.
type witnesses struct{ read func() *Witnesses }

// Describe implements prometheus.Collector.
func (witnesses) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c witnesses) Collect(out chan<- prometheus.Metric) {
	if c.read == nil {
		return
	}
	w := c.read()
	if w == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(witnessedSize, float64(w.WitnessedSize))
	gauge(stopped, number(w.Stopped))
	for _, x := range w.Each {
		gauge(cosignedSize, float64(x.Size), x.Name)
		last := 0.0
		if !x.Last.IsZero() {
			last = float64(x.Last.UnixMilli()) / 1000
		}
		gauge(lastCosigned, last, x.Name)
		gauge(incidents, float64(x.Incidents), x.Name)
		gauge(openIncident, number(x.Open), x.Name)
		for class, n := range x.Failures {
			out <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(n), x.Name, class)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
