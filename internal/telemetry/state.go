package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Lags are how far each stage is behind the one before it, read at one moment.
type Lags struct {
	Logged, Published, Viewed uint64 // leaves
	// Witnessed is behind what is published; Asked is false where no quorum of
	// witnesses is asked for.
	Witnessed uint64
	Asked     bool
	// UnwitnessedAge and UnviewedAge are how many seconds ago the oldest event was
	// recorded that is published and not witnessed, or not in the views; 0 for none.
	UnwitnessedAge, UnviewedAge float64
}

// Check is one named condition of readiness.
type Check struct {
	Name string // from a fixed list, and one for every witness of the policy
	OK   bool
}

// Disposition counts the subjects of a kind whose latest review says a word.
type Disposition struct {
	Kind, Word string // fixed words of the event format
	Count      uint64
}

var (
	lag            = prometheus.NewDesc("counterfoil_lag_leaves", "Leaves that the stage before has and this one has not: logged is behind the stream, published behind the log, witnessed and viewed behind the newest checkpoint.", []string{"stage"}, nil)
	unwitnessedAge = prometheus.NewDesc("counterfoil_unwitnessed_age_seconds", "Age of the oldest published event that is not witnessed; 0 for none.", nil, nil)
	unviewedAge    = prometheus.NewDesc("counterfoil_unviewed_age_seconds", "Age of the oldest published event that the views do not reflect; 0 for none.", nil, nil)
	checkOK        = prometheus.NewDesc("counterfoil_check_ok", "1 while a check of readiness passes.", []string{"check"}, nil)
	ready          = prometheus.NewDesc("counterfoil_ready", "1 while all checks pass.", nil, nil)
	disposition    = prometheus.NewDesc("counterfoil_dispositions", "Contracts and admissions by the disposition of their latest review.", []string{"kind", "disposition"}, nil)
)

type lags struct{ read func() Lags }

// Describe implements prometheus.Collector.
func (lags) Describe(out chan<- *prometheus.Desc) {
	out <- lag
	out <- unwitnessedAge
	out <- unviewedAge
}

// Collect implements prometheus.Collector.
func (c lags) Collect(out chan<- prometheus.Metric) {
	l := c.read()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(lag, float64(l.Logged), "logged")
	gauge(lag, float64(l.Published), "published")
	gauge(lag, float64(l.Viewed), "viewed")
	gauge(unviewedAge, l.UnviewedAge)
	if l.Asked {
		gauge(lag, float64(l.Witnessed), "witnessed")
		gauge(unwitnessedAge, l.UnwitnessedAge)
	}
}

type checks struct{ read func() []Check }

// Describe implements prometheus.Collector.
func (checks) Describe(out chan<- *prometheus.Desc) {
	out <- checkOK
	out <- ready
}

// Collect implements prometheus.Collector.
func (c checks) Collect(out chan<- prometheus.Metric) {
	all := true
	for _, ch := range c.read() {
		all = all && ch.OK
		out <- prometheus.MustNewConstMetric(checkOK, prometheus.GaugeValue, number(ch.OK), ch.Name)
	}
	out <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, number(all))
}

type dispositions struct{ read func() []Disposition }

// Describe implements prometheus.Collector.
func (dispositions) Describe(out chan<- *prometheus.Desc) { out <- disposition }

// Collect implements prometheus.Collector.
func (c dispositions) Collect(out chan<- prometheus.Metric) {
	for _, d := range c.read() {
		out <- prometheus.MustNewConstMetric(disposition, prometheus.GaugeValue, float64(d.Count), d.Kind, d.Word)
	}
}
