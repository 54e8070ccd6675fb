package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/freeport"
)

// TestLOG12_ConsumersPage types the commands of docs/consumers.md in their order,
// runs its Go program, and compares what they print. The nats commands are left
// out where there is no nats; package natsfeed tries what they ask for.
func TestLOG12_ConsumersPage(t *testing.T) {
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the page needs bash: ", err)
	}
	for _, tool := range []string{"curl", "od", "awk", "sha256sum", "base64"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("the page needs ", tool)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs/consumers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, lookErr := exec.LookPath("nats")
	api, stream := freeport.Addr(t), freeport.Addr(t)
	page := strings.NewReplacer("127.0.0.1:8480", api, "127.0.0.1:4222", stream).Replace(string(raw))
	commands, want, program, printed := consumersPage(page, lookErr == nil)
	if len(want) < 8 || !strings.Contains(program, "consumer.Run") || printed == "" {
		t.Fatalf("the page has %d lines of output, a program of %d bytes, and what it prints in %d", len(want), len(program), len(printed))
	}

	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "follow.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"build", "-o", filepath.Join(work, "bin") + "/", "./cmd/counterfoil", "./cmd/counterfoil-verify"},
		{"build", "-o", filepath.Join(work, "bin", "follow"), filepath.Join(work, "follow.go")},
	} {
		build := exec.Command("go", args...)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	env := append(os.Environ(), "PATH="+filepath.Join(work, "bin")+":"+os.Getenv("PATH"), "COUNTERFOIL_SERVER=http://"+api, "COUNTERFOIL_TOKEN_FILE=")
	log, err := os.Create(filepath.Join(work, "ledger.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	serve := exec.CommandContext(ctx, filepath.Join(work, "bin", "counterfoil"), "serve", "--listen", api, "--nats-listen", stream)
	serve.Dir, serve.Env, serve.Stderr = work, env, log
	ready, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	}()
	if err := json.NewDecoder(ready).Decode(new(struct{})); err != nil {
		t.Fatal("the ledger did not start: ", err)
	}

	cmd := exec.CommandContext(ctx, sh, "-e", "-o", "pipefail", "-c", commands+"\nfollow http://"+api)
	cmd.Dir, cmd.Env, cmd.WaitDelay = work, env, 10*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the commands ended with %v:\n%s", err, out.String())
	}
	got := out.String()
	for _, line := range append(want, printed) {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
		if !regexp.MustCompile(`(?m)^` + pattern + `$`).MatchString(got) {
			t.Errorf("the commands do not print %q\n%s", line, got)
		}
	}
}

// consumersPage takes the page apart: the commands of its console blocks and the
// lines that they print, its Go program, and what that prints.
func consumersPage(page string, withNATS bool) (commands string, want []string, program, printed string) {
	var b, goCode, text strings.Builder
	block, here, skip := "", "", false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if kind, ok := strings.CutPrefix(line, "```"); ok {
			block = kind
			continue
		}
		switch block {
		case "go":
			goCode.WriteString(line + "\n")
		case "text":
			text.WriteString(line + "\n")
		case "console":
			command, isCommand := strings.CutPrefix(line, "$ ")
			switch {
			case here != "":
				b.WriteString(line + "\n")
				if line == here {
					here = ""
				}
			case isCommand && strings.HasSuffix(command, " &"): // the ledger, which the test runs
				skip = true
			case isCommand:
				if skip = strings.HasPrefix(command, "nats ") && !withNATS; skip {
					continue
				}
				b.WriteString(command + "\n")
				if _, end, ok := strings.Cut(command, "<<'"); ok {
					here = strings.TrimSuffix(end, "'")
				}
			case line != "" && !skip:
				want = append(want, line)
			}
		}
	}
	return b.String(), want, goCode.String(), strings.TrimSuffix(text.String(), "\n")
}
