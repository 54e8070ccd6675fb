package app_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Health is about storage: however much evidence is refused, it says nothing of it,
// and when storage is in trouble, it names the part, and no refusal of evidence says
// that it is.
func TestDUR06_HealthTellsStorageFromRefusedEvidence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	l.fill("a", 300)
	l.fill("b", 300)
	id := text(l.begin("inv"), "attemptId")
	l.append(id, "o", `"lifecycle":"outcome","status":"succeeded"`)
	l.settled("/v1/receipts")

	// Evidence that is refused, in every way: malformed, conflicting, unlawful, unknown,
	// too large, not to be published yet.
	refuse := func(when string) {
		t.Helper()
		for what, c := range map[string]struct {
			path, body string
			status     int
		}{
			"malformed":   {"/v1/attempts", `{`, http.StatusBadRequest},
			"conflicting": {"/v1/attempts", string(beginBody("inv", `{"n":2}`)), http.StatusConflict},
			"unlawful":    {"/v1/attempts/" + id + "/events", string(appendBody(id, "o2", `"lifecycle":"outcome","status":"failed"`)), http.StatusConflict},
			"of nobody":   {"/v1/attempts/att_00000000000000000000000000000000/events", string(appendBody("att_00000000000000000000000000000000", "o", `"lifecycle":"outcome","status":"failed"`)), http.StatusNotFound},
			"too large":   {"/v1/attempts", `{"x":"` + strings.Repeat("x", 25<<20) + `"}`, http.StatusRequestEntityTooLarge},
		} {
			code, out := l.do("POST", c.path, []byte(c.body))
			if code != c.status || text(out, "error.code") == "unavailable" {
				t.Errorf("%s, %s: %d %v", what, when, code, out)
			}
		}
	}
	refuse("in health")
	ready := l.want(http.StatusOK, "GET", "/readyz", nil)
	for _, c := range ready["checks"].([]any) {
		if at(c, "ok") != true || at(c, "hint") != nil {
			t.Errorf("refused evidence shows in health: %v", c)
		}
	}

	// Storage is in trouble: the part is named, healthz says that the process lives,
	// and evidence is refused for what it is, as before.
	flipByte(t, filepath.Join(dir, "log", "tile", "entries", "001"), 3000)
	req, err := http.NewRequestWithContext(t.Context(), "GET", l.Ready.Listening+"/v1/events?follow=false", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body) // breaks off where the leaf is
	res.Body.Close()
	code, out := l.do("GET", "/readyz", nil)
	if code != http.StatusServiceUnavailable || !failing(out, "tiles", "tile/entries/001") {
		t.Errorf("damaged: %d %v", code, out)
	}
	for _, c := range out["checks"].([]any) {
		if at(c, "ok") != (at(c, "name") != "tiles") {
			t.Errorf("the wrong part is named: %v", c)
		}
	}
	l.want(http.StatusOK, "GET", "/healthz", nil)
	refuse("in trouble")
}
