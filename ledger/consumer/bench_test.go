package consumer_test

import (
	"testing"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
)

// BenchmarkVerifiedEvents follows a log from its begin to its end, over HTTP and
// from a directory; events/s is what it hands out. Nearly all of it is one Ed25519
// verification an event.
func BenchmarkVerifiedEvents(b *testing.B) {
	const n = 20_000
	id := newIdentity(b)
	leaves := records("a", n)
	l := newLog(b, id)
	for at := 0; at < n; at += 1024 {
		l.add(leaves[at:min(at+1024, n)]...)
	}
	for name, src := range map[string]tiles.Source{"http": l.source(), "dir": tiles.Dir(l.dir)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			events := 0
			for b.Loop() {
				f := must(consumer.New(consumer.Config{Log: src, Trust: id.trust(b), Stop: true}))(b)
				for batch, err := range f.Batches(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					events += len(batch.Events)
				}
			}
			if events != b.N*n {
				b.Fatalf("%d events in %d runs of %d", events, b.N, n)
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
