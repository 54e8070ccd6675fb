package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/ledger/event"
)

func balanced(c *app.Config) { c.Durability = app.Balanced }

// breakLog makes the log unable to write tiles, and returns what mends it.
func breakLog(t testing.TB, dir string) (mend func()) {
	t.Helper()
	tile := filepath.Join(dir, "log", "tile")
	if err := os.Rename(tile, tile+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(tile); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tile+".away", tile); err != nil {
			t.Fatal(err)
		}
	}
}

// until polls an answer until it is as wanted.
func (l *ledger) until(what, path string, ok func(code int, out obj) bool) {
	l.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		code, out := l.do("GET", path, nil)
		if ok(code, out) {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("%s: %d %v", what, code, out)
		}
	}
}

// checkOf is the named check of a readiness answer.
func checkOf(out obj, name string) obj {
	checks, _ := out["checks"].([]any)
	for _, c := range checks {
		if text(c, "name") == name {
			return c.(obj)
		}
	}
	return nil
}

// While the log cannot append, evidence is taken and waits; readiness names the
// log, refused evidence stays another thing, and it all goes on by itself.
func TestLOG14_DUR06_EvidenceWaitsForTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir, balanced)
	l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("before", `1`))
	mend := breakLog(t, dir)
	for i := range 5 {
		if r := l.begin(fmt.Sprintf("inv-%d", i)); text(r, "stage") != "accepted" {
			t.Errorf("stage %s while the log is broken", text(r, "stage"))
		}
	}
	l.until("readiness names the log", "/readyz", func(code int, out obj) bool {
		return code == http.StatusServiceUnavailable && checkOf(out, "log")["ok"] == false && text(checkOf(out, "log"), "hint") != "" && checkOf(out, "disk")["ok"] == true
	})
	if code, _ := l.raw("GET", "/healthz", nil, ""); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	code, out := l.do("POST", "/v1/attempts", []byte(`{}`))
	refused(t, "bad evidence", code, out, "invalid_request", http.StatusBadRequest, "/source/runtimeId")
	if size := l.publicTree().N; size != 1 {
		t.Errorf("the checkpoint went on to %d", size)
	}
	mend()
	l.until("ready again", "/readyz", func(code int, out obj) bool { return code == http.StatusOK })
	l.fill("after", 1)
	events := l.events("")
	if len(events) != 7 {
		t.Fatalf("%d events, want 7", len(events))
	}
	for i, e := range events {
		if e.Parked != "" || e.LeafIndex != int64(i) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

// Events that were accepted and never logged are lost with the stream: the next
// start says so in an event, once.
func TestLOG13_LossIsAnnounced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir, balanced)
	l.fill("kept", 2)
	mend := breakLog(t, dir)
	var lost []string
	for i := range 3 {
		r := l.begin(fmt.Sprintf("lost-%d", i))
		lost = append(lost, text(r, "attemptId"))
	}
	// The index has them; it is what remembers that they were accepted.
	for _, id := range lost {
		l.want(http.StatusOK, "GET", "/v1/attempts/"+id, nil)
	}
	if err := l.Stop(t.Context()); err != nil {
		t.Logf("stop with a broken log: %v", err)
	}
	l.Server = nil
	mend()
	if err := os.RemoveAll(filepath.Join(dir, "stream")); err != nil {
		t.Fatal(err)
	}
	for start := range 2 {
		l = startLedger(t, dir, balanced)
		l.until("the notice is published", "/v1/status", func(_ int, out obj) bool { return out["publishedSize"].(float64) >= 3 })
		events := l.events("")
		if len(events) != 3 {
			t.Fatalf("start %d: %d events, want two kept and one notice", start, len(events))
		}
		rec, err := event.ParseRecord(events[2].Record)
		if err != nil {
			t.Fatal(err)
		}
		e := rec.Event
		if e.Subject.Kind != event.Ledger || e.ClaimBoundary != "ledger_notice_v1" || string(e.Statement) != `{"gap":{"count":3,"from":3,"to":5}}` {
			t.Errorf("start %d: notice %s", start, events[2].Record)
		}
		for _, id := range lost {
			if code, _ := l.do("GET", "/v1/attempts/"+id, nil); code != http.StatusNotFound {
				t.Errorf("start %d: lost attempt %s: %d", start, id, code)
			}
		}
		l.settled("/v1/receipts")
		list := l.want(http.StatusOK, "GET", "/v1/receipts?kind=ledger", nil)["receipts"].([]any)
		if len(list) != 1 || text(list[0], "eventType") != "ledger.attempt" {
			t.Errorf("start %d: notices in the views: %v", start, list)
		}
		l.verified(l.get("/v1/attempts/" + text(list[0], "attemptId") + "/bundle"))
		l.stop()
	}
	// A lost event can be sent again: it is new.
	l = startLedger(t, dir, balanced)
	r := l.begin("lost-0")
	if text(r, "attemptId") == lost[0] || r["leafIndex"] != 3.0 {
		t.Errorf("sent again: %v", r)
	}
	if strings.Contains(string(l.get("/v1/parked")), "leafHash") {
		t.Error("something is parked")
	}
}
