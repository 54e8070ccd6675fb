// Command counterfoil-witness is a C2SP tlog-witness: it cosigns the checkpoints
// of transparency logs, anybody's, as long as their history is never rewritten.
//
// Data goes to stdout, talk to stderr. Exit codes:
//
//	0  done; for evidence verify: the log broke its promise
//	1  refused or failed; for evidence verify: the document does not show that
//	2  wrong usage; for evidence verify: could not be judged
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The first signal asks to stop; a second one has its usual effect.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const (
	exitFailed = 1
	exitUsage  = 2
)

// exitCode ends the program; what there is to say has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a command line that makes no sense.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// program is one execution.
type program struct {
	stdout, stderr io.Writer
	started        bool // a command has begun: what fails now is no matter of usage
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := &program{stdout: stdout, stderr: stderr}
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage) || !p.started:
		p.report(err, "counterfoil-witness --help")
		return exitUsage
	}
	p.report(err, "")
	return exitFailed
}

// report says what went wrong. A hint stands at the end of an error as
// "(hint: …)".
func (p *program) report(err error, hint string) {
	message := strings.ReplaceAll(err.Error(), "\n", "; ") // of joined errors
	if m, h, ok := strings.Cut(message, " (hint: "); ok && strings.HasSuffix(h, ")") {
		message, hint = m, strings.TrimSuffix(h, ")")
	}
	fmt.Fprintf(p.stderr, "counterfoil-witness: %s\n", message)
	if hint != "" {
		fmt.Fprintf(p.stderr, "hint: %s\n", hint)
	}
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "counterfoil-witness",
		Short: "Cosign the checkpoints of transparency logs",
		Long: `counterfoil-witness cosigns checkpoints over the C2SP tlog-witness protocol: only if each
is signed by its log and continues the one before, and never two roots for one size.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage or could not be judged.`,
		Example: `  counterfoil-witness keygen --name witness.example/w1 --key-file witness.key
  counterfoil-witness serve --key-file witness.key --state witness-state --logs logs.txt`,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.AddCommand(p.serveCommand(), p.keygenCommand(), p.evidenceCommand(), p.healthCommand())
	p.markStart(root)
	return root
}

// markStart lets every command say that it has begun.
func (p *program) markStart(cmd *cobra.Command) {
	if runE := cmd.RunE; runE != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			p.started = true
			return runE(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		p.markStart(sub)
	}
}

func (p *program) print(b []byte) error {
	if _, err := p.stdout.Write(b); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// logger writes JSON lines to stderr.
func (p *program) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("unknown log level %q (hint: --log-level debug, info, warn or error)", level)
	}
	return slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: l})), nil
}

// require makes flags required.
func require(cmd *cobra.Command, names ...string) {
	for _, n := range names {
		if err := cmd.MarkFlagRequired(n); err != nil {
			panic("no flag " + n) // a fault of this program
		}
	}
}
