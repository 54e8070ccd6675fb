package receipt

import "testing"

// BenchmarkVerify reports receipts a second: one signature, one proof of 12
// hashes and one fold each, in one goroutine. Run it with GOMAXPROCS=1 to have
// the collector on the same core.
func BenchmarkVerify(b *testing.B) {
	w := newWorld(b)
	w.attempts(2048)
	raw, file := w.bundle(), w.trusts("event")
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if r := Verify(raw, file, Options{}); r.Status != Verified {
			b.Fatal(r.Status)
		}
	}
	b.ReportMetric(float64(b.N)*4096/b.Elapsed().Seconds(), "receipts/s")
}

// BenchmarkBuild reports what an export costs without its proofs.
func BenchmarkBuild(b *testing.B) {
	w := newWorld(b)
	w.attempts(512)
	entries, cp := w.entries(w.size()), w.checkpoint(w.size())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(entries, cp); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1024/b.Elapsed().Seconds(), "receipts/s")
}
