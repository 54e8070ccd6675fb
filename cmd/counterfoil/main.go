// Command counterfoil runs an evidence ledger and speaks to one. Start with
// counterfoil quickstart, or counterfoil --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"counterfoil/internal/cli"
	"counterfoil/internal/verifycmd"
)

func main() { os.Exit(run()) }

func run() int {
	// The first signal asks to stop; with stop it has its usual effect again,
	// so a second one ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, os.Args[1:], cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Program: program(os.Args[0]),
	}, cli.Deps{App: ledger{}, Verify: verifycmd.Run})
}

// program is how the user calls this program, for commands to type.
func program(arg0 string) string {
	if strings.Contains(filepath.ToSlash(arg0), "/go-build") {
		return "go run ./cmd/counterfoil" // go run leaves its binary in a build folder
	}
	if arg0 == filepath.Base(arg0) {
		return arg0 // found by PATH
	}
	return filepath.Clean(arg0)
}
