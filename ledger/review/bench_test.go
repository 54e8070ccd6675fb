package review_test

import (
	"fmt"
	"testing"

	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/review"
)

// BenchmarkRun reviews admissions with real Sigstore provenance, each with its own
// receipt and records in an archive on disk. One operation is one review, so that
// its inverse is the rate of a run; the ledger's own latency is not in it.
func BenchmarkRun(b *testing.B) {
	r := newRoom(b)
	p := reviewkit.Shipped(b, "privileged")
	v := reviewkit.Sigstore(b, "public-good.2023")
	var contracts []review.Contract
	for i := range 64 {
		c := reviewkit.RealSigstore(b, p, "privileged")
		c.Server = fmt.Sprintf("io.github.sigstore/sigstore-%d", i)
		contracts = append(contracts, r.contract(fmt.Sprint("c", i), "privileged", c.Admit(b, r, r.owner())))
	}
	var book book
	plan := review.Selection{Now: reviewkit.Now}.New(contracts)
	for i := 0; b.Loop(); i += len(contracts) {
		out, err := (&review.Run{ID: fmt.Sprint("run-", i), Judge: r.judge(p, v), Record: &book}).Do(b.Context(), plan)
		if err != nil || !review.AllJudged(out) {
			b.Fatal(err, out[0])
		}
	}
	b.ReportMetric(float64(b.N*len(contracts))/b.Elapsed().Seconds(), "reviews/s")
}

// BenchmarkPlan chooses candidates among 100,000 contracts.
func BenchmarkPlan(b *testing.B) {
	var contracts []review.Contract
	for i := range 100_000 {
		c := review.Contract{Name: fmt.Sprint("c", i), Attempt: fmt.Sprint("att_", i)}
		c.Terms.Impact, c.Terms.Receipt = []string{"low", "standard", "privileged"}[i%3], fmt.Sprint("r", i)
		contracts = append(contracts, c)
	}
	for b.Loop() {
		review.Selection{Now: reviewkit.Now, Budget: 1000}.New(contracts)
	}
}
