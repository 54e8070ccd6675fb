package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/transparency-dev/tessera"
	"golang.org/x/mod/sumdb/tlog"
)

// policy is a tlog-policy that asks for all of these witnesses.
func policy(logKey string, witnesses ...*witness) string {
	var b, names strings.Builder
	fmt.Fprintf(&b, "log %s\n", logKey)
	for i, w := range witnesses {
		fmt.Fprintf(&b, "witness w%d %s %s\n", i, w.vkey, w.url)
		fmt.Fprintf(&names, " w%d", i)
	}
	return fmt.Sprintf("%sgroup everyone all%s\nquorum everyone\n", &b, &names)
}

// TestLOG10_ThreeMakersCosignOneLedger: the checkpoints of a running ledger are
// cosigned by three witnesses of three makers while it grows, each from a size
// of its own, and meet one policy that Tessera reads.
func TestLOG10_ThreeMakersCosignOneLedger(t *testing.T) {
	l := startLedger(t, t.TempDir())
	witnesses := []*witness{startOurs(t, t.TempDir(), l.vkey), startLite(t, t.TempDir(), l.vkey), startOmni(t, t.TempDir(), l.vkey)}
	group, err := tessera.NewWitnessGroupFromPolicy([]byte(policy(l.vkey, witnesses...)))
	if err != nil {
		t.Fatal(err)
	}
	at := make([]int64, len(witnesses))
	for round, size := range []int{3, 300, 700, 1030} {
		l.begin(t, size-l.begun)
		checkpoint, tree := l.checkpoint(t), openTree(t, l)
		hashes := tlog.TileHashReader(tree, &tileReader{base: l.url + "/log"})
		signed := checkpoint
		for i, w := range witnesses {
			if round == i { // one misses a round, and catches up in the next
				continue
			}
			var proof []tlog.Hash
			if at[i] > 0 {
				if proof, err = tlog.ProveTree(tree.N, at[i], hashes); err != nil {
					t.Fatal(err)
				}
			}
			got := w.post(t, request(fmt.Sprint(at[i]), proof, checkpoint))
			if got.status != 200 {
				t.Fatalf("%s from %d to %d: %+v", w.cmd.Path, at[i], size, got)
			}
			at[i] = tree.N
			opened(t, checkpoint+got.body, l.vkey, w)
			signed += got.body
		}
		if all := round >= len(witnesses); group.Satisfied([]byte(signed)) != all {
			t.Errorf("round %d: the policy is met: %v, want %v", round, !all, all)
		} else if all {
			opened(t, signed, l.vkey, witnesses...)
		}
	}
}
