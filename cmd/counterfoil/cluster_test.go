package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/freeport"
)

// TestClusterPage types the commands of docs/cluster.md in their order and compares
// what they print, as far as it does not depend on the day.
func TestClusterPage(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take seconds to start")
	}
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the page needs bash: ", err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs/cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	api, route := freeport.Row(t, 3), freeport.Row(t, 3)
	page := string(raw)
	for i := range 3 {
		page = strings.ReplaceAll(page, fmt.Sprintf("127.0.0.1:%d", 8480+i), fmt.Sprintf("127.0.0.1:%d", api+i))
	}
	// In the background nothing is printed that could be waited for: the page waits.
	script, want := tour(strings.ReplaceAll(page, "2> nodes.log &", "2> nodes.log & true"))
	if len(want) < 6 {
		t.Fatalf("only %d lines of output are on the page", len(want))
	}
	work := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(work, "deploy")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(work, "bin")+"/", "./cmd/counterfoil")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, sh, "-c", script)
	cmd.Dir, cmd.WaitDelay = work, 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(work, "bin")+":"+os.Getenv("PATH"), "COUNTERFOIL_SERVER=", "COUNTERFOIL_TOKEN_FILE=",
		fmt.Sprint("API_PORT=", api), fmt.Sprint("ROUTE_PORT=", route))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	got := steady(out.String())
	if err != nil {
		t.Errorf("the page ended with %v:\n%s", err, out.String())
	}
	for _, line := range want {
		if !strings.Contains(got, steady(line)) {
			t.Errorf("the page does not print %q\n%s", steady(line), got)
		}
	}
	if t.Failed() {
		for n := range 3 {
			b, _ := os.ReadFile(filepath.Join(work, "cluster-data", fmt.Sprintf("n%d.log", n+1)))
			t.Logf("node %d: %s", n+1, b[max(0, len(b)-4000):])
		}
	}
}
