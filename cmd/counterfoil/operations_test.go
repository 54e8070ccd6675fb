package main

import (
	"regexp"
	"strings"
	"testing"

	"counterfoil/internal/testkit/freeport"
)

// TestOperationsPage types the commands of docs/operations.md in their order and
// compares what they print.
func TestOperationsPage(t *testing.T) {
	p := openPage(t, "docs/operations.md", "curl")
	addr := freeport.Addr(t)
	p.replace("127.0.0.1:8480", addr)
	script, want := p.tour()
	if len(want) < 15 || strings.Count(script, "counterfoil ") < 6 {
		t.Fatalf("%d lines of output are on the page:\n%s", len(want), script)
	}
	// The build is the page's first command, which runs where the source is.
	build := regexp.MustCompile(`(?m)^CGO_ENABLED=0 go build .*$`).FindString(script)
	if build == "" {
		t.Fatal("the page does not build")
	}
	first := p.command(nil, "bash", "-c", strings.Replace(build, "-o bin/", `-o "$BIN"/`, 1))
	first.Dir, first.Env = p.root, append(first.Env, "BIN="+p.work+"/bin")
	if out, err := first.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	p.typed(strings.Replace(script, build, "", 1), want, folded, "COUNTERFOIL_SERVER=http://"+addr)
}
