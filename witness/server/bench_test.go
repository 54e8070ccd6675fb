package server

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAddCheckpoint grows 64 logs by one leaf a request, each log by one
// client over a kept connection; the clients sign in the same process.
func BenchmarkAddCheckpoint(b *testing.B) {
	const logs, most = 64, 20_000
	var all []testLog
	for i := range logs {
		l := newLog(b, fmt.Sprint("log.example/", i), 0, 0, "")
		if i > 0 {
			l.Tree = all[0].Tree
		} else {
			l = newLog(b, "log.example/0", most, most, "")
		}
		all = append(all, l)
	}
	w := newWitness(b, 1<<40, all...)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: logs}}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, l := range all {
		wg.Go(func() {
			for size := uint64(0); left.Add(-1) >= 0 && size < most; size++ {
				resp, err := client.Post(w.url+"/add-checkpoint", "", strings.NewReader(l.grow(b, size, size+1)))
				if got := read(b, resp, err); got.status != 200 {
					b.Errorf("%d %s", got.status, got.body)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}
