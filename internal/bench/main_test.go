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
	profiles := filepath.Join(t.TempDir(), "profiles")
	text := runDocumented(t, profiles, func(args []string) bool { return !slices.Contains(args, "cluster") })
	wantSections(t, text, report.TitleThroughput, report.TitleBatch, report.TitleIntake, report.TitleStages, report.TitleGrowth, report.TitleWitnessed)
	wantRows(t, text, "ledger, events/s", "batch intake", "in the views", "rebuild of the views, leaves/s", "search: an agent's newest receipts, ms")
	for _, name := range []string{"throughput-server-1.prof", "intake-in-process-2-1.prof"} {
		if st, err := os.Stat(filepath.Join(profiles, name)); err != nil || st.Size() == 0 {
			t.Errorf("profile %s: %v", name, err)
		}
	}
}

// So does the one that starts three nodes, and ends and wipes some.
func TestDocumentedCommandForNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("a node that was killed is waited for")
	}
	text := runDocumented(t, "", func(args []string) bool { return slices.Contains(args, "cluster") })
	wantSections(t, text, report.TitleCluster)
	wantRows(t, text, "single events, of one that follows, µs/event", "batches, events/s", "longest wait of a round, p99, ms",
		"until another node published, max, ms", "catch-up, 50 leaves, a node that was away", "catch-up, 50 leaves, a node that lost its disk")
}

// runDocumented runs documented commands on little and returns the report.
func runDocumented(t *testing.T, profiles string, which func(args []string) bool) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "benchmarks.md")
	var out bytes.Buffer
	for _, args := range documented(t) {
		if !which(args) {
			continue
		}
		// Of a flag that is given twice the last counts.
		args = append(args, "-rounds", "1", "-seconds", "0.05", "-clients", "2", "-max", "300", "-takeovers", "1", "-catchup", "50", "-dir", dir)
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
	return string(b)
}

func wantSections(t *testing.T, text string, titles ...string) {
	t.Helper()
	for _, want := range titles {
		if n := strings.Count(text, "## "+want+"\n"); n != 1 {
			t.Errorf("%d sections %q", n, want)
		}
	}
}

func wantRows(t *testing.T, text string, names ...string) {
	t.Helper()
	for _, want := range names {
		if !strings.Contains(text, "| "+want+" |") {
			t.Errorf("no row %s in:\n%s", want, text)
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
	if len(commands) != 4 {
		t.Fatalf("%d commands, want 4: %q", len(commands), commands)
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
