package arch

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The rules are only worth something if breaking one is seen. These tests break
// each on a small made-up graph.

func fakeGraph(imports map[string][]string) graph {
	g := make(graph)
	add := func(n string) *pkg {
		if g[n] == nil {
			first, _, _ := strings.Cut(n, "/")
			p := &pkg{ImportPath: n}
			switch {
			case strings.Contains(first, "."):
				p.Module = &struct{ Path string }{n}
			case match(n, "ledger/...", "projections/...", "witness/...", "internal/...", "cmd/..."):
				p.ImportPath = module + "/" + n
				p.Module = &struct{ Path string }{module}
			default:
				p.Standard = true
			}
			g[n] = p
		}
		return g[n]
	}
	for n, imps := range imports {
		p := add(n)
		for _, imp := range imps {
			p.Imports = append(p.Imports, add(imp).ImportPath)
		}
	}
	return g
}

func TestRulesSeeWhatBreaksThem(t *testing.T) {
	tests := []struct {
		name    string
		imports map[string][]string
		check   func(graph) []string
		want    string // "" for no fault
	}{
		{
			"pure imports the operating system",
			map[string][]string{"ledger/event": {"os"}},
			func(g graph) []string { return g.checkPure("ledger/event") }, "imports os",
		},
		{
			"pure imports an impure package",
			map[string][]string{"ledger/event": {"ledger/vault"}},
			func(g graph) []string { return g.checkPure("ledger/event") }, "not pure",
		},
		{
			"pure imports a module that is not listed",
			map[string][]string{"ledger/event": {"example.com/x"}},
			func(g graph) []string { return g.checkPure("ledger/event") }, "not in pureModules",
		},
		{
			"pure imports pure, listed and harmless ones",
			map[string][]string{"ledger/event": {"ledger/canon", "golang.org/x/mod/sumdb/note", "crypto/sha256"}},
			func(g graph) []string { return g.checkPure("ledger/event") }, "",
		},
		{
			"nats outside the stream",
			map[string][]string{"ledger/intake": {"github.com/nats-io/nats.go"}},
			func(g graph) []string { return g.checkExclusive(exclusives[0]) }, "ledger/intake imports",
		},
		{
			"nats in the stream",
			map[string][]string{"ledger/stream": {"github.com/nats-io/nats.go"}},
			func(g graph) []string { return g.checkExclusive(exclusives[0]) }, "",
		},
		{
			"through the wall by a long way",
			map[string][]string{"ledger/a": {"internal/b"}, "internal/b": {"projections/c"}},
			func(g graph) []string { return g.checkBarrier(barriers[0]) }, "ledger/a → internal/b → projections/c",
		},
		{
			"no way through the wall",
			map[string][]string{"ledger/a": {"internal/b"}, "projections/c": {"internal/b"}},
			func(g graph) []string { return g.checkBarrier(barriers[0]) }, "",
		},
		{
			"verifier reaches the network",
			map[string][]string{"cmd/counterfoil-verify": {"ledger/receipt"}, "ledger/receipt": {"bytes"}, "bytes": {"net/url"}},
			graph.checkVerifier, "bytes → net/url",
		},
		{
			"verifier reaches the vault",
			map[string][]string{"cmd/counterfoil-verify": {"ledger/vault"}},
			graph.checkVerifier, "→ ledger/vault",
		},
		{
			"verifier reaches a module that is not listed",
			map[string][]string{"cmd/counterfoil-verify": {"example.com/x"}},
			graph.checkVerifier, "→ example.com/x",
		},
		{
			"verifier as it should be",
			map[string][]string{"cmd/counterfoil-verify": {"ledger/receipt", "os", "flag", "fmt"}, "ledger/receipt": {"filippo.io/mldsa"}},
			graph.checkVerifier, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(tt.check(fakeGraph(tt.imports)), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestImpuritiesAreSeen(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"clock", "package p\nimport \"time\"\nvar x = time.Now()\n", "time.Now"},
		{"clock by another name", "package p\nimport clock \"time\"\nvar x = clock.Since\n", "time.Since"},
		{"clock with a dot", "package p\nimport . \"time\"\nvar x = Now()\n", "dot"},
		{"goroutine", "package p\nfunc f() { go f() }\n", "goroutine"},
		{"parsing a time", "package p\nimport \"time\"\nvar x, _ = time.Parse(time.RFC3339, \"\")\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "p.go", tt.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(impurities(fset, file), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTextRulesSeeWhatBreaksThem(t *testing.T) {
	for _, r := range textRules {
		for _, bad := range r.bad {
			if !r.pattern.MatchString(bad) {
				t.Errorf("%s: %q passes", r.reason, bad)
			}
		}
		for _, good := range r.good {
			if r.pattern.MatchString(good) {
				t.Errorf("%s: %q is refused", r.reason, good)
			}
		}
		if len(r.bad) == 0 {
			t.Errorf("%s: no example", r.reason)
		}
	}
}

func TestRequirementIDsAreFound(t *testing.T) {
	found := make(map[string]bool)
	collectGo(found, []byte("package p\nfunc TestLOG04_LOG12_Order(t *testing.T) {}\nfunc helperEVI01() {}\nfunc FuzzATT06(f *testing.F) {}\n// PRV-08\n"))
	collectScript(found, []byte("# DUR-01, DUR-04: profiles\n#\n# more\n\nexec counterfoil version\n# BND-01 far below\n"))
	for id, want := range map[string]bool{
		"LOG-04": true, "LOG-12": true, "ATT-06": true, "DUR-01": true, "DUR-04": true,
		"EVI-01": false, "PRV-08": false, "BND-01": false,
	} {
		if found[id] != want {
			t.Errorf("%s: found %v, want %v", id, found[id], want)
		}
	}
}
