package stream

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkPublish stores 700-byte messages from 64 goroutines, each in shards
// of its own, under the expectation of its shard.
func BenchmarkPublish(b *testing.B) {
	s := open(b, testConfig(b.TempDir()))
	body := bytes.Repeat([]byte("x"), 700)
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			var last [4]uint64
			for i := 0; n.Add(1) <= int64(b.N); i++ {
				shard := 4*g + i%4
				seq, err := s.Publish(context.Background(), Msg{subject("tool_action", "attempt", shard), body}, filter(shard), last[i%4])
				if err != nil {
					b.Error(err)
					return
				}
				last[i%4] = seq
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkTail reads what is there.
func BenchmarkTail(b *testing.B) {
	s := open(b, testConfig(b.TempDir()))
	body := bytes.Repeat([]byte("x"), 700)
	w := s.window()
	for i := range b.N {
		must(b, w.put(b.Context(), Msg{subject("tool_action", "attempt", i%256), body}, uint64(i)+1))
	}
	must(b, w.flush(b.Context()))
	tail := s.Tail(b.Context(), 1)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		msgs, err := tail.Next(b.Context(), 1024)
		if err != nil {
			b.Fatal(err)
		}
		n += len(msgs)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkLatency is one publish until a tail has it.
func BenchmarkLatency(b *testing.B) {
	s := open(b, testConfig(b.TempDir()))
	tail := s.Tail(b.Context(), 1)
	var last uint64
	for b.Loop() {
		last = mustPublish(b, s, 1, "x", last)
		if _, err := tail.Next(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
}
