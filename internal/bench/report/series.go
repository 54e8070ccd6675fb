package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Series are the figures of one measurement, one a round.
type Series struct {
	name, unit string
	values     []float64
}

// Add takes the figure of one more round.
func (s *Series) Add(v float64) { s.values = append(s.values, v) }

// Median is the middle figure; of an even number, the mean of the two in the
// middle. Without figures it is 0.
func (s *Series) Median() float64 {
	if len(s.values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(s.values))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// spread is "smallest … largest".
func (s *Series) spread() string {
	return Figure(slices.Min(s.values)) + " … " + Figure(slices.Max(s.values))
}

// cell is the median with its spread, or the figure itself if there is one.
func (s *Series) cell() string {
	switch len(s.values) {
	case 0:
		return "–"
	case 1:
		return Figure(s.values[0])
	}
	return Figure(s.Median()) + " (" + s.spread() + ")"
}

// Figure writes a number with as many digits as it deserves.
func Figure(v float64) string {
	switch {
	case v >= 1000:
		return Count(int(math.Round(v)))
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Count writes a whole number with its thousands marked.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
