package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"counterfoil/witness/rule"
)

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", textType)
	_, _ = io.WriteString(w, "ok\n")
}

type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// checks are what readiness is made of.
func (s *Server) checks() []check {
	out := []check{{"serving", true, "accepting requests"}, {"state", true, "updates are stored"}}
	if s.draining.Load() {
		out[0] = check{"serving", false, "stopping"}
	}
	if err := s.cfg.Store.Err(); err != nil {
		out[1] = check{"state", false, err.Error()}
	}
	return out
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	doc := struct {
		Ready  bool    `json:"ready"`
		Checks []check `json:"checks"`
	}{true, s.checks()}
	for _, c := range doc.Checks {
		doc.Ready = doc.Ready && c.OK
	}
	b, err := json.Marshal(doc)
	if err != nil {
		http.Error(w, "encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !doc.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(b, '\n'))
}

// statuses are what add-checkpoint can answer; others are counted as 500.
var statuses = [...]int{200, rule.StatusSyntax, rule.StatusForbidden, rule.StatusUnknown, rule.StatusConflict,
	http.StatusRequestEntityTooLarge, rule.StatusUnproven, http.StatusTooManyRequests, 503, 500}

type metrics struct{ answers [len(statuses)]atomic.Uint64 }

func (m *metrics) count(status int) {
	for i, s := range statuses {
		if s == status {
			m.answers[i].Add(1)
			return
		}
	}
	m.answers[len(statuses)-1].Add(1)
}

// serveMetrics writes the text format of Prometheus. No metric carries an
// origin: there may be 200,000 logs.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	b.WriteString("# HELP counterfoil_witness_add_checkpoint_total Answers to add-checkpoint by status.\n# TYPE counterfoil_witness_add_checkpoint_total counter\n")
	for i, status := range statuses {
		fmt.Fprintf(&b, "counterfoil_witness_add_checkpoint_total{status=\"%d\"} %d\n", status, s.metrics.answers[i].Load())
	}
	ready := 1
	for _, c := range s.checks() {
		if !c.OK {
			ready = 0
		}
	}
	for _, g := range []struct {
		name, help string
		value      int
	}{
		{"counterfoil_witness_logs", "Logs that are cosigned.", len(s.cfg.Store.Origins())},
		{"counterfoil_witness_evidence", "Equivocation documents that are kept.", s.cfg.Store.EvidenceCount()},
		{"counterfoil_witness_ready", "1 while checkpoints are cosigned.", ready},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s %d\n", g.name, g.help, g.name, g.name, g.value)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, b.String())
}
