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

// page is a page of the docs whose commands are typed.
type page struct {
	t    *testing.T
	text string
	root string // of the source
	work string // where the commands are typed; its bin/ is in their PATH
	ctx  context.Context
}

// openPage reads a page, and skips the test where bash or another program that the
// page needs is missing.
func openPage(t *testing.T, name string, needs ...string) *page {
	t.Helper()
	for _, tool := range append([]string{"bash"}, needs...) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s needs %s", name, tool)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t, text: string(text), root: root, work: t.TempDir()}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(p.work, "deploy")); err != nil {
		t.Fatal(err)
	}
	var cancel context.CancelFunc
	p.ctx, cancel = context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return p
}

// replace puts addresses of the test's in place of the page's.
func (p *page) replace(pairs ...string) { p.text = strings.NewReplacer(pairs...).Replace(p.text) }

// build builds where the source is; args are those of go build -o bin/.
func (p *page) build(args ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.ctx, "go", append([]string{"build", "-o", filepath.Join(p.work, "bin") + "/"}, args...)...)
	cmd.Dir = p.root
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// command is one to be run as if it were typed; env adds to the environment.
func (p *page) command(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = p.work, 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(p.work, "bin")+":"+os.Getenv("PATH"), "COUNTERFOIL_SERVER=", "COUNTERFOIL_TOKEN_FILE=")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// typed runs commands, of which none may fail, and demands that they print these
// lines. "…" in a line stands for anything, how many spaces there are does not
// count, and same takes out of a text what differs from run to run.
func (p *page) typed(script string, want []string, same func(string) string, env ...string) {
	p.t.Helper()
	cmd := p.command(env, "bash", "-c", "set -e\n"+script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		p.t.Errorf("the commands ended with %v:\n%s", err, out.String())
	}
	got := same(out.String())
	for _, line := range want {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(same(line)), "…", ".*")
		if !regexp.MustCompile(`(?m)^` + pattern + ` *$`).MatchString(got) {
			p.t.Errorf("the commands do not print %q\n%s", line, got)
		}
	}
}

// tour reads the console blocks: what follows "$ " is typed, with here-documents
// to their end, and the rest is output.
func (p *page) tour() (script string, output []string) {
	var b strings.Builder
	b.WriteString("set -m\n")
	inBlock, here := false, ""
	for line := range strings.Lines(p.text) {
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

var (
	spaces   = regexp.MustCompile(` +`)
	changing = regexp.MustCompile(`[0-9a-f]{32,64}|counterfoil\.local/[0-9a-f]+|"data":"[^"]*"|[0-9]+…[0-9]+`)
)

// folded folds spaces, and takes the carriage returns of terminals out.
func folded(s string) string { return spaces.ReplaceAllString(strings.ReplaceAll(s, "\r", ""), " ") }

// steady takes out what differs from ledger to ledger and from run to run as well.
func steady(s string) string { return folded(changing.ReplaceAllString(s, "*")) }
