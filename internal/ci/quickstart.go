package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// quickstart builds the programs and does what the README tells a newcomer to do,
// in an empty folder: run the quickstart, run it again, and verify what it wrote
// with the small verifier, which must also refuse what was tampered with.
func quickstart(ctx context.Context, e *env) error {
	scratch, err := os.MkdirTemp("", "counterfoil-quickstart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	bin := filepath.Join(scratch, "bin")
	if err := e.stream(ctx, "go", "build", "-buildvcs=false", "-o", bin+string(filepath.Separator), "./cmd/counterfoil", "./cmd/counterfoil-verify"); err != nil {
		return err
	}
	run := func(want int, program string, args ...string) error {
		cmd := e.command(ctx, filepath.Join(bin, program), args...)
		cmd.Dir = scratch
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(e.out, "$ %s %v\n%s", program, args, out)
		if cmd.ProcessState == nil {
			return err
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			return fmt.Errorf("%s %v: exit %d, want %d", program, args, got, want)
		}
		return nil
	}
	data := filepath.Join(scratch, "counterfoil-data")
	checkpoint := filepath.Join(data, "log", "checkpoint")
	if err := run(0, "counterfoil", "quickstart", "--exit"); err != nil {
		return err
	}
	first, err := treeSize(checkpoint)
	if err != nil {
		return err
	}
	if err := run(0, "counterfoil", "quickstart", "--exit"); err != nil {
		return err
	}
	second, err := treeSize(checkpoint)
	if err != nil {
		return err
	}
	if first != second {
		return fmt.Errorf("the second quickstart added events: tree size %s, then %s", first, second)
	}
	bundles, err := filepath.Glob(filepath.Join(data, "bundles", "*.bundle.json"))
	if err != nil {
		return err
	}
	if len(bundles) == 0 {
		return errors.New("quickstart wrote no bundle")
	}
	trust := filepath.Join(data, "trust.json")
	for _, b := range bundles {
		if err := errors.Join(
			run(0, "counterfoil-verify", b, "--trust", trust),
			run(2, "counterfoil-verify", b),
		); err != nil {
			return err
		}
		tampered := filepath.Join(scratch, "tampered.bundle.json")
		if err := tamper(b, tampered); err != nil {
			return err
		}
		if err := run(1, "counterfoil-verify", tampered, "--trust", trust); err != nil {
			return err
		}
	}
	return nil
}

// treeSize is the second line of a checkpoint.
func treeSize(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	lines := bytes.SplitN(b, []byte("\n"), 3)
	if len(lines) < 3 {
		return "", fmt.Errorf("%s: not a checkpoint", file)
	}
	return string(lines[1]), nil
}

// tamper copies a bundle with one status word changed.
func tamper(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	changed := bytes.Replace(b, []byte(`"status":"failed"`), []byte(`"status":"unknown"`), 1)
	if bytes.Equal(changed, b) {
		changed = bytes.Replace(b, []byte(`"status":"succeeded"`), []byte(`"status":"unknown"`), 1)
	}
	if bytes.Equal(changed, b) {
		return fmt.Errorf("%s: no outcome to tamper with", from)
	}
	return os.WriteFile(to, changed, 0o600)
}
