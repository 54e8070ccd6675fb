package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// exitCode ends the program; what there is to say has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a command line that makes no sense.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(hint, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: hint}
}

// hinted is an error with what to do next.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// report says what went wrong, on stderr, and with --json on stdout too, and
// returns the exit code.
func (c *cli) report(err error) int {
	code, hint := exitFailed, ""
	var (
		usage   *usageError
		withH   *hinted
		refusal *client.Error
		gone    *client.Unreachable
	)
	doc := &client.Error{Code: "failed", Message: err.Error()}
	switch {
	case errors.As(err, &usage):
		code, hint, doc.Code = exitUsage, usage.hint, "usage"
	case errors.As(err, &withH):
		hint = withH.hint
	case errors.As(err, &refusal):
		doc, hint = refusal, refusal.Hint
		if refusal.Code == "unauthorized" {
			hint = "the token that was sent does not match this ledger's: name its token file with --token-file or COUNTERFOIL_TOKEN_FILE; it is DIR/token of its data directory"
		}
	case errors.As(err, &gone):
		doc.Code = "unreachable"
		hint = fmt.Sprintf("start a ledger with %q, or name one with --server or COUNTERFOIL_SERVER", c.env.Program+" serve")
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
		doc.Code, doc.Message = "interrupted", err.Error()
	}
	message := strings.ReplaceAll(err.Error(), "\n", "; ") // of joined errors
	if hint == "" {                                        // libraries of this project put theirs at the end
		if m, h, ok := strings.Cut(message, " (hint: "); ok && strings.HasSuffix(h, ")") && !strings.Contains(h, " (hint: ") {
			message, hint = m, strings.TrimSuffix(h, ")")
			if doc != refusal {
				doc.Message = message
			}
		}
	}
	if c.json {
		c.writeError(doc, hint)
	}
	fmt.Fprintf(c.env.Stderr, "counterfoil: %s\n", plain(message))
	if hint != "" {
		fmt.Fprintf(c.env.Stderr, "hint: %s\n", plain(hint))
	}
	return code
}

func (c *cli) writeError(doc *client.Error, hint string) {
	raw := doc.Raw
	if raw == nil {
		d := *doc
		if d.Hint == "" {
			d.Hint = hint
		}
		var err error
		if raw, err = json.Marshal(struct {
			Error *client.Error `json:"error"`
		}{&d}); err != nil {
			return // the words on stderr remain
		}
	}
	_ = c.printRaw(raw)
}

// groupArgs refuses words that are no command, and says which are close.
func (c *cli) groupArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := cmd.CommandPath() + " --help"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
}

// want returns a check of the number of arguments; most < 0 is without limit.
func want(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return usagef(cmd.UseLine(), "%q got %d arguments", cmd.CommandPath(), len(args))
	}
}
