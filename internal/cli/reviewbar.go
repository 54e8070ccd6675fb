package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"counterfoil/ledger/review"
)

// reviewBar is one line on stderr that is written over: how far a run is, its rate,
// the time that is left, and counts by disposition. Its calls come one at a time.
type reviewBar struct {
	w           io.Writer
	on          bool
	now         func() time.Time
	start, last time.Time
	all, done   int
	worked      int // of them in this process: what the rate counts
	counts      map[string]int
	wrote       bool
}

func newReviewBar(w io.Writer, on bool, now func() time.Time, all int) *reviewBar {
	return &reviewBar{w: w, on: on, now: now, start: now(), all: all, counts: map[string]int{}}
}

func (b *reviewBar) show(o review.Outcome) {
	switch o.State {
	case review.StateDeferred:
		return
	case review.StateBefore:
		b.counts["before"]++
	case review.StateReviewed:
		b.counts[string(o.Disposition)]++
		b.worked++
	default:
		b.counts[string(o.State)]++
		b.worked++
	}
	b.done++
	now := b.now()
	if !b.on || b.done < b.all && now.Sub(b.last) < 200*time.Millisecond {
		return
	}
	b.last, b.wrote = now, true
	fmt.Fprintf(b.w, "\r%-100s", b.line(now))
}

func (b *reviewBar) line(now time.Time) string {
	const width = 24
	full := width * b.done / max(b.all, 1)
	text := fmt.Sprintf("[%s%s] %d of %d", strings.Repeat("#", full), strings.Repeat(".", width-full), b.done, b.all)
	if took := now.Sub(b.start); took > 0 && b.worked > 0 {
		rate := float64(b.worked) / took.Seconds()
		left := time.Duration(float64(b.all-b.done) / rate * float64(time.Second)).Round(time.Second)
		text += fmt.Sprintf(", %.0f/s, %s left", rate, left)
	}
	if words := countWords(b.counts, "continue", "re_admit", "quarantine", "retire", "before", "refused", "not_judged"); words != "" {
		text += ": " + words
	}
	return text
}

// end leaves the line.
func (b *reviewBar) end() {
	if b.wrote {
		fmt.Fprintln(b.w)
	}
}

// countWords is counts as text, in a fixed order and without zeros.
func countWords(counts map[string]int, order ...string) string {
	var out []string
	for _, name := range order {
		if n := counts[name]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(out, ", ")
}
