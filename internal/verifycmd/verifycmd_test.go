package verifycmd

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

var update = flag.Bool("update", false, "write the golden files again; say why in the commit message")

// vectors are made by another implementation than the one under test.
const vectors = "../../testdata/vectors/bundle/"

type result struct {
	code        int
	out, errOut string
}

func run(stdin string, args ...string) result {
	var out, errOut bytes.Buffer
	code := Run(args, strings.NewReader(stdin), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// document reads exactly one JSON document.
func document(t *testing.T, what, out string) (r receipt.Report) {
	t.Helper()
	if !jsontext.Value(out).IsValid() {
		t.Fatalf("%s: stdout is not exactly one JSON document: %q", what, out)
	}
	if err := json.Unmarshal([]byte(out), &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if r.SchemaVersion != receipt.ReportSchema || len(r.Checks) == 0 || len(r.NotClaimed) == 0 {
		t.Errorf("%s: got %+v", what, r)
	}
	for _, c := range r.Checks {
		if c.Name == "" || c.Status == "" || c.Detail == "" {
			t.Errorf("%s: a check without name, status or detail: %+v", what, c)
		}
	}
	return r
}

// MACHINE OUTPUT: good, bad and unreadable, each one document on stdout, talk on
// stderr, and the exit codes of the table.
func TestBND03_MachineOutput(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	good, fork, key := vectors+"three_entries.bundle.json", vectors+"chain_fork.bundle.json", vectors+"trust_1.json"
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		status receipt.Status
		check  string // that fails, or says why nothing was judged
	}{
		{"good", []string{good, "--trust", key}, 0, receipt.Verified, ""},
		{"bad", []string{fork, "--trust", key}, 1, receipt.Failed, receipt.CheckChain},
		{"no trust", []string{good}, 2, receipt.NotJudged, receipt.CheckTrust},
		{"no trust, bad bundle", []string{fork}, 2, receipt.NotJudged, receipt.CheckTrust},
		{"trust is missing", []string{good, "--trust", missing}, 2, receipt.NotJudged, receipt.CheckTrust},
		{"trust is a bundle", []string{good, "--trust", good}, 2, receipt.NotJudged, receipt.CheckTrust},
		{"bundle is missing", []string{missing, "--trust", key}, 2, receipt.NotJudged, receipt.CheckFormat},
		{"bundle is a directory", []string{t.TempDir(), "--trust", key}, 2, receipt.NotJudged, receipt.CheckFormat},
		{"no bytes", []string{vectors + "empty.bundle.json", "--trust", key}, 2, receipt.NotJudged, receipt.CheckFormat},
		{"no entries", []string{vectors + "no_entries.bundle.json", "--trust", key}, 2, receipt.NotJudged, receipt.CheckFormat},
		{"not logged", []string{vectors + "unlogged.bundle.json", "--trust", key}, 2, receipt.NotJudged, receipt.CheckCheckpoint},
		{"no bundle at all", []string{vectors + "format_text.bundle.json", "--trust", key}, 1, receipt.Failed, receipt.CheckFormat},
		{"larger log", []string{good, "--trust", key, "--min-size", "8"}, 1, receipt.Failed, receipt.CheckCompleteness},
		{"as large", []string{"--min-size=7", good, "--trust=" + key}, 0, receipt.Verified, ""},
		{"checkpoint is missing", []string{good, "--trust", key, "--checkpoint", missing}, 2, receipt.NotJudged, receipt.CheckCompleteness},
		{"checkpoint is none", []string{good, "--trust", key, "--checkpoint", vectors + "empty.bundle.json"}, 2, receipt.NotJudged, receipt.CheckCompleteness},
		{"partial", []string{vectors + "partial.bundle.json", "--trust", key}, 1, receipt.Failed, receipt.CheckChain},
		{"partial, allowed", []string{"--partial", vectors + "partial.bundle.json", "--trust", key}, 0, receipt.Verified, ""},
		{"no file", []string{"--trust", key}, 2, receipt.NotJudged, receipt.CheckTrust},
		{"two files", []string{good, good, "--trust", key}, 2, receipt.NotJudged, receipt.CheckTrust},
		{"unknown flag", []string{good, "--trust", key, "--verbose"}, 2, receipt.NotJudged, receipt.CheckTrust},
	} {
		plain := run("", c.args...)
		if plain.code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, plain.code, c.code, plain.out, plain.errOut)
		}
		if (plain.out == "") != (c.code == 2) || (plain.errOut == "") != (c.code == 0) {
			t.Errorf("%s: stdout %q, stderr %q", c.name, plain.out, plain.errOut)
		}
		if c.code == 2 && (!strings.HasPrefix(plain.errOut, "error: ") || !strings.Contains(plain.errOut, "\nhint: ")) {
			t.Errorf("%s: stderr %q", c.name, plain.errOut)
		}
		if c.code == 1 && !strings.Contains(plain.out, "not verified: ") {
			t.Errorf("%s: stdout %q", c.name, plain.out)
		}
		for _, args := range [][]string{append([]string{"--json"}, c.args...), append(c.args[:len(c.args):len(c.args)], "--json")} {
			got := run("", args...)
			r := document(t, c.name, got.out)
			if got.code != c.code || r.Status != c.status || r.ExitCode() != c.code || got.errOut == "" {
				t.Errorf("%s: exit code %d, status %s, stderr %q", c.name, got.code, r.Status, got.errOut)
			}
			if check, ok := r.Find(c.check); c.check != "" && (!ok || check.Status == receipt.Pass) {
				t.Errorf("%s: %s is %+v", c.name, c.check, check)
			}
		}
	}
}

