package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/durable"
)

// directory is one of an old format with two files that steps work on.
func directory(t *testing.T, identity string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{identityFile: identity, "a": "1", "b": "1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const old = `{"formatVersion": 1, "origin": "o.example/l", "tenant": "default", "complete": true}`

// write is a durable write that may be the last thing the process does.
func write(dir, name, text string, point *int, dieAt int) error {
	if err := durable.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		return err
	}
	if *point++; *point == dieAt {
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Kill()
		}
		return errors.Join(err, errors.New("killed"))
	}
	return nil
}

// testSteps are two steps of two writes each, the second of which needs the first
// one's format; dieAt kills the process behind a write.
func testSteps(dieAt int) []Step {
	point := 0
	step := func(from int, text string) Step {
		return Step{From: from, Does: "writes " + text, Run: func(_ context.Context, dir string) error {
			return errors.Join(write(dir, "a", text, &point, dieAt), write(dir, "b", text, &point, dieAt))
		}}
	}
	return []Step{step(1, "2"), step(2, "3")}
}

func content(t *testing.T, dir string) string {
	t.Helper()
	out := ""
	for _, name := range []string{"a", "b", identityFile} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out += name + "=" + string(b) + "\n"
	}
	return out
}

func TestStepsInOrder(t *testing.T) {
	dir := directory(t, old)
	var said []string
	done, err := run(t.Context(), dir, testSteps(0), 3, func(s string) { said = append(said, s) })
	if err != nil || done != (Done{1, 3}) {
		t.Fatalf("%+v %v", done, err)
	}
	got := content(t, dir)
	for _, want := range []string{"a=3\n", "b=3\n", `"formatVersion": 3`, `"origin": "o.example/l"`, `"complete": true`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if len(said) != 4 || !strings.Contains(said[0], "1 to 2: writes 2") || !strings.Contains(said[3], "3 is written") {
		t.Errorf("said %q", said)
	}
	if done, err := run(t.Context(), dir, testSteps(0), 3, func(string) { t.Error("something is done again") }); err != nil || done != (Done{3, 3}) {
		t.Errorf("again: %+v %v", done, err)
	}
}

// TestHelperRuns is the process that is killed; alone it does nothing.
func TestHelperRuns(t *testing.T) {
	dir, at := os.Getenv("COUNTERFOIL_UPGRADE_DIR"), 0
	if dir == "" {
		t.Skip("only as a process of TestKilledAtEveryWrite")
	}
	if _, err := fmt.Sscan(os.Getenv("COUNTERFOIL_UPGRADE_DIE"), &at); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), dir, testSteps(at), 3, func(string) {}); err != nil {
		t.Fatal(err)
	}
}

// Killed behind every write in turn, and once more on the way of the second attempt,
// an upgrade comes to the same.
func TestKilledAtEveryWrite(t *testing.T) {
	want := directory(t, old)
	if _, err := run(t.Context(), want, testSteps(0), 3, func(string) {}); err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= 4; at++ {
		dir := directory(t, old)
		for _, die := range []int{at, 1} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelperRuns$")
			cmd.Env = append(os.Environ(), "COUNTERFOIL_UPGRADE_DIR="+dir, fmt.Sprintf("COUNTERFOIL_UPGRADE_DIE=%d", die))
			if err := cmd.Run(); err == nil || cmd.ProcessState.Exited() {
				t.Fatalf("write %d: the process was not killed: %v", die, err)
			}
		}
		if done, err := run(t.Context(), dir, testSteps(0), 3, func(string) {}); err != nil || done.To != 3 {
			t.Fatalf("killed at write %d: %+v %v", at, done, err)
		}
		if got, want := content(t, dir), content(t, want); got != want {
			t.Errorf("killed at write %d:\n%s\nwant\n%s", at, got, want)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		identity, want string
	}{
		"newer":        {`{"formatVersion":4,"future":[]}`, "newer program"},
		"no number":    {`{"origin":"x"}`, "not a number"},
		"zero":         {`{"formatVersion":0}`, "not a number"},
		"text":         {`{"formatVersion":"1"}`, "not a number"},
		"half a file":  {`{"formatVersion":1`, "unexpected EOF"},
		"twice":        {`{"formatVersion":1,"formatVersion":2}`, "duplicate"},
		"too long":     {`{"formatVersion":1}` + strings.Repeat(" ", maxIdentityBytes), "more than"},
		"without step": {`{"formatVersion":1}`, "no step leads from data format 1"},
	} {
		dir := directory(t, c.identity)
		before := content(t, dir)
		if _, err := run(t.Context(), dir, testSteps(0)[1:], 3, func(string) { t.Errorf("%s: a step is run", name) }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if content(t, dir) != before {
			t.Errorf("%s: the directory changed", name)
		}
	}
	if _, err := run(t.Context(), t.TempDir(), nil, 3, nil); err == nil {
		t.Error("a directory without a ledger")
	}
	if err := Check("d", []byte(`{"formatVersion":2,"unknown":1}`)); !errors.Is(err, ErrNewer) {
		t.Errorf("Check of a newer one: %v", err)
	}
	if err := fits("d", 1, 2); !errors.Is(err, ErrOlder) || !strings.Contains(err.Error(), "counterfoil upgrade --data d") {
		t.Errorf("an older one: %v", err)
	}
}

// A step fails: its format stays, and the next attempt runs it again.
func TestAStepThatFails(t *testing.T) {
	dir, broken := directory(t, old), true
	s := testSteps(0)
	second := s[1].Run
	s[1].Run = func(ctx context.Context, dir string) error {
		if broken {
			return errors.New("no space left")
		}
		return second(ctx, dir)
	}
	done, err := run(t.Context(), dir, s, 3, func(string) {})
	if err == nil || done != (Done{1, 2}) || !strings.Contains(content(t, dir), `"formatVersion": 2`) {
		t.Fatalf("%+v %v\n%s", done, err, content(t, dir))
	}
	broken = false
	if done, err := run(t.Context(), dir, s, 3, func(string) {}); err != nil || done != (Done{2, 3}) {
		t.Errorf("again: %+v %v", done, err)
	}
}

// There is a step for every format before the newest, and a directory of each format.
func TestEveryFormatHasAStepAndADirectory(t *testing.T) {
	for n := 1; n <= Format; n++ {
		if n < Format && find(steps, n) == nil {
			t.Errorf("no step from format %d", n)
		}
		if _, err := os.Stat(fmt.Sprintf("../../testdata/olddirs/format-%d.tar.gz", n)); err != nil {
			t.Errorf("format %d: %v", n, err)
		}
	}
}
