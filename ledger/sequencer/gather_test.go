package sequencer

import (
	"testing"
	"time"
)

// TestPaceWaitsOnlyWhereItPays: waiting pays while all callers are back before
// a batch of their own would be through.
func TestPaceWaitsOnlyWhereItPays(t *testing.T) {
	for _, c := range []struct {
		name string
		took time.Duration
		size int
		each time.Duration
		want time.Duration
	}{
		{"nothing known", 0, 0, 0, 0},
		{"fast disk: not worth measuring", 2 * time.Millisecond, 64, 10 * time.Microsecond, 0},
		{"slow disk, quick callers", 18 * time.Millisecond, 64, 150 * time.Microsecond, 18 * time.Millisecond},
		{"quick disk, slow callers", 5 * time.Millisecond, 64, 150 * time.Microsecond, 0},
		{"quick disk, few callers", 5 * time.Millisecond, 8, 150 * time.Microsecond, 5 * time.Millisecond},
		{"very slow disk", 300 * time.Millisecond, 64, 150 * time.Microsecond, gatherMax},
		{"pace not measured yet", 10 * time.Millisecond, 4, 0, 10 * time.Millisecond},
	} {
		p := pace{each: c.each}
		p.batch(c.size, c.took)
		if got := p.window(); got != c.want {
			t.Errorf("%s: window %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPaceLearns(t *testing.T) {
	var p pace
	p.came(paceMin-1, time.Second)
	if p.each != 0 {
		t.Errorf("too few messages taught %v", p.each)
	}
	for range 100 {
		p.came(50, 10*time.Millisecond)
	}
	if p.each != 200*time.Microsecond {
		t.Errorf("each %v, want 200µs", p.each)
	}
	p.batch(40, time.Millisecond)
	p.batch(3, time.Millisecond)
	if p.size != 40 {
		t.Errorf("callers %d, want 40: a small batch follows a large one", p.size)
	}
	p.batch(3, time.Millisecond)
	if p.size != 3 {
		t.Errorf("callers %d, want 3 after two small batches", p.size)
	}
}
