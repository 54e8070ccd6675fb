// Command scale prints the arithmetic of docs/scale.md: what an event costs, what one
// stream carries, what a tree of a given size takes to prove, to store and to audit.
// With -out it writes the tables into the page, between its markers.
//
//	go run ./internal/scale [-out docs/scale.md]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	out := flag.String("out", "", "page to write the tables into; without it they are printed")
	flag.Parse()
	if err := run(*out, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

const maxPage = 1 << 20

func run(path string, stdout io.Writer) error {
	if path == "" {
		for _, s := range sections() {
			fmt.Fprintf(stdout, "%s\n\n%s\n", s.name, s.table)
		}
		return nil
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(page) > maxPage {
		return fmt.Errorf("%s has %d bytes, at most %d are expected", path, len(page), maxPage)
	}
	next, err := fill(page)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, next, 0o644) //nolint:gosec // a page of documentation
}

// fill puts every table between its two markers.
func fill(page []byte) ([]byte, error) {
	for _, s := range sections() {
		begin, end := []byte("<!-- begin "+s.name+" -->\n"), []byte("<!-- end "+s.name+" -->")
		before, rest, ok := bytes.Cut(page, begin)
		if !ok {
			return nil, fmt.Errorf("no line %q", begin)
		}
		_, after, ok := bytes.Cut(rest, end)
		if !ok {
			return nil, fmt.Errorf("no line %q", end)
		}
		page = bytes.Join([][]byte{before, begin, []byte(s.table), end, after}, nil)
	}
	return page, nil
}

type section struct{ name, table string }

func sections() []section {
	return []section{
		{"an event", anEvent()},
		{"flushes", flushes()},
		{"callers", callers()},
		{"nodes", nodes()},
		{"logs", logs()},
		{"trees", trees()},
		{"objects", objects()},
		{"audit", audit()},
	}
}

// table lays out rows as Markdown; the first is the head.
func table(rows ...[]string) string {
	var b strings.Builder
	for i, r := range rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(r)-1) + "\n")
		}
	}
	return b.String()
}

// number writes n with thin groups of three digits.
func number(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes bytes in the unit that fits.
func size(b float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for b >= 1000 && i < len(units)-1 {
		b /= 1000
		i++
	}
	if b < 10 && i > 0 {
		return fmt.Sprintf("%.1f %s", b, units[i])
	}
	return fmt.Sprintf("%.0f %s", b, units[i])
}

// duration writes seconds in the unit that fits.
func duration(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 172800:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return fmt.Sprintf("%.0f days", s/86400)
}
