package deploytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var promQL = parser.NewParser(parser.Options{})

// shown are the metrics of a /metrics: the values of each label by name.
type shown map[string]map[string]map[string]bool

func (s shown) read(t testing.TB, text string) {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		names := []string{name}
		switch f.GetType().String() {
		case "HISTOGRAM":
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		case "SUMMARY":
			names = []string{name, name + "_sum", name + "_count"}
		}
		for _, n := range names {
			if s[n] == nil {
				s[n] = map[string]map[string]bool{}
			}
			for _, m := range f.Metric {
				for _, l := range m.Label {
					if s[n][l.GetName()] == nil {
						s[n][l.GetName()] = map[string]bool{}
					}
					s[n][l.GetName()][l.GetValue()] = true
				}
			}
		}
	}
}

// check finds what an expression asks for and is not there.
func (s shown) check(t testing.TB, where, expr string) (metrics int) {
	t.Helper()
	e, err := promQL.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return 0
	}
	var grouped []string
	known := map[string]bool{"instance": true, "job": true}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			grouped = append(grouped, n.Grouping...)
		case *parser.VectorSelector:
			metrics++
			if n.Name == "up" {
				return nil
			}
			have, ok := s[n.Name]
			if !ok {
				t.Errorf("%s: no metric %s", where, n.Name)
				return nil
			}
			for name := range have {
				known[name] = true
			}
			known["le"] = known["le"] || strings.HasSuffix(n.Name, "_bucket")
			for _, m := range n.LabelMatchers {
				if m.Name == model.MetricNameLabel || m.Name == "instance" || m.Name == "job" {
					continue
				}
				if have[m.Name] == nil {
					t.Errorf("%s: %s has no label %s", where, n.Name, m.Name)
				} else if m.Type == labels.MatchEqual && !have[m.Name][m.Value] {
					t.Errorf("%s: %s is never %s=%q, but %q", where, n.Name, m.Name, m.Value, slices.Sorted(maps.Keys(have[m.Name])))
				}
			}
		}
		return nil
	})
	for _, g := range grouped {
		if !known[g] {
			t.Errorf("%s: grouped by %s, which no metric of it has", where, g)
		}
	}
	return metrics
}

// dashboard is the part of a dashboard that asks for metrics.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID         int
		Type       string
		Title      string
		Datasource struct{ UID string }
		GridPos    struct{ H, W, X, Y int }
		Targets    []struct{ Expr, LegendFormat string }
	}
	Annotations struct{ List []struct{ Expr string } }
	Templating  struct {
		List []struct{ Query struct{ Query string } }
	}
}

