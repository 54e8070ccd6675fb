package vault

import (
	"fmt"
	"sync/atomic"
	"testing"
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
