package stream

import (
	"errors"
	"slices"
	"testing"

	"counterfoil/ledger/event"
)

// TestNextMatchFindsEveryMessageOfARareSubject: in order, across shards, and again
// after a restart.
func TestNextMatchFindsEveryMessageOfARareSubject(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testConfig(dir))
	var want []uint64
	last := make([]uint64, 16)
	for i := range 300 {
		kind, lifecycle := "tool_action", "attempt"
		switch {
		case i%41 == 0:
			kind = "ledger"
		case i%53 == 0:
			kind, lifecycle = "ledger", "outcome"
		}
		shard := i % len(last)
		seq, err := s.Publish(t.Context(), Msg{Subject: subject(kind, lifecycle, shard), Body: []byte("x")}, filter(shard), last[shard])
		if err != nil {
			t.Fatal(err)
		}
		if last[shard] = seq; kind == "ledger" && lifecycle == "attempt" {
			want = append(want, seq)
		}
	}
	for range 2 {
		var got []uint64
		for from := uint64(0); ; {
			m, err := s.NextMatch(t.Context(), from, event.NoticeFilter("default"))
			if errors.Is(err, ErrNotFound) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got, from = append(got, m.Seq), m.Seq+1
		}
		if !slices.Equal(got, want) || len(want) != 8 {
			t.Errorf("got %v, want %v", got, want)
		}
		closeStream(t, s)
		s = open(t, testConfig(dir))
	}
	for _, bad := range []string{"counterfoil.v1.default.ledger.>", "other.v1.a.b.c.00", ""} {
		if _, err := s.NextMatch(t.Context(), 1, bad); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("filter %q: %v", bad, err)
		}
	}
}

func BenchmarkNextMatch(b *testing.B) {
	s := open(b, testConfig(b.TempDir()))
	var last uint64
	for range 1000 {
		last = mustPublish(b, s, 1, "x", last)
	}
	for b.Loop() {
		if _, err := s.NextMatch(b.Context(), 500, filter(1)); err != nil {
			b.Fatal(err)
		}
	}
}