// KEY IN RECEIPT, as a person types it.
func TestATT09_NoVerdictWithoutTrust(t *testing.T) {
	attacker := vectors + "log_signature_attacker.bundle.json"
	got := run("", attacker)
	if got.code != 2 || got.out != "" || !strings.Contains(got.errOut, "no trust file") {
		t.Errorf("without trust: %+v", got)
	}
	got = run("", attacker, "--trust", vectors+"trust_1.json")
	if got.code != 1 || !strings.Contains(got.out, "unknown log key") {
		t.Errorf("with trust: %+v", got)
	}
}

func TestBND02_ReadsStdin(t *testing.T) {
	b, err := os.ReadFile(vectors + "three_entries.bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := run(string(b), "-", "--trust", vectors+"trust_1.json"); got.code != 0 {
		t.Errorf("bundle: %+v", got)
	}
	key, err := os.ReadFile(vectors + "trust_1.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := run(string(key), vectors+"three_entries.bundle.json", "--trust", "-"); got.code != 0 {
		t.Errorf("trust: %+v", got)
	}
	if got := run("", "-", "--trust", "-"); got.code != 2 || !strings.Contains(got.errOut, "stdin") {
		t.Errorf("both: %+v", got)
	}
	if got := run(strings.Repeat(" ", trust.MaxFileBytes+1), vectors+"three_entries.bundle.json", "--trust", "-"); got.code != 2 || !strings.Contains(got.errOut, "over 1048576 bytes") {
		t.Errorf("too long: %+v", got)
	}
	var out, errOut bytes.Buffer
	if code := Run([]string{"-", "--trust", vectors + "trust_1.json"}, failing{}, &out, &errOut); code != 2 || out.Len() > 0 {
		t.Errorf("read error: %d, %q", code, out.String())
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("device broke") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("device full") }

// A verdict that could not be written is none, whatever it was.
func TestBND03_UnwrittenVerdictIsNone(t *testing.T) {
	for _, args := range [][]string{
		{vectors + "three_entries.bundle.json", "--trust", vectors + "trust_1.json"},
		{vectors + "three_entries.bundle.json", "--trust", vectors + "trust_1.json", "--json"},
		{"--unknown", "--json"}, {"--help"},
	} {
		var errOut bytes.Buffer
		if code := Run(args, strings.NewReader(""), failing{}, &errOut); code != 2 || !strings.Contains(errOut.String(), "device full") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, errOut.String())
		}
	}
}

