// Package report writes figures into a Markdown file, one section a measurement.
//
// A whole run takes hours, so sections are measured one by one and merged: a
// section replaces the one of its title and leaves all others as they are. So
// every section says itself when and on what it was measured.
package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"counterfoil/internal/durable"
)

// intro heads the file.
const intro = `# Benchmarks

Written by ` + "`task bench`" + ` and ` + "`task bench:peers`" + `, section by section; each says when and on what
it was measured. A figure is the median of its rounds, with the smallest and the largest
beside it. What a table compares was measured in the same rounds, one after the other
and again. Events of others have 700 bytes where nothing else is said; an event of the
ledger is larger, by what it signs and adds.
`

// order of the sections in the file; those with other titles follow.
var order = []string{TitlePeers, TitleThroughput, TitleBatch, TitleIntake, TitleStages, TitleWitnessed, TitleCluster, TitleGrowth, TitleWitness}

// Titles of sections.
const (
	TitlePeers      = "Beside others"
	TitleThroughput = "Throughput over HTTP"
	TitleBatch      = "Batch intake"
	TitleIntake     = "Intake in process"
	TitleStages     = "Time to each stage"
	TitleWitnessed  = "Time to a witnessed receipt"
	TitleCluster    = "Three nodes"
	TitleGrowth     = "Growth"
	TitleWitness    = "Witness"
)

// Merge is old with the sections in it, each in the place of the one of its
// title. What stands above the first section is written anew.
func Merge(old string, sections ...*Section) string {
	_, have := split(old)
	for _, s := range sections {
		text := strings.TrimSpace(s.markdown())
		if i := slices.IndexFunc(have, func(x string) bool { return title(x) == s.Title }); i >= 0 {
			have[i] = text
		} else {
			have = append(have, text)
		}
	}
	slices.SortStableFunc(have, func(a, b string) int { return place(a) - place(b) })
	return intro + "\n" + strings.Join(have, "\n\n") + "\n"
}

// split cuts a file into what stands above the first section, and the sections.
func split(text string) (head string, sections []string) {
	parts := strings.Split("\n"+text, "\n## ")
	for _, p := range parts[1:] {
		sections = append(sections, "## "+strings.TrimSpace(p))
	}
	return parts[0], sections
}

func title(section string) string {
	line, _, _ := strings.Cut(section, "\n")
	return strings.TrimPrefix(line, "## ")
}

func place(section string) int {
	if i := slices.Index(order, title(section)); i >= 0 {
		return i
	}
	return len(order)
}

// Write merges a section into a file, which is made if it is not there. The old
// content stays if anything fails.
func Write(file string, s *Section) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the report so far: %w", err)
	}
	return durable.WriteFile(file, []byte(Merge(string(old), s)), 0o644)
}

// Text is a section alone, for a terminal.
func Text(s *Section) string { return s.markdown() }
