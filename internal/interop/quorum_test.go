package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// TestLOG11_LedgerWithThreeMakers: the ledger itself asks three witnesses of
// three makers, of which ours signs with two keys, and all must have signed. Its
// receipts become witnessed, and a bundle verifies offline under the policy.
// Without one of them it goes on publishing and says what is missing; when that
// witness is back, what was published meanwhile is witnessed too.
func TestLOG11_LedgerWithThreeMakers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := startLedger(t, dir) // for its key
	first.begin(t, 3)
	first.stop()
	ours := startOursWith(t, t.TempDir(), []string{"ed25519", "ml-dsa-44"}, first.vkey)
	lite, omni := startLite(t, t.TempDir(), first.vkey), startOmni(t, t.TempDir(), first.vkey)
	text := fmt.Sprintf("log %s\nwitness ours-ed %s %s\nwitness ours-pq %s %s\ngroup ours all ours-ed ours-pq\nwitness lite %s %s\nwitness omni %s %s\ngroup everyone all ours lite omni\nquorum everyone\n",
		first.vkey, ours.vkey, ours.url, ours.more[0], ours.url, lite.vkey, lite.url, omni.vkey, omni.url)
	file := write(t, filepath.Join(t.TempDir(), "policy"), text)
	l := startLedger(t, dir, "--witness-policy", file)
	l.begun = 3
	trust := write(t, filepath.Join(t.TempDir(), "trust.json"), string(l.call(t, http.MethodGet, "/v1/trust", "")))
	verifier := program(t, ourVerifier)
	// verify fetches a bundle and returns the exit code under the policy.
	verify := func(attempt string) (int, string) {
		bundle := write(t, filepath.Join(t.TempDir(), "bundle.json"), string(l.call(t, http.MethodGet, "/v1/attempts/"+attempt+"/bundle", "")))
		cmd := exec.Command(verifier, bundle, "--trust", trust, "--policy", file, "--max-age", "10m")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	stage := func(attempt string) string {
		var a struct{ Stage string }
		if err := json.Unmarshal(l.call(t, http.MethodGet, "/v1/attempts/"+attempt, ""), &a); err != nil {
			t.Fatal(err)
		}
		return a.Stage
	}
	for _, n := range []int{1, 300, 800} {
		attempt := l.begin(t, n)
		eventually(t, "the receipt is witnessed", func() bool { return stage(attempt) == "witnessed" })
		code, out := verify(attempt)
		if code != 0 {
			t.Fatalf("verification ended with %d: %s", code, out)
		}
		if n == 800 {
			eventually(t, "the served checkpoint carries all cosignatures", func() bool {
				return strings.Count(l.checkpoint(t), "\n— ") == 5
			})
			opened(t, l.checkpoint(t), l.vkey, ours, lite, omni)
		}
	}
	// One that does not answer: SIGSTOP keeps its address and its state.
	pause(t, omni)
	attempt := l.begin(t, 5)
	eventually(t, "the two that answer have cosigned", func() bool { return strings.Count(l.checkpoint(t), "\n— ") == 4 })
	if got := stage(attempt); got != "published" {
		t.Errorf("without one witness the receipt is %s", got)
	}
	if code, out := verify(attempt); code != 1 || !strings.Contains(out, "omni") {
		t.Errorf("without one witness the verification ends with %d: %s", code, out)
	}
	resume(t, omni)
	eventually(t, "the receipt is witnessed afterwards", func() bool { return stage(attempt) == "witnessed" })
	if code, out := verify(attempt); code != 0 {
		t.Errorf("verification ended with %d: %s", code, out)
	}
}

func pause(t testing.TB, w *witness) {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func resume(t testing.TB, w *witness) {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
