package report

import (
	"fmt"
	"strings"
)

// Section is what was measured together. Its title is its identity in the file.
type Section struct {
	Title string
	Text  string // what was measured and how, Markdown
	Made  string // when, on what, with how many rounds; one sentence or two

	rows  []*Series
	grids []*Grid
	notes []string
}

// Series is the row of a name, made on first use.
func (s *Section) Series(name, unit string) *Series {
	for _, x := range s.rows {
		if x.name == name {
			return x
		}
	}
	x := &Series{name: name, unit: unit}
	s.rows = append(s.rows, x)
	return x
}

// Grid is the table of a name, made on first use: rows against columns, such as
// systems against numbers of clients.
func (s *Section) Grid(name string) *Grid {
	for _, g := range s.grids {
		if g.name == name {
			return g
		}
	}
	g := &Grid{name: name, cells: map[[2]string]*Series{}}
	s.grids = append(s.grids, g)
	return g
}

// Note adds a paragraph, or a table, below the figures.
func (s *Section) Note(markdown string) { s.notes = append(s.notes, markdown) }

// Grid is a table of figures. Rows and columns stand in the order of first use.
type Grid struct {
	name       string
	rows, cols []string
	cells      map[[2]string]*Series
	compare    string // heading of a last column: the last figure by the first
}

// Add takes the figure of one more round.
func (g *Grid) Add(row, col string, v float64) { g.at(row, col).Add(v) }

func (g *Grid) at(row, col string) *Series {
	s := g.cells[[2]string{row, col}]
	if s == nil {
		s = &Series{}
		g.cells[[2]string{row, col}] = s
		g.rows, g.cols = with(g.rows, row), with(g.cols, col)
	}
	return s
}

// Median is that of a cell; 0 without figures.
func (g *Grid) Median(row, col string) float64 {
	if s := g.cells[[2]string{row, col}]; s != nil {
		return s.Median()
	}
	return 0
}

// Last is the figure that a cell took last; 0 without figures.
func (g *Grid) Last(row, col string) float64 {
	if s := g.cells[[2]string{row, col}]; s != nil {
		return s.values[len(s.values)-1]
	}
	return 0
}

// Compare adds a column with the median of the last column divided by that of
// the first.
func (g *Grid) Compare(heading string) { g.compare = heading }

func with(list []string, x string) []string {
	for _, y := range list {
		if y == x {
			return list
		}
	}
	return append(list, x)
}

// markdown is the section with its heading.
func (s *Section) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n%s\n", s.Title, s.Text, s.Made)
	if len(s.rows) > 0 {
		b.WriteString("\n| what | median | range | unit |\n|---|---:|---:|---|\n")
	}
	for _, x := range s.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", x.name, Figure(x.Median()), x.spread(), x.unit)
	}
	for _, g := range s.grids {
		b.WriteString("\n")
		g.markdown(&b)
	}
	for _, n := range s.notes {
		b.WriteString("\n" + n + "\n")
	}
	return b.String()
}

func (g *Grid) markdown(b *strings.Builder) {
	head, line := "| "+g.name+" |", "|---|"
	for _, c := range g.cols {
		head += " " + c + " |"
		line += "---:|"
	}
	compare := g.compare != "" && len(g.cols) > 1
	if compare {
		head += " " + g.compare + " |"
		line += "---:|"
	}
	b.WriteString(head + "\n" + line + "\n")
	for _, r := range g.rows {
		fmt.Fprintf(b, "| %s |", r)
		for _, c := range g.cols {
			cell := "–"
			if s := g.cells[[2]string{r, c}]; s != nil {
				cell = s.cell()
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		if compare {
			first, last := g.Median(r, g.cols[0]), g.Median(r, g.cols[len(g.cols)-1])
			if first > 0 && last > 0 {
				fmt.Fprintf(b, " %s |", Figure(last/first))
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteString("\n")
	}
}