func TestBND02_Arguments(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string // in the error; "" if there is none
	}{
		"flags before":    {[]string{"--trust", "t", "--min-size", "3", "f"}, ""},
		"flags after":     {[]string{"f", "--trust", "t", "--min-size", "3"}, ""},
		"flags around":    {[]string{"--trust=t", "f", "--min-size=3"}, ""},
		"one dash":        {[]string{"-trust", "t", "f", "-min-size", "3"}, ""},
		"after dashes":    {[]string{"--trust", "t", "--min-size", "3", "--", "f"}, ""},
		"no value":        {[]string{"f", "--trust"}, "needs a value"},
		"empty value":     {[]string{"f", "--trust="}, "needs a value"},
		"value of a bool": {[]string{"f", "--json=yes"}, "takes no value"},
		"twice":           {[]string{"f", "--trust", "t", "--trust", "u"}, "twice"},
		"no number":       {[]string{"f", "--trust", "t", "--min-size", "many"}, "min-size"},
		"negative":        {[]string{"f", "--trust", "t", "--min-size", "-1"}, "min-size"},
		"no file":         {nil, "0 files"},
		"empty file name": {[]string{""}, "files"},
		"flag as a file":  {[]string{"--", "--json", "f"}, "2 files"},
	} {
		o, err := parseArgs(c.args)
		if c.want == "" && (err != nil || o.file != "f" || o.trust != "t" || o.minSize != 3) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, flag := range []string{"--help", "-h"} {
		if got := run("", flag); got.code != 0 || got.out != usage || got.errOut != "" {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

func TestBND09_TlogProofCommand(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile(vectors + "three_entries.bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := receipt.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	e := b.Entries[0]
	proof, err := receipt.BuildTlogProof(e.LeafIndex, e.Proof, b.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	leaf := append(append(append([]byte(`{"event":`), e.Record.EventBytes...), `,"signatures":`...), append(e.Record.SignatureBytes, '}')...)
	write := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, l, cp := write("a.tlog-proof", proof), write("leaf", leaf), write("checkpoint", b.Checkpoint)
	other := write("other", bytes.Replace(leaf, []byte(`"sig":"`), []byte(`"sig":"AAAA`), 1))
	key := vectors + "trust_1.json"
	if got := run("", p, "--leaf", l, "--trust", key, "--checkpoint", cp); got.code != 0 {
		t.Errorf("good: %+v", got)
	}
	if got := run("", p, "--leaf", other, "--trust", key); got.code != 1 {
		t.Errorf("other leaf: %+v", got)
	}
	if got := run("", p, "--trust", key); got.code != 2 || !strings.Contains(got.errOut, "--leaf") {
		t.Errorf("no leaf: %+v", got)
	}
	if got := run("", p, "--trust", key, "--leaf", filepath.Join(dir, "missing")); got.code != 2 {
		t.Errorf("leaf is missing: %+v", got)
	}
}

// What a file says does not steer a terminal.
func TestBND02_OutputIsClean(t *testing.T) {
	raw, err := os.ReadFile(vectors + "three_entries.bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, evil := range []string{`\u001b[2Jverified`, "\u202everified", "\u009b2J"} {
		b := bytes.Replace(raw, []byte(`"origin":"`), []byte(`"origin":"`+evil), 1)
		got := run(string(b), "-", "--trust", vectors+"trust_1.json")
		if got.code != 1 || strings.ContainsAny(got.out+got.errOut, "\x1b\u202e\u009b") {
			t.Errorf("%q: %+v", evil, got)
		}
	}
}

// The JSON and the text are contracts: byte for byte as in testdata.
func TestBND03_GoldenReports(t *testing.T) {
	nested := write(t, "policy", []byte(policyLines(t)+"group both all A B\ngroup outer any both\nquorum outer\n"))
	for name, args := range map[string][]string{
		"nested.txt":      {vectors + "witness_one.bundle.json", "--trust", vectors + "trust_1.json", "--policy", nested},
		"nested.json":     {vectors + "witness_one.bundle.json", "--trust", vectors + "trust_1.json", "--policy", nested, "--json"},
		"verified.json":   {vectors + "witnessed.bundle.json", "--trust", vectors + "trust_2.json", "--json"},
		"verified.txt":    {vectors + "witnessed.bundle.json", "--trust", vectors + "trust_2.json"},
		"failed.json":     {vectors + "commitment_event.bundle.json", "--trust", vectors + "trust_1.json", "--json"},
		"failed.txt":      {vectors + "commitment_event.bundle.json", "--trust", vectors + "trust_1.json"},
		"not_judged.json": {vectors + "unlogged.bundle.json", "--trust", vectors + "trust_1.json", "--json"},
	} {
		golden(t, name, run("", args...).out)
	}
}

var _ io.Reader = failing{}

func TestBND03_UnreadableInputsHaveTheirOwnHints(t *testing.T) {
	dir := t.TempDir()
	proof := filepath.Join(dir, "p.tlog-proof")
	if err := os.WriteFile(proof, []byte("c2sp.org/tlog-proof@v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trustFile := vectors + "trust_1.json"
	for file, want := range map[string]string{dir: "is a directory", filepath.Join(dir, "none"): "no such file", proof: "counterfoil tail --json"} {
		var out, errOut bytes.Buffer
		code := Run([]string{file, "--trust", trustFile}, strings.NewReader(""), &out, &errOut)
		if code != 2 || !strings.Contains(errOut.String(), want) || strings.Contains(errOut.String(), "export again") || !strings.Contains(errOut.String(), "hint: ") {
			t.Errorf("%s: %d, %s", file, code, errOut.String())
		}
	}
}

func TestVersionFlag(t *testing.T) {
	if r := run("", "--version"); r.code != 0 || !strings.HasPrefix(r.out, "counterfoil-verify ") || r.errOut != "" {
		t.Errorf("got %+v", r)
	}
}
