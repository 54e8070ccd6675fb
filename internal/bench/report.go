package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// series are the figures of one measurement, one a round.
type series struct {
	name, unit string
	values     []float64
	note       string
}

func (s *series) add(v float64) { s.values = append(s.values, v) }

func (s *series) median() float64 {
	if len(s.values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(s.values))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

type section struct {
	title, text string
	rows        []*series
}

type report struct{ sections []*section }

func newReport() *report { return &report{} }

func (r *report) section(title, text string) *section {
	s := &section{title: title, text: text}
	r.sections = append(r.sections, s)
	return s
}

func (s *section) series(name, unit string) *series {
	for _, x := range s.rows {
		if x.name == name {
			return x
		}
	}
	x := &series{name: name, unit: unit}
	s.rows = append(s.rows, x)
	return x
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nWritten by `go run ./internal/bench -out docs/benchmarks.md` on %s.\nMachine: %s.\n\n"+
		"Each row is the median of its rounds, with the smallest and largest in brackets. Baselines were measured in the same rounds.\n",
		time.Now().UTC().Format("2006-01-02"), machine())
	for _, s := range r.sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| what | median | range | unit |\n|---|---:|---:|---|\n", s.title, s.text)
		for _, x := range s.rows {
			fmt.Fprintf(&b, "| %s | %s | %s … %s | %s |\n", x.name, figure(x.median()), figure(slices.Min(x.values)), figure(slices.Max(x.values)), x.unit)
		}
		for _, x := range s.rows {
			if x.note != "" {
				fmt.Fprintf(&b, "\n%s\n", x.note)
			}
		}
	}
	return b.String()
}

func figure(v float64) string {
	switch {
	case v >= 1000:
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
