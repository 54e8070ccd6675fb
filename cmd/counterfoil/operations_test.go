package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/freeport"
)

// TestOperationsPage types the commands of docs/operations.md in their order and
// compares what they print; "…" stands for anything.
func TestOperationsPage(t *testing.T) {
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the page needs bash: ", err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the page needs curl")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	addr := freeport.Addr(t)
	script, want := tour(strings.ReplaceAll(string(raw), "127.0.0.1:8480", addr))
	if len(want) < 15 || strings.Count(script, "counterfoil ") < 6 {
		t.Fatalf("%d lines of output are on the page:\n%s", len(want), script)
	}
	work := t.TempDir()
	// The build is the page's first command, which runs where the source is.
	build := regexp.MustCompile(`(?m)^CGO_ENABLED=0 go build .*$`).FindString(script)
	if build == "" {
		t.Fatal("the page does not build")
	}
	script = strings.Replace(script, build, "", 1)
	cmd := exec.CommandContext(t.Context(), sh, "-c", strings.Replace(build, "-o bin/", "-o "+filepath.Join(work, "bin")+"/", 1))
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(work, "deploy")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd = exec.CommandContext(ctx, sh, "-c", "set -e\n"+script)
	cmd.Dir, cmd.WaitDelay = work, 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(work, "bin")+":"+os.Getenv("PATH"), "COUNTERFOIL_SERVER=http://"+addr, "COUNTERFOIL_TOKEN_FILE=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the page ended with %v:\n%s", err, out.String())
	}
	spaces := regexp.MustCompile(` +`)
	got := spaces.ReplaceAllString(strings.ReplaceAll(out.String(), "\r", ""), " ")
	for _, line := range want {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(spaces.ReplaceAllString(line, " ")), "…", ".*")
		if !regexp.MustCompile(`(?m)^` + pattern + ` *$`).MatchString(got) {
			t.Errorf("the page does not print %q\n%s", line, got)
		}
	}
}
