package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"counterfoil/internal/bench/report"
)

// The commands of docs/performance.md run, on little, and all sections end up in
// one file.
func TestDocumentedCommands(t *testing.T) {
	dir := t.TempDir()
	file, profiles := filepath.Join(dir, "benchmarks.md"), filepath.Join(dir, "profiles")
	var out bytes.Buffer
	for _, args := range documented(t) {
		// Of a flag that is given twice the last counts.
		args = append(args, "-rounds", "1", "-seconds", "0.05", "-clients", "2", "-max", "300", "-dir", dir)
		if slices.Contains(args, "-out") {
			args = append(args, "-out", file)
		}
		if slices.Contains(args, "-cpuprofile") {
			args = append(args, "-cpuprofile", profiles)
		}
		if err := run(t.Context(), args, &out, os.Stderr); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{report.TitleThroughput, report.TitleBatch, report.TitleIntake, report.TitleStages, report.TitleGrowth, report.TitleWitnessed} {
		if n := strings.Count(string(b), "## "+want+"\n"); n != 1 {
			t.Errorf("%d sections %q", n, want)
		}
	}
	for _, want := range []string{"| ledger, events/s |", "| batch intake |", "| in the views |", "| rebuild of the views, leaves/s |", "| search: an agent's newest receipts, ms |"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no row %s in:\n%s", want, b)
		}
	}
	for _, name := range []string{"throughput-server-1.prof", "intake-in-process-2-1.prof"} {
		if st, err := os.Stat(filepath.Join(profiles, name)); err != nil || st.Size() == 0 {
			t.Errorf("profile %s: %v", name, err)
		}
	}
}

// documented are the arguments of every "task bench" in the page.
func documented(t *testing.T) (commands [][]string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if args, ok := strings.CutPrefix(strings.TrimSpace(line), "task bench -- "); ok {
			commands = append(commands, strings.Fields(args))
		}
	}
	if len(commands) != 3 {
		t.Fatalf("%d commands, want 3: %q", len(commands), commands)
	}
	return commands
}

func TestRefusedFlags(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-clients", "1,x"}, {"-clients", "0"}, {"-rounds", "0"}, {"-nothing"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
