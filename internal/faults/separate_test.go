package faults

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/testkit/fsck"
)

// TestCaseSeparateChannel: what logs and traces leave out has no effect on
// evidence. A ledger that logs errors alone and traces one call in a thousand, to
// a receiver that refuses everything, keeps every event.
func TestCaseSeparateChannel(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer receiver.Close()
	dir := filepath.Join(t.TempDir(), "data")
	got := newModel()
	p := start(t, dir, "--log-level", "error", "--otlp-endpoint", receiver.URL, "--trace-ratio", "0.001")
	fill(t, p, "quiet", 200, got)
	if f := got.check(t, p); f.leaves != 200 {
		t.Errorf("%d leaves of 200 events", f.leaves)
	}
	st, vkey := p.settled(), trustVKey(t, p)
	p.stop()
	fsck.Check(t, filepath.Join(dir, "log"), st.Origin, vkey)
	for _, level := range []string{"INFO", "WARN"} {
		if strings.Contains(p.stderr.String(), `"level":"`+level+`"`) {
			t.Errorf("it logged at level %s: %.300s", level, p.stderr)
		}
	}
}
