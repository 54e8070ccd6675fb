package audit_test

import (
	"testing"

	"counterfoil/ledger/tiles"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
)

func TestLOG11_CleanLogIsVerifiedFromItsTilesAlone(t *testing.T) {
	l := newLog(t).add(story(3000)...)
	r := verified(t, l.config())
	if r.Leaves.Folded != 3000 || r.Leaves.Counted != 3000 || r.Attempts["succeeded"] != 1500 || r.Tenant != leaftest.Tenant {
		t.Errorf("%s", text(r))
	}
}

func TestLOG11_OneFlippedBitIsNamed(t *testing.T) {
	leaves := story(10_000)
	l := newLog(t).add(leaves...)
	name := l.file(tiles.EntriesPath(4213/256, 256))
	change(t, name, func(b []byte) []byte { return flip(entryAt(t, b, 4213%256) + 100)(b) })
	r := refused(t, l.config(), audit.DamagedLeaf)
	f := r.Findings.Listed[0]
	if *f.LeafIndex != 4213 || f.Expected == f.Got {
		t.Errorf("%+v", f)
	}
}

func BenchmarkAudit(b *testing.B) {
	const n = 20_000
	l := newLog(b).add(story(n)...)
	for b.Loop() {
		verified(b, l.config())
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "leaves/s")
}
