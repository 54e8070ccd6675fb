package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// section is one with a row of three rounds.
func section(title string, values ...float64) *Section {
	s := &Section{Title: title, Text: "What " + title + " is.", Made: "Measured then."}
	for _, v := range values {
		s.Series("rate", "events/s").Add(v)
	}
	return s
}

func TestMergeKeepsOtherSections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	for _, s := range []*Section{section(TitleGrowth, 1), section("Something else", 5), section(TitleThroughput, 2), section(TitleBatch, 3)} {
		if err := Write(file, s); err != nil {
			t.Fatal(err)
		}
	}
	before := read(t, file)
	var at int
	for _, title := range []string{"# Benchmarks", "## " + TitleThroughput, "## " + TitleBatch, "## " + TitleGrowth, "## Something else"} {
		i := strings.Index(before, title+"\n")
		if i < at {
			t.Fatalf("%q at %d, after %d:\n%s", title, i, at, before)
		}
		at = i
	}
	again := section(TitleBatch, 7000, 9000.4, 8000)
	if err := Write(file, again); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(before, "| rate | 3.00 | 3.00 … 3.00 | events/s |", "| rate | 8,000 | 7,000 … 9,000 | events/s |", 1)
	if got := read(t, file); got != want || got == before {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestMergeReplacesTheHead(t *testing.T) {
	got := Merge("# Old\n\nWords.\n\n## "+TitleBatch+"\n\nKept.\n\n| a |\n|---|\n| 1 |\n", section(TitleWitness, 1))
	if strings.Contains(got, "Words.") || !strings.HasPrefix(got, intro) || !strings.Contains(got, "\n## "+TitleBatch+"\n\nKept.\n\n| a |\n|---|\n| 1 |\n\n## "+TitleWitness) {
		t.Error(got)
	}
}

func TestGrid(t *testing.T) {
	s := &Section{Title: "T", Text: "Text.", Made: "Made."}
	g := s.Grid("leaves")
	g.Compare("last / first")
	for _, v := range []float64{100, 300, 200} {
		g.Add("rate", "10", v)
	}
	g.Add("rate", "20", 50)
	g.Add("only large", "20", 1)
	s.Note("A note.")
	want := "## T\n\nText.\n\nMade.\n\n| leaves | 10 | 20 | last / first |\n|---|---:|---:|---:|\n" +
		"| rate | 200.0 (100.0 … 300.0) | 50.0 | 0.25 |\n| only large | – | 1.00 | – |\n\nA note.\n"
	if got := Text(s); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if g.Last("rate", "10") != 200 || g.Median("rate", "10") != 200 || g.Last("x", "y") != 0 {
		t.Error("last, median:", g.Last("rate", "10"), g.Median("rate", "10"), g.Last("x", "y"))
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.034: "0.03", 9.99: "9.99", 10.04: "10.0", 999.96: "1000.0", 1000: "1,000", 1234567.8: "1,234,568"} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %s, want %s", v, got, want)
		}
	}
	for n, want := range map[int]string{1: "1", 999: "999", 1000: "1,000", 5_000_000: "5,000,000"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The report in the repository is as this package writes it, so that a section
// that is measured again changes itself alone.
func TestReportIsAsWritten(t *testing.T) {
	text := read(t, filepath.Join("..", "..", "..", "docs", "benchmarks.md"))
	if got := Merge(text); got != text {
		t.Error("docs/benchmarks.md is not as the benchmarks write it: they replace its head, and order its sections")
	}
	_, sections := split(text)
	for _, s := range sections {
		if place(s) == len(order) {
			t.Errorf("no benchmark writes the section %q", title(s))
		}
		if !strings.Contains(s, "\nMeasured on ") {
			t.Errorf("section %q does not say when and on what it was measured", title(s))
		}
	}
}
