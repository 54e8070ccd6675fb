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
)

// TestReadmeTour types the commands of the README's tour in their order and
// compares what they print, as far as it does not depend on the day.
func TestReadmeTour(t *testing.T) {
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the tour needs bash: ", err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, want := tour(string(readme))
	if len(want) < 10 {
		t.Fatalf("only %d lines of output are in the tour", len(want))
	}
	work := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(work, "bin")+"/", "./cmd/counterfoil", "./cmd/counterfoil-verify", "./cmd/counterfoil-witness")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, sh, "-c", script)
	cmd.Dir, cmd.WaitDelay = work, 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(work, "bin")+":"+os.Getenv("PATH"), "COUNTERFOIL_SERVER=", "COUNTERFOIL_TOKEN_FILE=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	got := steady(out.String())
	if err != nil {
		t.Errorf("the tour ended with %v:\n%s", err, out.String())
	}
	for _, line := range want {
		if !strings.Contains(got, steady(line)) {
			t.Errorf("the tour does not print %q\n%s", steady(line), got)
		}
	}
}

// tour reads the console blocks: what follows "$ " is typed, with here-documents
// to their end, and the rest is output. "…" stands for anything.
func tour(readme string) (script string, output []string) {
	var b strings.Builder
	b.WriteString("set -m\n")
	inBlock, here := false, ""
	for line := range strings.Lines(readme) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = line == "```console"
		case !inBlock:
		case here != "":
			b.WriteString(line + "\n")
			if line == here {
				here = ""
			}
		case strings.HasPrefix(line, "$ "):
			command := strings.TrimPrefix(line, "$ ")
			if strings.HasPrefix(command, "go build") || strings.HasPrefix(command, "export PATH") {
				continue // done by the test
			}
			if _, end, ok := strings.Cut(command, "<<'"); ok {
				here = strings.TrimSuffix(end, "'")
			}
			if run, ok := strings.CutSuffix(command, " &"); ok {
				// A person waits for the line; a script has to.
				command = run + " > ready.json &\nfor i in $(seq 200); do [ -s ready.json ] && break; sleep 0.05; done; cat ready.json; rm ready.json"
			}
			b.WriteString(command + "\n")
		case line != "" && line != "…":
			output = append(output, line)
		}
	}
	b.WriteString("wait\n")
	return b.String(), output
}

var changing = regexp.MustCompile(`[0-9a-f]{32,64}|counterfoil\.local/[0-9a-f]+|"data":"[^"]*"|[0-9]+…[0-9]+`)

// steady takes out what differs from run to run, and folds spaces.
func steady(s string) string {
	return regexp.MustCompile(` +`).ReplaceAllString(changing.ReplaceAllString(s, "*"), " ")
}
