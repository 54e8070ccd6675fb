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

// BenchmarkClusterPublish stores 700-byte messages from 64 goroutines on three
// nodes in this process, each in shards of its own, published through one node.
func BenchmarkClusterPublish(b *testing.B) {
	c := newTrio(b)
	lead := c.leader(b, DefaultName)
	for _, bc := range []struct {
		name string
		node int
	}{{"leader", lead}, {"follower", (lead + 1) % 3}} {
		b.Run(bc.name, func(b *testing.B) {
			s := c.s[bc.node]
			body := bytes.Repeat([]byte("x"), 700)
			var n atomic.Int64
			last := [256]uint64{}
			for i := range last {
				var err error
				if last[i], err = s.LastSeq(b.Context(), filter(i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for i := 0; n.Add(1) <= int64(b.N); i++ {
						shard := 4*g + i%4
						seq, err := s.Publish(context.Background(), Msg{subject("tool_action", "attempt", shard), body}, filter(shard), last[shard])
						if err != nil {
							b.Error(err)
							return
						}
						last[shard] = seq
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// BenchmarkClusterBatch stores the same in atomic batches: as many messages on
// their way as there, in batches that wait for one another or not. It is what
// the choice of single publishes rests on (decision 0014).
func BenchmarkClusterBatch(b *testing.B) {
	c := newTrio(b)
	s := c.s[c.leader(b, DefaultName)]
	body := bytes.Repeat([]byte("x"), 700)
	for _, side := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(side, "x", 64/side), func(b *testing.B) {
			size := 64 / side
			var n atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for g := range side {
				wg.Go(func() {
					last := make([]uint64, size)
					for i := range last {
						var err error
						if last[i], err = s.LastSeq(b.Context(), filter(g*size+i)); err != nil {
							b.Error(err)
							return
						}
					}
					for n.Add(int64(size)) <= int64(b.N) {
						id := rand.Text()
						for i := range size {
							shard := g*size + i
							h := expectation{filter: filter(shard), last: last[i]}.header()
							h["Nats-Batch-Id"], h["Nats-Batch-Sequence"] = []string{id}, []string{fmt.Sprint(i + 1)}
							m := &nats.Msg{Subject: subject("tool_action", "attempt", shard), Header: h, Data: body}
							if i < size-1 {
								must(b, s.nc.PublishMsg(m))
								continue
							}
							h["Nats-Batch-Commit"] = []string{"1"}
							ack, err := s.publishOnce(b.Context(), m)
							if err != nil {
								b.Error(err)
								return
							}
							for j := range last {
								last[j] = ack - uint64(size-1-j)
							}
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
