package policy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
)

// The examples of docs/policy.md are a policy and a table that pass.
func TestADM28_DocumentationExamples(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(b), -1)
	if len(blocks) != 4 {
		t.Fatalf("%d examples", len(blocks))
	}
	document := "schema: counterfoil.policy.v1\nid: docs\nversion: \"1\"\nretention:\n  security-evidence-400d: {kind: security_evidence, days: 400}\n" +
		blocks[0][1] + blocks[1][1] + blocks[2][1]
	if problems := policy.Lint([]byte(document), now); len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, document)
	}
	table, problems := policy.ParseTable([]byte(blocks[3][1]))
	if table == nil {
		t.Fatal(problems)
	}
	standard := load(t, string(shippedFile(t, "standard.yaml")))
	for _, r := range table.Run(standard) {
		if !r.OK {
			t.Errorf("%+v", r)
		}
	}
	for _, c := range admission.KnownChecks {
		if !strings.Contains(string(b), "`"+c+"`") {
			t.Errorf("docs/policy.md does not name the check %s", c)
		}
	}
}

// Every problem that the code can report stands in the documentation.
func TestADM28_DocumentationNamesEveryProblem(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`(?:r\.fail\([^,]+(?:\([^)]*\))?, |r\.report\(Severity\w+, [^,]+(?:\([^)]*\))?, |warn\()"([a-z-]+)"`)
	var codes []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(src), -1) {
			codes = append(codes, m[1])
		}
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	if len(codes) < 25 {
		t.Fatalf("only %d codes found: %v", len(codes), codes)
	}
	for _, c := range codes {
		if !strings.Contains(string(doc), "`"+c+"`") {
			t.Errorf("docs/policy.md does not name %s", c)
		}
	}
}
