package stream

import (
	"context"
	"testing"
	"time"
)

// The server that leads a log of rows is cut off and does not know it. What it says
// about the log's end is not believed once the others have gone on: who believed it
// would take a key that is there for one that never was (INV-2).
func TestCluster_EndOfRowsIsNotAskedOfALeaderThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWired(t)
	rows := make([]*Rows, 3)
	for i, s := range w.s {
		r, err := s.Rows(t.Context(), "ROWS")
		must(t, err)
		rows[i] = r
	}
	if seq, _, err := rows[0].Publish(t.Context(), []byte("before"), 0); seq != 1 || err != nil {
		t.Fatal(seq, err)
	}
	lead := w.leader(t, rows[0].stream)
	old, other := rows[lead], rows[(lead+1)%3]
	w.isolate(lead, true)
	until(t, "the others go on", func() bool {
		seq, last, err := other.Publish(t.Context(), []byte("after"), 1)
		return err == nil && max(seq, last) == 2
	})
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if n, err := old.Last(short); err == nil && n < 2 {
		t.Errorf("the one that is cut off says that the log ends at %d; the others have 2", n)
	}
	w.isolate(lead, false)
	until(t, "it follows again", func() bool {
		n, err := old.Last(t.Context())
		return err == nil && n == 2
	})
}
