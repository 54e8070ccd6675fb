package vault

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"counterfoil/ledger/commit"
)

// BenchmarkPut: many callers at once, as an intake has them.
func BenchmarkPut(b *testing.B) {
	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			v := open(b, b.TempDir())
			var n atomic.Int64
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id, key := attempt(int(n.Add(1)))
					if err := v.Put(id, key); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
		})
	}
}

func BenchmarkPutAndSync(b *testing.B) {
	v := open(b, b.TempDir())
	var n atomic.Int64
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id, key := attempt(int(n.Add(1)))
			if err := v.Put(id, key); err != nil {
				b.Error(err)
			}
			if err := v.Sync(); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "durable_puts/s")
}

// BenchmarkLogPut: 64 callers, alone and with a log on one server.
func BenchmarkLogPut(b *testing.B) {
	for _, c := range []struct {
		name string
		open func(b *testing.B) *Vault
	}{
		{"alone", func(b *testing.B) *Vault { return open(b, b.TempDir()) }},
		{"log of one server", func(b *testing.B) *Vault { return join(b, b.TempDir(), newLog(b).rows(b)) }},
		{"log of three servers that flush", func(b *testing.B) *Vault { return newCluster(b)[0].v }},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := c.open(b)
			var n atomic.Int64
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id, key := attempt(int(n.Add(1)))
					if err := v.Put(id, key); err != nil {
						b.Error(err)
					}
					if err := v.Sync(); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "durable_puts/s")
		})
	}
}

// BenchmarkLogErase: 64 attempts with a body each, in one call.
func BenchmarkLogErase(b *testing.B) {
	v := newCluster(b)[0].v
	n := 0
	for b.Loop() {
		b.StopTimer()
		ids := make([]string, 64)
		var wg sync.WaitGroup
		for i := range ids {
			n++
			id, key := attempt(n)
			ids[i] = id
			wg.Go(func() {
				must(b, v.Put(id, key))
				must(b, v.PutBody(id, "slot", "value", big(1000, 1), commit.Raw))
			})
		}
		wg.Wait()
		b.StartTimer()
		if _, err := v.Lower(Purged, ids); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLogPutOnEveryNode: 64 callers on each of three nodes, which get in each
// other's way.
func BenchmarkLogPutOnEveryNode(b *testing.B) {
	nodes := newCluster(b)
	var n atomic.Int64
	b.SetParallelism(3 * 64 / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(n.Add(1))
			id, key := attempt(i)
			if err := nodes[i%3].v.Put(id, key); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "durable_puts/s")
}
