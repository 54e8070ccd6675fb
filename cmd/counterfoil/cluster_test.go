package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"counterfoil/internal/testkit/freeport"
)

// TestClusterPage types the commands of docs/cluster.md in their order and compares
// what they print, as far as it does not depend on the day.
func TestClusterPage(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take seconds to start")
	}
	p := openPage(t, "docs/cluster.md")
	api, route := freeport.Row(t, 3), freeport.Row(t, 3)
	for i := range 3 {
		p.replace(fmt.Sprintf("127.0.0.1:%d", 8480+i), fmt.Sprintf("127.0.0.1:%d", api+i))
	}
	// In the background nothing is printed that could be waited for: the page waits.
	p.replace("2> nodes.log &", "2> nodes.log & true")
	script, want := p.tour()
	if len(want) < 6 {
		t.Fatalf("only %d lines of output are on the page", len(want))
	}
	p.build("./cmd/counterfoil")
	p.typed(script, want, steady, fmt.Sprint("API_PORT=", api), fmt.Sprint("ROUTE_PORT=", route))
	if t.Failed() {
		for n := range 3 {
			b, _ := os.ReadFile(filepath.Join(p.work, "cluster-data", fmt.Sprintf("n%d.log", n+1)))
			t.Logf("node %d: %s", n+1, b[max(0, len(b)-4000):])
		}
	}
}
