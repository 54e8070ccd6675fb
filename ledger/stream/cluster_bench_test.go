package stream

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

var benchBody = bytes.Repeat([]byte("x"), 700)

// BenchmarkClusterPublish stores 700-byte messages on three nodes in this
// process, each writer in shards of its own, through the node that leads the
// stream or another.
func BenchmarkClusterPublish(b *testing.B) {
	for _, through := range []string{"leader", "follower"} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprint(through, "/", writers), func(b *testing.B) {
				c := newTrio(b)
				node := c.leader(b, DefaultName)
				if through == "follower" {
					node = (node + 1) % 3
				}
				s := c.s[node]
				var n atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for g := range writers {
					wg.Go(func() {
						var last [4]uint64
						for i := 0; n.Add(1) <= int64(b.N); i++ {
							shard := 4*g + i%4
							seq, err := s.Publish(context.Background(), Msg{subject("tool_action", "attempt", shard), benchBody}, filter(shard), last[i%4])
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
			})
		}
	}
}

// BenchmarkClusterBatch stores the same in atomic batches of JetStream, with 64
// messages on their way as there: in one batch, or in several side by side. The
// choice of single publishes rests on it (decision 0014).
func BenchmarkClusterBatch(b *testing.B) {
	for _, side := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(side, "x", 64/side), func(b *testing.B) {
			c := newTrio(b)
			s := c.s[c.leader(b, DefaultName)]
			cfg := s.wanted()
			cfg["num_replicas"], cfg["allow_atomic"] = 3, true
			must(b, s.api(b.Context(), "STREAM.UPDATE."+DefaultName, cfg, nil))
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for g := range side {
				wg.Go(func() {
					last := make([]uint64, 64/side)
					for n.Add(int64(len(last))) <= int64(b.N)+int64(len(last)) {
						if err := benchBatch(b.Context(), s, g*len(last), last); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// benchBatch publishes one message in each shard from first on.
func benchBatch(ctx context.Context, s *Stream, first int, last []uint64) error {
	id := rand.Text()
	for i := range last {
		h := expectation{filter: filter(first + i), last: last[i]}.header()
		h["Nats-Batch-Id"], h["Nats-Batch-Sequence"] = []string{id}, []string{fmt.Sprint(i + 1)}
		m := &nats.Msg{Subject: subject("tool_action", "attempt", first+i), Header: h, Data: benchBody}
		if i < len(last)-1 {
			if err := s.nc.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		h["Nats-Batch-Commit"] = []string{"1"}
		end, err := s.publishOnce(ctx, m)
		if err != nil {
			return err
		}
		for j := range last {
			last[j] = end - uint64(len(last)-1-j)
		}
	}
	return nil
}
