package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/testkit/freeport"
)

// TestLOG12_ConsumersPage types the commands of docs/consumers.md in their order,
// runs its Go program, and compares what they print. The nats commands are left
// out where there is no nats; package natsfeed tries what they ask for.
func TestLOG12_ConsumersPage(t *testing.T) {
	p := openPage(t, "docs/consumers.md", "curl", "od", "awk", "sha256sum", "base64")
	_, lookErr := exec.LookPath("nats")
	api, stream := freeport.Addr(t), freeport.Addr(t)
	p.replace("127.0.0.1:8480", api, "127.0.0.1:4222", stream)
	commands, want, program, printed := consumersPage(p.text, lookErr == nil)
	if len(want) < 8 || !strings.Contains(program, "consumer.Run") || printed == "" {
		t.Fatalf("the page has %d lines of output, a program of %d bytes, and what it prints in %d", len(want), len(program), len(printed))
	}
	source := filepath.Join(p.work, "follow.go")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	p.build("./cmd/counterfoil", "./cmd/counterfoil-verify")
	p.build(source)

	server := "COUNTERFOIL_SERVER=http://" + api
	serve := p.command([]string{server}, filepath.Join(p.work, "bin", "counterfoil"), "serve", "--listen", api, "--nats-listen", stream)
	log, err := os.Create(filepath.Join(p.work, "ledger.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	serve.Stderr = log
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
	p.typed("set -o pipefail\n"+commands+"\nfollow http://"+api, append(want, printed), folded, server)
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
