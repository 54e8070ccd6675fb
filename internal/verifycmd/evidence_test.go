package verifycmd

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/logkit"
	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

// forkedLog signs whatever it is given.
const forkedLog = "forked.example/log"

func signedTree(t *testing.T, s note.Signer, origin string, size uint64, root []byte) string {
	t.Helper()
	c := trust.Checkpoint{Origin: origin, Size: size}
	copy(c.Root[:], root)
	b, err := note.Sign(&note.Note{Text: c.Text()}, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func encode(hashes [][]byte) (out []string) {
	for _, h := range hashes {
		out = append(out, base64.StdEncoding.EncodeToString(h))
	}
	return out
}

// evidenceOf writes a document by hand, to the letter of docs/spec/witness.md.
func evidenceOf(kind rule.Kind, origin, cosigned, offered string, proof []string) []byte {
	text := func(s string) string {
		b, _ := jsontext.AppendQuote(nil, s)
		return string(b)
	}
	list := ""
	if len(proof) > 0 {
		list = `"proof":["` + strings.Join(proof, `","`) + `"],`
	}
	if cosigned != "" {
		cosigned = `"cosigned":` + text(cosigned) + `,`
	}
	return []byte(`{` + cosigned + `"kind":"` + string(kind) + `","observedAt":"2026-07-28T00:00:00.000Z","offered":` + text(offered) +
		`,"origin":` + text(origin) + `,` + list + `"schemaVersion":"counterfoil.equivocation.v1","witness":"witness.example/1+2b4d9200+BMqTrBcFGHBx1nuDx/8O/oEI6OxFMFdddyaHkzPb2r58"}`)
}

// write puts a file into the test's directory.
func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func eventKeys(t *testing.T) trust.EventKeys {
	t.Helper()
	raw, err := os.ReadFile(vectors + "trust_1.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := trust.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return f.EventKeys
}

func TestLOG08_EquivocationDocument(t *testing.T) {
	log, key := logkit.Key(t, forkedLog, "log")
	stranger, _ := logkit.Key(t, forkedLog, "stranger")
	one, two := logkit.Tree(9, logkit.Numbered("leaf")), logkit.Tree(9, logkit.Numbered("other"))
	at := func(x *testonly.Tree, size uint64) string { return signedTree(t, log, forkedLog, size, x.HashAt(size)) }
	proof, err := two.ConsistencyProof(5, 9)
	if err != nil {
		t.Fatal(err)
	}
	good, err := one.ConsistencyProof(5, 9)
	if err != nil {
		t.Fatal(err)
	}
	last := strings.LastIndexByte(at(two, 7), ' ') + 20
	flipped := at(two, 7)[:last] + "AAAAAAAA" + at(two, 7)[last+8:]
	same := evidenceOf(rule.KindSameSize, forkedLog, at(one, 7), at(two, 7), nil)
	trustFile := write(t, "trust.json", (&trust.File{Log: key, EventKeys: eventKeys(t)}).Append(nil))
	policyFile := write(t, "policy", []byte("log "+key.String()+"\nquorum none\n"))
	other := vectors + "trust_1.json"
	for _, c := range []struct {
		name   string
		doc    []byte
		args   []string
		code   int
		status string
		check  string // that fails, or says why nothing was judged
	}{
		{"same size", same, []string{"--trust", trustFile}, 0, proven, ""},
		{"same size, with a newline", append(same[:len(same):len(same)], '\n'), []string{"--trust", trustFile}, 0, proven, ""},
		{"by a policy alone", same, []string{"--policy", policyFile}, 0, proven, ""},
		{"by both", same, []string{"--trust", trustFile, "--policy", policyFile}, 0, proven, ""},
		{"rewritten", evidenceOf(rule.KindRewritten, forkedLog, at(one, 5), at(two, 9), encode(proof)), []string{"--trust", trustFile}, 0, proven, ""},
		{"empty root", evidenceOf(rule.KindEmptyRoot, forkedLog, "", signedTree(t, log, forkedLog, 0, one.HashAt(1)), nil), []string{"--trust", trustFile}, 0, proven, ""},
		{"unproven", evidenceOf(rule.KindUnproven, forkedLog, at(one, 5), at(one, 9), encode(good[1:])), []string{"--trust", trustFile}, 1, notProven, checkConclusive},
		{"a good proof", evidenceOf(rule.KindUnproven, forkedLog, at(one, 5), at(one, 9), encode(good)), []string{"--trust", trustFile}, 1, notProven, checkContradiction},
		{"one tree twice", evidenceOf(rule.KindSameSize, forkedLog, at(one, 7), at(one, 7), nil), []string{"--trust", trustFile}, 1, notProven, checkContradiction},
		{"a stronger kind than it shows", evidenceOf(rule.KindRewritten, forkedLog, at(one, 5), at(one, 9), encode(good[1:])), []string{"--trust", trustFile}, 1, notProven, checkContradiction},
		{"unknown kind", evidenceOf("worse", forkedLog, at(one, 5), at(two, 7), nil), []string{"--trust", trustFile}, 1, notProven, checkContradiction},
		{"signed by a stranger", evidenceOf(rule.KindSameSize, forkedLog, at(one, 7), signedTree(t, stranger, forkedLog, 7, two.HashAt(7)), nil), []string{"--trust", trustFile}, 1, notProven, checkLogSignature},
		{"signature flipped", evidenceOf(rule.KindSameSize, forkedLog, at(one, 7), flipped, nil), []string{"--trust", trustFile}, 1, notProven, checkLogSignature},
		{"not signed at all", evidenceOf(rule.KindSameSize, forkedLog, "x", "y", nil), []string{"--trust", trustFile}, 1, notProven, checkLogSignature},
		{"no second checkpoint", evidenceOf(rule.KindSameSize, forkedLog, "", at(two, 7), nil), []string{"--trust", trustFile}, 1, notProven, checkLogSignature},
		{"another log", same, []string{"--trust", other}, 1, notProven, checkOrigin},
		{"about another log than it holds", evidenceOf(rule.KindSameSize, "ledger.example/log", at(one, 7), at(two, 7), nil), []string{"--trust", other}, 1, notProven, checkLogSignature},
		{"spaced out", []byte(strings.Replace(string(same), `{"cosigned"`, `{ "cosigned"`, 1)), []string{"--trust", trustFile}, 2, unjudged, checkFormat},
		{"an unknown member", []byte(strings.Replace(string(same), `"origin"`, `"note":1,"origin"`, 1)), []string{"--trust", trustFile}, 2, unjudged, checkFormat},
		{"too large", evidenceOf(rule.KindSameSize, forkedLog, at(one, 7), strings.Repeat("x", rule.MaxEvidenceBytes), nil), []string{"--trust", trustFile}, 2, unjudged, checkFormat},
	} {
		path := write(t, "fork.json", c.doc)
		args := append([]string{path}, c.args...)
		plain, machine := run("", args...), run("", append(args, "--json")...)
		var r evidenceReport
		if err := json.Unmarshal([]byte(machine.out), &r, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, machine.out)
		}
		if plain.code != c.code || machine.code != c.code || r.Status != c.status || r.SchemaVersion != EvidenceReportSchema || machine.errOut == "" {
			t.Errorf("%s: exit codes %d and %d, want %d; status %s, want %s\n%s%s", c.name, plain.code, machine.code, c.code, r.Status, c.status, plain.out, plain.errOut)
		}
		if len(r.NotClaimed) == 0 || (len(r.Claims) > 0) != (c.status == proven) || len(r.Checks) != len(evidenceChecks) {
			t.Errorf("%s: %+v", c.name, r)
		}
		for _, check := range r.Checks {
			wrong := check.Status == receipt.Fail || check.Status == receipt.NotChecked && check.Detail != receipt.NotReached
			if wrong != (check.Name == c.check) || check.Detail == "" {
				t.Errorf("%s: %+v", c.name, check)
			}
		}
		// "verified" is what people look for in a good answer about a receipt.
		if strings.Contains(plain.out+plain.errOut+machine.errOut, "verified") {
			t.Errorf("%s: can be read as a word for the log:\n%s%s%s", c.name, plain.out, plain.errOut, machine.errOut)
		}
		if (c.code == 2) != (plain.out == "") || (c.code == 0) != strings.HasPrefix(plain.out, "PROVEN: the log forked.example/log signed two histories: ") {
			t.Errorf("%s: stdout %q", c.name, plain.out)
		}
	}
	path := write(t, "fork.json", same)
	for _, args := range [][]string{{"--min-size", "3"}, {"--partial"}, {"--max-age", "1h"}, {"--tlog-proof", t.TempDir()}, {"--leaf", path}} {
		if got := run("", append([]string{path, "--trust", trustFile}, args...)...); got.code != 2 || got.out != "" || !strings.Contains(got.errOut, "say nothing about it") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := run("", path); got.code != 2 || got.out != "" || !strings.Contains(got.errOut, "no trust file") {
		t.Errorf("no trust: %+v", got)
	}
	golden(t, "proven.txt", run(string(same), "-", "--trust", trustFile).out)
	golden(t, "proven.json", run(string(same), "-", "--trust", trustFile, "--json").out)
}

// What the witness's own code writes is understood, and judged alike.
func TestLOG08_EquivocationDocumentOfAWitness(t *testing.T) {
	log, key := logkit.Key(t, forkedLog, "log")
	one, two := logkit.Tree(9, logkit.Numbered("leaf")), logkit.Tree(9, logkit.Numbered("other"))
	offered := signedTree(t, log, forkedLog, 7, two.HashAt(7))
	n, err := trust.ParseNote([]byte(offered))
	if err != nil {
		t.Fatal(err)
	}
	c, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		t.Fatal(err)
	}
	witness, err := trust.ParseVerifierKey("witness.example/1+2b4d9200+BMqTrBcFGHBx1nuDx/8O/oEI6OxFMFdddyaHkzPb2r58")
	if err != nil {
		t.Fatal(err)
	}
	e := rule.NewEvidence(rule.KindSameSize, signedTree(t, log, forkedLog, 7, one.HashAt(7)), &rule.Request{Note: n, Checkpoint: c}, n.Signatures, witness, time.Unix(1785196800, 0))
	doc, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if want := evidenceOf(rule.KindSameSize, forkedLog, e.Cosigned, e.Offered, nil); string(doc) != string(want) {
		t.Errorf("the witness writes %s, by the specification it is %s", doc, want)
	}
	if got := run(string(doc), "-", "--policy", write(t, "p", []byte("log "+key.String()+"\nquorum none\n"))); got.code != 0 {
		t.Errorf("got %+v", got)
	}
}

// Whatever is put where a document should be: an answer, and never a proof
// without the log's own signatures.
func FuzzLOG08_EvidenceNeverProvesWithoutTheLog(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":"counterfoil.equivocation.v1"}`))
	f.Add(evidenceOf(rule.KindSameSize, forkedLog, "forked.example/log\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— forked.example/log AAAAAAE=\n", "x", nil))
	f.Add(evidenceOf(rule.KindEmptyRoot, forkedLog, "", "forked.example/log\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— forked.example/log AAAAAAE=\n", nil))
	_, vkey, err := note.GenerateKey(logkit.Seed("nobody signs with it"), forkedLog)
	if err != nil {
		f.Fatal(err)
	}
	policy, err := trust.ParsePolicy([]byte("log " + vkey + "\nquorum none\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		looksLikeEvidence(raw)
		r := judgeEvidence(raw, policy)
		if r.Status == proven || len(r.Claims) > 0 {
			t.Errorf("proven: %+v", r)
		}
		if b, err := r.JSON(); err != nil || !jsontext.Value(b).IsValid() {
			t.Errorf("report: %v", err)
		}
		(&command{}).evidenceText(r)
	})
}
