package follow_test

import (
	"fmt"
	"testing"

	"counterfoil/projections/follow"
	"counterfoil/projections/leaftest"
)

// BenchmarkApply folds leaves as fast as it can, signatures unchecked. The span
// is what the follower takes from one checkpoint to the next.
func BenchmarkApply(b *testing.B) {
	for _, span := range []int{64, 1000, 1 << 30} {
		b.Run(fmt.Sprintf("span=%d", span), func(b *testing.B) {
			var leaves [][]byte
			for leaf := range leaftest.Actions((b.N+1)/2, 50) {
				leaves = append(leaves, leaf)
			}
			log := leaftest.NewLog(leaves...)
			db := open(b, b.TempDir())
			f := follower(b, db, log, func(c *follow.Config) { c.Check = leaftest.NoCheck })
			sizes := []int{}
			for size := 0; size < len(leaves); {
				size = min(size+span, len(leaves))
				sizes = append(sizes, size)
			}
			roots := leaftest.Roots(leaves, sizes)
			b.ReportAllocs()
			b.ResetTimer()
			for i, size := range sizes {
				log.PublishAs(uint64(size), roots[i])
				catchUp(b, f)
			}
			b.ReportMetric(float64(len(leaves))/b.Elapsed().Seconds(), "leaves/s")
		})
	}
}
