package app_test

import (
	"bytes"
	"net/http"
	"testing"

	"counterfoil/ledger/trust"
)

// On a log that is busier than its witnesses the newest checkpoint never meets
// the quorum; the newest one that does has a name of its own.
func TestLOG12_WitnessedCheckpointIsServed(t *testing.T) {
	h := newHome(t)
	const path = "/log/checkpoint.witnessed"
	l := startLedger(t, h.dir)
	l.grow(1)
	if code, _ := l.raw("GET", path, nil, ""); code != http.StatusNotFound {
		t.Errorf("without a policy: %d", code)
	}
	l.stop()
	a := newWitness(t, "witness.example/a", h.log)
	a.misbehave(status(500))
	l = h.start(t, 1, a)
	if code, _ := l.raw("GET", path, nil, ""); code != http.StatusNotFound {
		t.Errorf("before the first cosignature: %d", code)
	}
	a.misbehave(nil)
	l.witnessed(1, a)
	until(func() bool { code, _ := l.raw("GET", path, nil, ""); return code == http.StatusOK })
	a.misbehave(status(500))
	l.grow(5)
	code, header, body := l.call("GET", path, "", "")
	n, err := trust.ParseNote([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	if code != http.StatusOK || err != nil || cp.Size != 1 || len(n.Signatures) != 2 || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v %q, %v", code, header, body, err)
	}
	if newest := l.get("/log/checkpoint"); bytes.Equal(newest, []byte(body)) {
		t.Error("the newest checkpoint is the same")
	}
}
