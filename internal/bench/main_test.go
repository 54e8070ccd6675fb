package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/bench/report"
)

// Every section runs, on little, and all of them end up in one file.
func TestSections(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "benchmarks.md")
	var out bytes.Buffer
	tiny := []string{"-rounds", "1", "-seconds", "0.05", "-clients", "1,3", "-max", "300", "-dir", dir, "-out", file}
	if err := run(t.Context(), append(tiny, "-only", "throughput,batch,intake,stages,growth"), &out, os.Stderr); err != nil {
		t.Fatal(err)
	}
	profiles := filepath.Join(dir, "profiles")
	if err := run(t.Context(), append(tiny, "-only", "witnessed,intake", "-cpuprofile", profiles), &out, os.Stderr); err != nil {
		t.Fatal(err)
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
	for _, name := range []string{"witnessed-server-1.pprof", "intake-in-process-1-1.pprof"} {
		if st, err := os.Stat(filepath.Join(profiles, name)); err != nil || st.Size() == 0 {
			t.Errorf("profile %s: %v", name, err)
		}
	}
}

func TestRefusedFlags(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-clients", "1,x"}, {"-clients", "0"}, {"-rounds", "0"}, {"-nothing"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
