package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// toolFile pins the versions of buf and staticcheck, apart from the ledger's own
// dependencies.
const toolFile = "-modfile=tools/go.mod"

// command prepares a command in the module root without stdin. When the context
// ends, it and everything that it started is killed.
func (e *env) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = e.root
	cmd.WaitDelay = 10 * time.Second
	killWithChildren(cmd)
	return cmd
}

// stream runs a command and passes on what it prints.
func (e *env) stream(ctx context.Context, name string, args ...string) error {
	fmt.Fprintf(e.out, "$ %s %s\n", name, strings.Join(args, " "))
	cmd := e.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = e.out, e.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return nil
}

// output runs a command and returns its standard output; standard error is
// passed on.
func (e *env) output(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := e.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, e.out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out.String(), nil
}

// combined runs a command and returns everything that it prints.
func (e *env) combined(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := e.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, io.Writer(&out)
	err := cmd.Run()
	return out.String(), err
}
