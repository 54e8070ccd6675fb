package access

import (
	"os"
	"strings"
	"testing"
)

// The page for operators has every row of the table, under the roles of the row.
func TestDocsHaveEveryRoute(t *testing.T) {
	b, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{} // route → who
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 {
			continue
		}
		for route := range strings.SplitSeq(cells[2], "`") {
			documented[route] = strings.TrimSpace(cells[1])
		}
	}
	for route := range table {
		name := strings.Replace(route, rpc, "RPC ", 1)
		name = strings.Replace(strings.Replace(name, tool, "MCP ", 1), "mcp ", "MCP ", 1)
		want := strings.Join(Needs(route).Names(), ", ")
		switch {
		case Needs(route)&Public != 0:
			want = "everyone, without a token"
		case Needs(route) == Admin:
			want = "admin alone"
		}
		if documented[name] != want {
			t.Errorf("docs/access.md says %q of %s, want %q", documented[name], name, want)
		}
	}
}
