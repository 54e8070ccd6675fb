package faults

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// derivedKind deletes what is made from the log and the stream.
var derivedKind = kind{
	name:   "derived files lost",
	says:   "kill −9; index, views or both are deleted",
	inject: func(r *round) { r.sleep(0, 100*time.Millisecond); r.p.kill(syscall.SIGKILL) },
	recover: func(r *round) {
		which := 1 + r.rng.IntN(3)
		for i, name := range []string{"index", "views"} {
			if which&(1<<i) != 0 {
				remove(r.t, r.era.dir, name)
			}
		}
		r.start()
	},
	refusals: []string{nobodyListens, noAnswer},
}

// streamKind damages the files of the embedded stream. What it had beyond the log
// was never acknowledged, and its loss is announced if it shows.
var streamKind = kind{
	name:   "stream damaged",
	says:   "kill −9; the stream's files are cut, deleted in part, or deleted",
	needs:  embeddedNATS,
	inject: func(r *round) { r.sleep(0, 100*time.Millisecond); r.p.kill(syscall.SIGKILL) },
	recover: func(r *round) {
		blks := blocks(r.t, r.era.dir)
		blk := blks[r.rng.IntN(len(blks))]
		var err error
		switch r.rng.IntN(5) {
		case 0:
			r.say("all deleted")
			err = os.RemoveAll(filepath.Join(r.era.dir, "stream"))
		case 1:
			r.say("a block deleted")
			err = os.Remove(blk)
		case 2:
			r.say("a block overwritten")
			err = os.WriteFile(blk, make([]byte, 5000), 0o600)
		case 3:
			r.say("a byte changed")
			var b []byte
			if b, err = os.ReadFile(blk); err == nil && len(b) > 0 {
				b[r.rng.IntN(2)*r.rng.IntN(len(b))] ^= 1 << r.rng.IntN(8) // the first byte or any
				err = os.WriteFile(blk, b, 0o600)
			}
		default:
			r.say("a block cut")
			var fi os.FileInfo
			if fi, err = os.Stat(blk); err == nil {
				err = os.Truncate(blk, r.rng.Int64N(fi.Size()+1))
			}
		}
		if err != nil {
			r.t.Fatal(err)
		}
		r.start()
	},
	refusals: []string{nobodyListens, noAnswer},
}
