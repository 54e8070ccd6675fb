package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const sigstoreEntry = `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.sigstore/sigstore",
"description":"A package with real provenance.","repository":{"url":"https://github.com/sigstore/sigstore-js","source":"github"},"version":"2.0.0",
"packages":[{"registryType":"npm","identifier":"sigstore","version":"2.0.0","transport":{"type":"stdio"}}]}`

// program runs a command against the ledger.
func (p *process) program(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append(args, "--server", p.url, "--token-file", filepath.Join(p.dir, "token"))...)
	cmd.Stderr = os.Stderr
	return cmd
}

// reviewsOf counts the reviews of a run by contract.
func (p *process) reviewsOf(run string) map[string]int {
	p.t.Helper()
	out := map[string]int{}
	for token := ""; ; {
		code, b, err := p.call(http.MethodGet, "/v1/reviews?limit=256&run="+run+token, nil)
		var page struct {
			Reviews       []struct{ Contract string }
			NextPageToken string
		}
		if err != nil || code != http.StatusOK || json.Unmarshal(b, &page) != nil {
			p.t.Fatalf("reviews: %d %s %v", code, b, err)
		}
		for _, r := range page.Reviews {
			out[r.Contract]++
		}
		if page.NextPageToken == "" {
			return out
		}
		token = "&pageToken=" + page.NextPageToken
	}
}

// A review run that is killed again and again, and once its ledger with it, judges
// every contract, and none twice. The evidence is real, and so are its verifiers.
func TestREV20_KilledReviewRunJudgesNothingTwice(t *testing.T) {
	dir := t.TempDir()
	evidence, policies := filepath.Join("..", "..", "testdata", "evidence"), filepath.Join("..", "..", "deploy", "policies")
	p := start(t, filepath.Join(dir, "data"))
	entry := filepath.Join(dir, "server.json")
	if err := os.WriteFile(entry, []byte(sigstoreEntry), 0o600); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(evidence, "trusted_root.public-good.2023.json")
	out, err := p.program("admit", entry, "--class", "privileged", "--policy", filepath.Join(policies, "privileged.yaml"), "--artifact",
		filepath.Join(evidence, "sigstore-2.0.0.tgz"), "--evidence", filepath.Join(evidence, "sigstore-2.0.0.provenance.json"),
		"--trusted-root", root, "--offline", "--no-contract", "--json").Output()
	var admitted struct{ Decision, Receipt string }
	if err != nil || json.Unmarshal(out, &admitted) != nil || admitted.Decision != "admit" {
		t.Fatalf("%s %v", out, err)
	}
	const n = 400
	var docs []string
	for i := range n {
		docs = append(docs, fmt.Sprintf(`{"schema":"counterfoil.contract.v1","name":"c-%03d","impact":"privileged","receipt":"%s"}`, i, admitted.Receipt))
	}
	file := filepath.Join(dir, "contracts.json")
	if err := os.WriteFile(file, []byte(`{"schema":"counterfoil.contracts.v1","contracts":[`+strings.Join(docs, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := p.program("contract", "set", file).Output(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	run := func() *exec.Cmd {
		return p.program("review", "run", "--run", "the-run", "--policy", filepath.Join(policies, "privileged.yaml"), "--trusted-root", root, "--quiet", "--json")
	}
	for round := 1; round <= 3; round++ {
		cmd := run()
		cmd.Stderr = nil
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for before := len(p.reviewsOf("the-run")); ; {
			if got := len(p.reviewsOf("the-run")); got >= before+20 || got == n {
				break
			}
		}
		if round == 3 {
			p.kill(os.Kill)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if round == 3 {
			p = start(t, filepath.Join(dir, "data"))
		}
	}
	done := len(p.reviewsOf("the-run"))
	if done == n {
		t.Fatal("every run was killed too late to show anything")
	}
	out, err = run().Output()
	var report struct {
		AttemptID            string
		States, Dispositions map[string]int
	}
	if err != nil || json.Unmarshal(out, &report) != nil {
		t.Fatalf("%.500s %v", out, err)
	}
	if report.States["reviewed"]+report.States["reviewed_before"] != n || report.States["reviewed_before"] < done || report.Dispositions["continue"] != n {
		t.Errorf("%v %v, %d were there before", report.States, report.Dispositions, done)
	}
	for name, times := range p.reviewsOf("the-run") {
		if times != 1 {
			t.Errorf("%s was judged %d times", name, times)
		}
	}
	if got := len(p.reviewsOf("the-run")); got != n {
		t.Errorf("%d of %d contracts were judged", got, n)
	}
	t.Logf("killed with %d of %d done; then %v", done, n, report.States)
}
