package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every system records a little, is verified where it says so, and has its rows.
func TestBesideOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "benchmarks.md")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-rounds", "1", "-seconds", "0.05", "-clients", "3", "-dir", dir, "-out", file}, &out, os.Stderr); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	want := []string{"ledger in process", "ledger over HTTP", "plain file with group commit", "Tessera, batches of 256 or 250ms", "Tessera, batches as clients or 2ms",
		"JetStream", "JetStream, flush always", "immudb, verified, flush after 20ms", "immudb, verified, flush after 1ms",
		"ledger over HTTP, batches of 1,000", "immudb, verified, flush after 1ms, batches of 256", "JetStream, flush always, atomic batches of 1,000",
		"ledger in process / immudb, verified, flush after 20ms"}
	if !strings.Contains(text, noRekor) {
		want = append(want, "Rekor v2, batches as clients or 2ms, checkpoints every 100ms")
	}
	for _, row := range want {
		if !strings.Contains(text, "\n| "+row+" | ") {
			t.Errorf("no row %q", row)
		}
	}
	if !strings.Contains(text, meaning) {
		t.Error("what an answer means is not said")
	}
	if t.Failed() {
		t.Log(text)
	}
}
