package verifycmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

// golden compares with a file in testdata, byte for byte.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s: %s", name, d)
	}
}

// policyLines is the policy of the vectors' log with its two witnesses.
func policyLines(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(vectors + "trust_2.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := trust.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return "log " + f.Log.String() + "\nwitness A " + f.Witnesses[0].String() + "\nwitness B " + f.Witnesses[1].String() + "\n"
}

func TestCLM05_PolicyCommand(t *testing.T) {
	lines := policyLines(t)
	two, oneOf, witnessedOne := vectors+"witnessed.bundle.json", vectors+"trust_1.json", vectors+"witness_one.bundle.json"
	all := write(t, "all", []byte(lines+"group all all A B\nquorum all\n"))
	either := write(t, "any", []byte(lines+"group any any A B\nquorum any\n"))
	nobody := write(t, "none", []byte(lines+"quorum none\n"))
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // in what is said
	}{
		{"both cosigned", []string{two, "--trust", oneOf, "--policy", all}, 0, "witness_quorum: 2 of 2; cosigned A (witness.example/1) at 2026-07-28T00:00:00Z, B (witness.example/2) at 2026-07-28T00:00:01Z; 2 needed"},
		{"one of both, all asked", []string{witnessedOne, "--trust", oneOf, "--policy", all}, 1, "witness_quorum: 1 of 2; missing B (witness.example/2); cosigned A (witness.example/1) at 2026-07-28T00:00:00Z; 2 needed"},
		{"one of both, any asked", []string{witnessedOne, "--trust", oneOf, "--policy", either}, 0, "at size 7, witnessed"},
		{"the policy in place of the trust file's quorum", []string{witnessedOne, "--trust", vectors + "trust_2.json", "--policy", either}, 0, "witness_quorum: 1 of 2; missing B (witness.example/2); "},
		{"nobody asked", []string{two, "--trust", oneOf, "--policy", nobody}, 0, "at size 7, published"},
		{"nobody asked against a trust file that asks", []string{two, "--trust", vectors + "trust_2.json", "--policy", nobody}, 2, "asks for 2 of 2 witnesses, and the policy for none"},
		{"no trust file", []string{two, "--policy", all}, 2, "hint: pass the trust file as well"},
		{"a trust file as a policy", []string{two, "--trust", oneOf, "--policy", oneOf}, 2, "hint: it is a trust file: pass it with --trust"},
		{"a policy as a trust file", []string{two, "--trust", all}, 2, "hint: it is a tlog-policy: pass it with --policy"},
		{"a bad line", []string{two, "--trust", oneOf, "--policy", write(t, "bad", []byte(lines+"quorum x\n"))}, 2, "policy line 4: "},
		{"no policy", []string{two, "--trust", oneOf, "--policy", filepath.Join(t.TempDir(), "none")}, 2, "the policy cannot be read: "},
	} {
		got := run("", c.args...)
		if got.code != c.code || !strings.Contains(got.out+got.errOut, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.name, got.code, c.code, c.want, got.out, got.errOut)
		}
		r := document(t, c.name, run("", append(c.args, "--json")...).out)
		if r.ExitCode() != c.code {
			t.Errorf("%s: the document says %s", c.name, r.Status)
		}
	}
}

func TestLOG11_MaxAgeCommand(t *testing.T) {
	seen, asks, asksNot := vectors+"witnessed.bundle.json", vectors+"trust_2.json", vectors+"trust_1.json"
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"fresh", []string{seen, "--trust", asks, "--max-age", "1h", "--now", "2026-07-28T01:00:00Z"}, 0, "freshness: the quorum is met by cosignatures since 2026-07-28T00:00:00Z, 1h0m0s before 2026-07-28T01:00:00Z; allowed are 1h0m0s"},
		{"another zone", []string{seen, "--trust", asks, "--max-age=1h", "--now=2026-07-28T02:00:00+01:00"}, 0, "at size 7, witnessed"},
		{"old", []string{seen, "--trust", asks, "--max-age", "1h", "--now", "2026-07-28T01:00:01Z"}, 1, "hint: freshness: export again under a newer checkpoint"},
		{"by this machine's clock", []string{seen, "--trust", asks, "--max-age", "1h"}, 1, "freshness: "},
		{"ahead", []string{seen, "--trust", asks, "--max-age", "1h", "--now", "2026-07-27T00:00:00Z"}, 1, "in the future"},
		{"no quorum", []string{seen, "--trust", asksNot, "--max-age", "1h"}, 2, "error: not judged: cannot be judged: no quorum is asked for"},
		{"no duration", []string{seen, "--trust", asks, "--max-age", "soon"}, 2, "--max-age"},
		{"days", []string{seen, "--trust", asks, "--max-age", "1d"}, 2, "--max-age"},
		{"nothing", []string{seen, "--trust", asks, "--max-age", "0s"}, 2, "--max-age"},
		{"less than nothing", []string{seen, "--trust", asks, "--max-age", "-1h"}, 2, "--max-age"},
		{"no time", []string{seen, "--trust", asks, "--max-age", "1h", "--now", "noon"}, 2, "--now"},
		{"before all cosignatures", []string{seen, "--trust", asks, "--max-age", "1h", "--now", "1970-01-01T00:00:00Z"}, 2, "--now"},
		{"a clock for nothing", []string{seen, "--trust", asks, "--now", "2026-07-28T01:00:00Z"}, 2, "--now is the clock for --max-age"},
	} {
		got := run("", c.args...)
		if got.code != c.code || !strings.Contains(got.out+got.errOut, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.name, got.code, c.code, c.want, got.out, got.errOut)
		}
	}
}