// Every metric and label of alerts and dashboard is one that a ledger and a witness
// show, and every dashboard panel that was asked for is there.
func TestMetricsAreThere(t *testing.T) {
	s := startStack(t)
	if code, b := call(t, "POST", s.ledger+"/v1/attempts?wait=witnessed", s.token, attempt("a")); code != 201 {
		t.Fatalf("%d %s", code, b)
	}
	s.witnessP[1].kill()
	call(t, "POST", s.ledger+"/v1/attempts?wait=logged", s.token, attempt("b"))
	have := shown{}
	for deadline := time.Now().Add(30 * time.Second); have["counterfoil_witness_failures_total"] == nil; {
		if time.Now().After(deadline) {
			t.Fatal("a witness that is gone is no failure")
		}
		_, b := call(t, "GET", s.ledger+"/metrics", s.metrics, "")
		have.read(t, b)
	}
	_, b := call(t, "GET", s.witnesses[0]+"/metrics", "", "")
	have.read(t, b)

	for _, r := range alertRules(t) {
		if have.check(t, r.Alert, r.Expr) == 0 {
			t.Errorf("%s asks for no metric", r.Alert)
		}
	}
	var d dashboard
	if err := json.Unmarshal([]byte(text(t, "deploy/grafana/dashboards/counterfoil.json")), &d); err != nil {
		t.Fatal(err)
	}
	used, ids := "", map[int]bool{}
	vars := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: place %+v", p.ID, p.Title, p.GridPos)
		}
		ids[p.ID] = true
		if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "prometheus" || p.Title == "") {
			t.Errorf("panel %d %q has no query", p.ID, p.Title)
		}
		for _, q := range p.Targets {
			used += q.Expr + "\n"
			have.check(t, "panel "+p.Title, vars.Replace(q.Expr))
			for _, l := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				e, err := promQL.ParseExpr(vars.Replace(q.Expr))
				if err == nil && !strings.Contains(e.String(), l[1]) && !hasLabel(have, e, l[1]) {
					t.Errorf("panel %s: the legend has %s, the query has not", p.Title, l[1])
				}
			}
		}
	}
	for _, a := range d.Annotations.List {
		have.check(t, "annotation", a.Expr)
	}
	if m := regexp.MustCompile(`label_values\((\w+), instance\)`).FindStringSubmatch(d.Templating.List[0].Query.Query); m == nil || have[m[1]] == nil {
		t.Errorf("variable %q", d.Templating.List[0].Query.Query)
	}
	for _, name := range []string{"counterfoil_log_size", "counterfoil_published_size", "counterfoil_witnessed_size", "counterfoil_lag_leaves", "counterfoil_unwitnessed_age_seconds",
		"counterfoil_free_bytes", "counterfoil_reserve_bytes", "counterfoil_dispositions", "counterfoil_attempts", "counterfoil_vault_failures_total", "go_goroutines"} {
		if !strings.Contains(used, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
	// No label has values without a bound.
	for name, ls := range have {
		for l, values := range ls {
			if strings.HasPrefix(name, "counterfoil_") && l != "le" && len(values) > 64 {
				t.Errorf("%s has %d values of %s", name, len(values), l)
			}
			for v := range values {
				if strings.Contains(v, "att_") || strings.Contains(v, "evt_") {
					t.Errorf("%s: label %s is an id: %q", name, l, v)
				}
			}
		}
	}
}

func hasLabel(have shown, e parser.Expr, label string) (found bool) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			found = found || have[v.Name][label] != nil || label == "instance"
		}
		return nil
	})
	return found
}

// What Prometheus and Grafana are told to read is there, and the jobs are services.
func TestProvisioning(t *testing.T) {
	var prom struct {
		Global        map[string]string `yaml:"global"`
		RuleFiles     []string          `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string            `yaml:"job_name"`
			ScrapeTimeout string            `yaml:"scrape_timeout"`
			Authorization map[string]string `yaml:"authorization"`
			StaticConfigs []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	strictYAML(t, "deploy/prometheus/prometheus.yml", &prom)
	c := readCompose(t)
	for _, f := range prom.RuleFiles {
		text(t, filepath.Join("deploy/prometheus", f))
	}
	jobs := ""
	for _, s := range prom.ScrapeConfigs {
		jobs += s.JobName + " "
		for _, target := range s.StaticConfigs[0].Targets {
			name, port, _ := strings.Cut(target, ":")
			if svc, ok := c.Services[name]; !ok || !strings.Contains(fmt.Sprint(svc.Command), ":"+port) {
				t.Errorf("no service listens at %s", target)
			}
		}
		if file := s.Authorization["credentials_file"]; file != "" && !slices.ContainsFunc(c.Services["prometheus"].Volumes, func(v string) bool { return strings.Contains(v, ":"+file+":ro") }) {
			t.Errorf("%s is not mounted", file)
		}
	}
	for _, m := range regexp.MustCompile(`job="([^"]*)"`).FindAllStringSubmatch(text(t, "deploy/prometheus/alerts.yaml")+text(t, "deploy/grafana/dashboards/counterfoil.json"), -1) {
		if !strings.Contains(jobs, m[1]+" ") {
			t.Errorf("no job %s", m[1])
		}
	}
	var source struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
			Editable                     bool
		}
	}
	strictYAML(t, "deploy/grafana/provisioning/datasources/prometheus.yaml", &source)
	if source.Datasources[0].UID != "prometheus" || source.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("%+v", source)
	}
	var boards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type     string
			AllowUIUpdates bool `yaml:"allowUiUpdates"`
			Options        struct{ Path string }
		}
	}
	strictYAML(t, "deploy/grafana/provisioning/dashboards/counterfoil.yaml", &boards)
	if !slices.Contains(c.Services["grafana"].Volumes, "./grafana/dashboards:"+boards.Providers[0].Options.Path+":ro") {
		t.Errorf("dashboards are not mounted at %s", boards.Providers[0].Options.Path)
	}
}
