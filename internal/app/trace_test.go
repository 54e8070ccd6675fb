package app_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"counterfoil/internal/app"
)

// receiver is an OTLP/HTTP receiver.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	raw   []byte
	spans []*otlp.Span
	about []string // attributes of the resource
	came  chan struct{}
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{came: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var in io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(req.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			in = z
		}
		b, err := io.ReadAll(in)
		var m collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(b, &m) != nil {
			http.Error(w, "no OTLP", http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.raw = append(r.raw, b...)
		for _, rs := range m.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				r.about = append(r.about, a.Key+"="+a.Value.GetStringValue())
			}
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		select {
		case r.came <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// wait returns all spans once there are some of every name.
func (r *receiver) wait(t testing.TB, names ...string) []*otlp.Span {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		spans := slices.Clone(r.spans)
		r.mu.Unlock()
		missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			return slices.ContainsFunc(spans, func(s *otlp.Span) bool { return s.Name == n })
		})
		if len(missing) == 0 {
			return spans
		}
		select {
		case <-r.came:
		case <-deadline:
			t.Fatalf("no span %q among %d", missing, len(spans))
		}
	}
}

func attribute(s *otlp.Span, name string) any {
	for _, a := range s.Attributes {
		if a.Key == name {
			if a.Value.GetStringValue() != "" {
				return a.Value.GetStringValue()
			}
			return a.Value.GetIntValue()
		}
	}
	return nil
}

func (l *ledger) postTraced(path, traceparent string, body []byte) (int, []byte) {
	l.t.Helper()
	req, err := http.NewRequest(http.MethodPost, l.Ready.Listening+path, bytes.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Token)
	req.Header.Set("traceparent", traceparent)
	req.Header.Set("tracestate", "x="+canary)
	req.Header.Set("baggage", "secret="+canary)
	code, _, b := l.answer(http.DefaultClient.Do, req)
	return code, b
}

// A call's traceparent is continued through intake, stream and waiting; what happens
// to the event later links to it; and no span holds a private value.
func TestPRV08_TracesOfAnEvent(t *testing.T) {
	r := newReceiver(t)
	h := newHome(t)
	w := newWitness(t, "w1", h.log)
	policy := h.policy(t, 1, w)
	l := startLedger(t, h.dir, func(c *app.Config) {
		c.WitnessPolicy, c.TraceEndpoint, c.Version = policy, r.URL, "v1.2.3"
	})
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	private := []any{"privateInput", raws(`{"k":"` + canary + `"}`), "source.agentId", "agent:" + canary, "action.name", canary, "keepBody", true}
	code, b := l.postTraced("/v1/attempts?wait=witnessed", "00-"+trace+"-"+parent+"-01", patched(t, beginBody("inv", `1`), private...))
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, b)
	}
	receipt := decoded(t, b)
	// Refusals: the fault is near the canary.
	l.postTraced("/v1/attempts", "00-"+trace+"-"+parent+"-01", patched(t, beginBody("inv", `1`), "privateInput", canary))
	l.postTraced("/v1/attempts/"+canary+"/events", "00-"+trace+"-"+parent+"-01", []byte(`{"`+canary+`":1}`))

	spans := r.wait(t, "POST /v1/attempts", "intake", "stream", "wait", "sequence", "publish", "witness", "project", "POST /v1/attempts/{attemptId}/events")
	byID, first := map[string]*otlp.Span{}, map[string]*otlp.Span{}
	for _, s := range spans {
		byID[string(s.SpanId)] = s
		if first[s.Name] == nil || s.StartTimeUnixNano < first[s.Name].StartTimeUnixNano {
			first[s.Name] = s
		}
	}
	if got := hex.EncodeToString(first["POST /v1/attempts"].ParentSpanId); got != parent {
		t.Errorf("the call's span is under %s, want the caller's %s", got, parent)
	}
	for _, c := range []struct{ name, under string }{{"intake", "POST /v1/attempts"}, {"stream", "intake"}, {"wait", "POST /v1/attempts"}} {
		s := first[c.name]
		if up := byID[string(s.ParentSpanId)]; hex.EncodeToString(s.TraceId) != trace || up == nil || up.Name != c.under {
			t.Errorf("%s: trace %x, under %v", c.name, s.TraceId, up)
		}
	}
	if got := attribute(first["intake"], "counterfoil.event_id"); got != receipt["eventId"] {
		t.Errorf("intake of %v, want %v", got, receipt["eventId"])
	}
	leaf := int64(receipt["leafIndex"].(float64))
	for _, name := range []string{"sequence", "publish", "witness", "project"} {
		s := first[name]
		if len(s.ParentSpanId) != 0 || len(s.Links) == 0 || hex.EncodeToString(s.Links[0].TraceId) != trace || string(s.Links[0].SpanId) != string(first["stream"].SpanId) {
			t.Errorf("%s has no link to the event's span: %v", name, s)
		}
		from, _ := attribute(s, "counterfoil.from").(int64)
		to, _ := attribute(s, "counterfoil.to").(int64)
		if from > leaf || to <= leaf {
			t.Errorf("%s: leaves [%d, %d) without %d", name, from, to, leaf)
		}
	}
	l.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.about, "service.name=counterfoil") || !slices.Contains(r.about, "service.version=v1.2.3") {
		t.Errorf("resource %q", r.about)
	}
	for _, s := range r.spans {
		if strings.Contains(s.String(), canary) {
			t.Errorf("a span shows a private value: %s", s)
		}
		if len(s.Links) > 64 || s.Status.GetMessage() != "" || len(s.Events) > 0 {
			t.Errorf("%s has %d links, message %q, %d events", s.Name, len(s.Links), s.Status.GetMessage(), len(s.Events))
		}
	}
}

// A batch of many events has few links; who says that a call is not traced is heard,
// and a receiver that does not answer disturbs nobody.
func TestTracesAreBounded(t *testing.T) {
	r := newReceiver(t)
	l := startLedger(t, filepath.Join(t.TempDir(), "data"), func(c *app.Config) { c.TraceEndpoint, c.TraceRatio = r.URL, 1 })
	for i := range 3 {
		code, b := l.postTraced("/v1/attempts?wait=published", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", beginBody("not-"+string(rune('a'+i)), "1"))
		if code != http.StatusCreated {
			t.Fatalf("%d %s", code, b)
		}
	}
	l.grow(303)
	spans := r.wait(t, "POST /v1/events:batch", "sequence", "publish", "project")
	most := 0
	for _, s := range spans {
		most = max(most, len(s.Links))
		if hex.EncodeToString(s.TraceId) == "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("a call that was not to be traced has a span: %s", s.Name)
		}
	}
	if most < 2 || most > 64 {
		t.Errorf("up to %d links, want 2 to 64", most)
	}
	r.Close() // nobody answers any more
	l.grow(310)
	l.stop()
}

func TestTracesAreOffByDefault(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	l := newLedger(t)
	l.postTraced("/v1/attempts?wait=published", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", beginBody("a", "1"))
	l.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) > 0 {
		t.Errorf("%d spans were sent that nobody asked for", len(r.spans))
	}
}
