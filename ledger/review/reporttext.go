package review

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// most is how many rows of a section are shown to people; JSON has all.
const most = 20

func itoa(n int) string { return strconv.Itoa(n) }

// section is a part of a report for people.
type section struct {
	title string
	none  string
	head  []string
	rows  [][]string
}

// sections words a report. Each question has its section even if its answer is
// that there is nothing.
func (r *Report) sections() []section {
	reasons := section{"Top reason codes", "No review in this time.", []string{"code", "reviews", "by impact"}, nil}
	for _, c := range r.Reasons {
		reasons.rows = append(reasons.rows, []string{c.Code, itoa(c.Count), splitBy(c.Impact)})
	}
	again := standings("New privileged re-admission candidates", "None in this time.", r.Readmissions)
	quarantines := standings("Oldest quarantines", "Nothing is in quarantine.", r.Quarantines)
	classes := section{"Evidence classes repeatedly unavailable", "All evidence could be read.",
		[]string{"class", "state", "reviews", "contracts", "of them repeatedly", "by impact"}, nil}
	for _, c := range r.Unavailable {
		classes.rows = append(classes.rows, []string{c.Class, c.State, itoa(c.Count), itoa(c.Contracts), itoa(c.Repeated), splitBy(c.Impact)})
	}
	impacts := section{"By impact class", "No contracts.", []string{"impact", "contracts", "not reviewed", "dispositions", "gaps"}, nil}
	for _, m := range r.Impacts {
		impacts.rows = append(impacts.rows, []string{m.Impact, itoa(m.Contracts), itoa(m.Unreviewed), strings.Join(sortedCounts(m.Dispositions), ", "),
			strings.Join(sortedCounts(m.Gaps), ", ")})
	}
	return []section{reasons, again, quarantines, classes, impacts, standings("Remediation queue", "Nothing is to be remedied.", r.Queue)}
}

func standings(title, none string, list []Standing) section {
	s := section{title, none, []string{"contract", "impact", "disposition", "mode", "since", "reasons", "review"}, nil}
	for _, c := range list {
		s.rows = append(s.rows, []string{c.Contract, c.Impact, c.Disposition, c.Mode, c.Since,
			strings.Join(append(append([]string{}, c.Reasons...), c.Causes...), ", "), c.Event})
	}
	return s
}

func (r *Report) headline() string {
	return fmt.Sprintf("%d reviews from %s to %s; %d contracts in force, %d of them not reviewed", r.Reviews, r.From, r.To, r.Contracts, r.Unreviewed)
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	p := &printer{w: w}
	p.printf("Review report\n%s\n", r.headline())
	for _, s := range r.sections() {
		p.printf("\n%s\n", s.title)
		if len(s.rows) == 0 {
			p.printf("  %s\n", s.none)
			continue
		}
		t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
		for i, row := range append([][]string{s.head}, s.rows[:min(len(s.rows), most)]...) {
			for j, cell := range row {
				if cell = plain(cell); i == 0 {
					cell = strings.ToUpper(cell)
				}
				if j > 0 {
					fmt.Fprint(t, "\t")
				}
				if cell == "" {
					cell = "-"
				}
				fmt.Fprint(t, cell)
			}
			fmt.Fprint(t, "\n")
		}
		_ = t.Flush() // p has the error
		if n := len(s.rows) - most; n > 0 {
			p.printf("  and %d more\n", n)
		}
	}
	return p.err
}

// Markdown writes the report as a document.
func (r *Report) Markdown(w io.Writer) error {
	p := &printer{w: w}
	p.printf("# Review report\n\n%s.\n", r.headline())
	for _, s := range r.sections() {
		p.printf("\n## %s\n\n", s.title)
		if len(s.rows) == 0 {
			p.printf("%s\n", s.none)
			continue
		}
		p.printf("| %s |\n|%s\n", strings.Join(s.head, " | "), strings.Repeat("---|", len(s.head)))
		for _, row := range s.rows[:min(len(s.rows), most)] {
			cells := make([]string, len(row))
			for i, c := range row {
				cells[i] = escape(c)
			}
			p.printf("| %s |\n", strings.Join(cells, " | "))
		}
		if n := len(s.rows) - most; n > 0 {
			p.printf("\nAnd %d more.\n", n)
		}
	}
	return p.err
}

// escape makes text of others fit for a cell of a table.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "<", "&lt;", "[", `\[`).Replace(plain(s))
}

// plain shows what does not print by its number: names are chosen by others.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != ' ' && !unicode.IsPrint(r) && !unicode.IsMark(r) {
			fmt.Fprintf(&b, `\u{%x}`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) Write(b []byte) (int, error) {
	if p.err != nil {
		return len(b), nil
	}
	_, p.err = p.w.Write(b)
	return len(b), nil
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }
