package app_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/ledger/client"
)

// flipByte changes one byte of a file, and returns what puts it right.
func flipByte(t *testing.T, name string, at int) (mend func()) {
	t.Helper()
	sound, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(sound)
	bad[at] ^= 1
	write := func(b []byte) {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(bad)
	return func() { write(sound) }
}

// A log that cannot be read is never an answer in good order: not an empty one,
// and not one that ends early.
func TestLOG12_LOG15_ADamagedBundleIsNoEndOfTheEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	l.fill("a", 300)
	l.fill("b", 300)
	l.settled("/v1/receipts")
	mend := flipByte(t, filepath.Join(dir, "log", "tile", "entries", "001"), 3000)
	ready := l.want(http.StatusOK, "GET", "/readyz", nil)
	if ready["ready"] != true {
		t.Fatalf("%v", ready)
	}

	req, err := http.NewRequestWithContext(t.Context(), "GET", l.Ready.Listening+"/v1/events?follow=false", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if n := bytes.Count(b, []byte("\n")); err == nil || n < 256 || n >= 512 {
		t.Errorf("%d events and then %v", n, err)
	}

	c, err := client.New(client.Config{Server: l.Ready.Listening, Token: l.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	next := uint64(0)
	var last error
	for ev, err := range c.Events(t.Context(), client.EventsOptions{Stop: true}) {
		if err != nil {
			last = err
			break
		}
		next = ev.LeafIndex + 1
	}
	var e *client.Error
	if !errors.As(last, &e) || e.Status != http.StatusInternalServerError || e.Reason != "log_damaged" || !strings.Contains(e.Message, "tile/entries/001") {
		t.Errorf("after %d events: %v", next, last)
	}
	if next < 256 || next >= 512 {
		t.Errorf("%d events before the damage", next)
	}

	// The ledger says so until the file is right again.
	code, out := l.do("GET", "/readyz", nil)
	if code != http.StatusServiceUnavailable || !failing(out, "tiles", "tile/entries/001") {
		t.Errorf("%d %v", code, out)
	}
	mend()
	if code, out = l.do("GET", "/readyz", nil); code != http.StatusOK {
		t.Errorf("after the repair: %d %v", code, out)
	}
	// A file that is gone is damage as well.
	gone := filepath.Join(dir, "log", "tile", "entries", "000")
	if err := os.Rename(gone, gone+".aside"); err != nil {
		t.Fatal(err)
	}
	if code, out := l.do("GET", "/v1/events?follow=false", nil); code != http.StatusInternalServerError || text(out, "error.reason") != "log_damaged" {
		t.Errorf("%d %v", code, out)
	}
	if code, out = l.do("GET", "/readyz", nil); code != http.StatusServiceUnavailable || !failing(out, "tiles", "tile/entries/000") {
		t.Errorf("%d %v", code, out)
	}
	if err := os.Rename(gone+".aside", gone); err != nil {
		t.Fatal(err)
	}
	l.want(http.StatusOK, "GET", "/readyz", nil)
	if n := len(l.events("")); n != 600 {
		t.Errorf("after the repair: %d events", n)
	}
}

// failing reports whether a check fails with a text in its detail.
func failing(ready obj, name, text string) bool {
	checks, _ := ready["checks"].([]any)
	for _, c := range checks {
		c := c.(obj)
		detail, _ := c["detail"].(string)
		if c["name"] == name && c["ok"] == false && strings.Contains(detail, text) {
			return true
		}
	}
	return false
}
