package cli

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/event"
)

// printRaw prints a document of the ledger as it came, on a line of its own.
func (c *cli) printRaw(raw []byte) error {
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	if _, err := c.env.Stdout.Write(append(raw[:len(raw):len(raw)], '\n')); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// printJSON prints a document of this program.
func (c *cli) printJSON(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.printRaw(b)
}

// say is talk: it goes to stderr.
func (c *cli) say(format string, args ...any) {
	fmt.Fprintf(c.env.Stderr, format+"\n", args...)
}

// table writes aligned rows; the first is the head, in capitals.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, row := range rows {
		for j, cell := range row {
			if cell = plain(cell); i == 0 {
				cell = strings.ToUpper(cell)
			} else if cell == "" {
				cell = "-"
			}
			if j > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, cell)
		}
		fmt.Fprint(t, "\n")
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// pairs writes names and values, aligned; empty values are left out.
func pairs(w io.Writer, nameValue ...string) error {
	width := 0
	for i := 0; i+1 < len(nameValue); i += 2 {
		if nameValue[i+1] != "" {
			width = max(width, len(nameValue[i]))
		}
	}
	for i := 0; i+1 < len(nameValue); i += 2 {
		if nameValue[i+1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, nameValue[i], plain(nameValue[i+1])); err != nil {
			return fmt.Errorf("write to stdout: %w", err)
		}
	}
	return nil
}

// plain shows characters that do not print, or that turn the direction of the
// text around, by their number: names are chosen by sources, and a terminal must
// not obey them.
func plain(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			b.WriteString(`\u{` + strconv.FormatInt(int64(r), 16) + "}")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return r != ' ' && !unicode.IsPrint(r) && !unicode.IsMark(r) }

// boundaries prints what the shown events do not claim, each text once
// (CLM-01).
func boundaries(w io.Writer, codes ...string) error {
	seen := map[string]bool{}
	for _, code := range codes {
		if code == "" || seen[code] {
			continue
		}
		seen[code] = true
		text, ok := event.ClaimBoundaryText(code)
		if !ok {
			text = "this program does not know the text of this boundary"
		}
		if _, err := fmt.Fprintf(w, "\n%s\n%s\n", plain(code), wrap(text, "  ", 96)); err != nil {
			return fmt.Errorf("write to stdout: %w", err)
		}
	}
	return nil
}

// wrap breaks text into indented lines of at most width bytes, where a word
// allows it.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(text) {
		switch {
		case n == 0:
			b.WriteString(indent)
			n = len(indent)
		case n+1+len(word) > width:
			b.WriteString("\n" + indent)
			n = len(indent)
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }

// parseRaw reads a document of the ledger that is shown in part as it came.
func parseRaw(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("the answer is not what a ledger answers: %w", err)
	}
	return nil
}
