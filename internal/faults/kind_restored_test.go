package faults

import (
	"path/filepath"
	"slices"
)

// restoredKind copies the stopped ledger, lets it grow, and puts parts of the copy
// back: of another copy, so that the ledger itself goes on afterwards.
var restoredKind = kind{
	name:  "old copies restored",
	says:  "parts of an older copy are put back, three combinations a round; the table says what must come of each",
	needs: embeddedNATS,
	inject: func(r *round) {
		r.p.stop()
		q := &pair{old: filepath.Join(r.t.TempDir(), "old"), now: r.era.dir, model: r.model}
		copyDir(r.t, r.era.dir, q.old)
		r.start()
		fill(r.t, r.p, r.name+"-since", 50+r.rng.IntN(300), r.model)
		r.p.settled()
		r.p.stop()
		cases := slices.DeleteFunc(restoredCases(), func(c restoredCase) bool {
			return c.rotated || c.parts == "witness" || !c.alone && slices.ContainsFunc(restoredCases(), func(d restoredCase) bool { return d.alone && d.parts == c.parts })
		})
		r.rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		for _, c := range cases[:3] {
			got, detail := q.judge(r.t, c)
			c.compare(r.t, got, detail)
			r.era.c.report.restore(c, got, detail)
			r.say(c.parts + ": " + string(got))
		}
	},
	recover:  (*round).start,
	refusals: []string{"503 stopping", nobodyListens, noAnswer},
}