// Every receipt of a bundle as a tlog-proof and its leaf, which verify alone;
// nothing is written for a bundle that does not verify.
func TestBND09_TlogProofsOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "proofs")
	bundle, key := vectors+"witnessed.bundle.json", vectors+"trust_2.json"
	for range 2 { // a second run replaces the files
		got := run("", bundle, "--trust", key, "--tlog-proof", dir)
		if got.code != 0 || !strings.Contains(got.errOut, "wrote 3 tlog-proofs with their leaves to ") {
			t.Fatalf("got %+v", got)
		}
	}
	raw, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	b, err := receipt.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2*len(b.Entries) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, e := range b.Entries {
		name := filepath.Join(dir, e.Record.Digest().EventID())
		args := []string{name + ".tlog-proof", "--leaf", name + ".leaf", "--trust", key, "--max-age", "1h", "--now", "2026-07-28T00:30:00Z", "--json"}
		got := run("", args...)
		r := document(t, name, got.out)
		if got.code != 0 || r.Stage != receipt.Witnessed || r.Counts.Entries != 1 || len(r.Witnesses) != 2 {
			t.Errorf("%s: %+v", name, got)
		}
		proof, err := os.ReadFile(name + ".tlog-proof")
		if err != nil || !bytes.HasSuffix(proof, b.Checkpoint) {
			t.Errorf("%s: %v, or without the checkpoint as it stands", name, err)
		}
		if st, err := os.Stat(name + ".leaf"); err != nil || st.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	// A link that waits under a file's name is not followed.
	trap := filepath.Join(t.TempDir(), "trap")
	first := filepath.Join(dir, b.Entries[0].Record.Digest().EventID()+".leaf")
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(trap, first); err != nil {
		t.Fatal(err)
	}
	if got := run("", bundle, "--trust", key, "--tlog-proof", dir); got.code != 0 {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("the link was followed")
	}
	for _, c := range []struct {
		name   string
		bundle string
		code   int
	}{{"not verified", vectors + "chain_fork.bundle.json", 1}, {"not logged", vectors + "unlogged.bundle.json", 2}} {
		dir := filepath.Join(t.TempDir(), "none")
		if got := run("", c.bundle, "--trust", vectors+"trust_1.json", "--tlog-proof", dir); got.code != c.code {
			t.Errorf("%s: %+v", c.name, got)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the directory was made", c.name)
		}
	}
	// What was asked for and could not be written is said, with one document.
	got := run("", bundle, "--trust", key, "--tlog-proof", bundle, "--json")
	if r := document(t, "a file in place of the directory", got.out); got.code != 2 || r.Status != receipt.NotJudged || !strings.Contains(got.errOut, "could not be written") {
		t.Errorf("got %+v", got)
	}
	if got := run("", bundle, "--trust", key, "--tlog-proof", dir, "--leaf", first); got.code != 2 || !strings.Contains(got.errOut, "--leaf and --tlog-proof") {
		t.Errorf("got %+v", got)
	}
}

// EMPTY OR CUT and WHERE, as a person types them: a leaf is named with what was
// expected, and a set that was cut fails as soon as its size is known.
func TestBND02_CutAndDamagedByCommand(t *testing.T) {
	raw, err := os.ReadFile(vectors + "three_entries.bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	key := vectors + "trust_1.json"
	if got := run("", vectors+"three_entries.bundle.json", "--trust", key); got.code != 0 || !strings.Contains(got.out, "completeness: consistent at size 7, completeness not checked") {
		t.Errorf("cut: %+v", got)
	}
	if got := run("", vectors+"three_entries.bundle.json", "--trust", key, "--min-size", "10"); got.code != 1 || !strings.Contains(got.out, "expected at least 10 leaves\n    got      7 leaves") {
		t.Errorf("cut, size known: %+v", got)
	}
	i := bytes.LastIndex(raw, []byte(`"status":"reversed"`)) + len(`"status":"`)
	raw[i] ^= 1
	got := run(string(raw), "-", "--trust", key)
	for _, want := range []string{"not verified: -: ", ", 1 of 3 receipts", "inclusion at leaf 5 (evt_", "commitment_digest at leaf 5 (evt_", "    expected sha256:", "    got      sha256:"} {
		if got.code != 1 || !strings.Contains(got.out, want) {
			t.Errorf("a flipped bit: no %q in %+v", want, got)
		}
	}
}
