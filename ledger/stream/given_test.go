package stream

import (
	"os"
	"path/filepath"
	"testing"
)

// TestINV3_MessagesThatTheStateHidesAreHealed damages the first record of the last
// block: the server leaves the block out of its state, and yet goes on from the last
// sequence that it had given out. Such a stream is rebuilt, and
// what was unlogged in it is lost and named, whether the log ends before the
// damage or after it.
func TestINV3_MessagesThatTheStateHidesAreHealed(t *testing.T) {
	for name, logged := range map[string]int{"log ends before": 250, "log ends in it": 290} {
		t.Run(name, func(t *testing.T) {
			all := bigLeaves
			dir := filledBig(t)
			last := blocks(t, dir)[2]
			b, err := os.ReadFile(last)
			must(t, err)
			b[0] ^= 6
			must(t, os.WriteFile(last, b, 0o600))
			s := open(t, testConfig(dir))
			before, err := s.State(t.Context())
			must(t, err)
			given, err := s.lastGiven(t.Context())
			must(t, err)
			if before.Last >= given {
				t.Fatalf("state %+v, given %d: the damage hides nothing", before, given)
			}
			r := mustHeal(t, s, healConfig(all[:logged], filepath.Join(t.TempDir(), "aside")))
			holds := append(leaves(nil), all[:logged]...)
			if r.Action != Rebuilt || r.MaybeLost || r.Lost.Count+r.Reappended != uint64(len(all)-logged) {
				t.Errorf("report %+v", r)
			}
			lost := map[uint64]bool{}
			for _, seq := range r.Lost.First {
				lost[seq] = true
			}
			for i := logged; i < len(all); i++ {
				if !lost[uint64(i)+1] {
					holds = append(holds, all[i])
				}
			}
			mustHold(t, s, holds)
			fill := leaf(len(all), 100)
			seq, err := s.Publish(t.Context(), Msg{leafSubject(fill), fill}, filter(len(all)%256), 45) // leaf 44 is of the same shard
			if err != nil || seq != uint64(len(holds))+1 {
				t.Errorf("the next message has sequence %d, want %d: %v", seq, len(holds)+1, err)
			}
		})
	}
}
