// Package cli is the command line of the program counterfoil, one file a
// command.
//
// Data goes to stdout, talk to stderr. With --json stdout holds documents with a
// schemaVersion and nothing else; a refusal is then a document too,
// {"error":{"code","message","path"?,"hint"?}}. There is no colour.
//
// Exit codes:
//
//	0  done; for verify: verified
//	1  refused or failed; for verify: not verified
//	2  wrong usage; for verify: could not be judged
package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// App is what the commands on a data directory need: serve, quickstart and
// rebuild. The client commands need a running ledger alone.
type App interface {
	// Serve runs a ledger until ctx ends, which is no error. It calls ready
	// once, when requests are answered; an error of ready stops the ledger and
	// is returned.
	Serve(ctx context.Context, cfg ServeConfig, ready func(Ready) error) error
	// Rebuild makes the views anew from the log of a data directory that no
	// ledger runs on. Only Data and Logger of the configuration are set.
	Rebuild(ctx context.Context, cfg ServeConfig) (Rebuilt, error)
	// PrepareNodes makes data directories for further nodes of the ledger in
	// cfg.Data, or of a new one, and returns the ledger's origin. Only Data, Origin
	// and Tenant of the configuration are set.
	PrepareNodes(cfg ServeConfig, out []string) (origin string, err error)
	// FetchLog makes the log of a data directory that no ledger runs on the one that
	// others serve under the URLs from, and tells progress how far it is. Only Data,
	// WitnessPolicy and Logger of the configuration are set.
	FetchLog(ctx context.Context, cfg ServeConfig, from []string, progress func(leaves, of uint64)) (Fetched, error)
}

// Deps is what a program puts in.
type Deps struct {
	App App
	// Verify is the command verify: its arguments without the program's and
	// the command's name; it returns the exit code.
	Verify func(args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// Env is where the program runs.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv reads COUNTERFOIL_SERVER and COUNTERFOIL_TOKEN_FILE.
	Getenv func(string) string
	// Now is the clock of ages and of what is recorded here; time.Now by default.
	Now func() time.Time
	// Random makes ids; crypto/rand by default.
	Random io.Reader
	// Program is how the user calls this program, for the commands in hints.
	Program string
}

// Run executes one command and returns the exit code.
func Run(ctx context.Context, args []string, env Env, deps Deps) int {
	if env.Now == nil {
		env.Now = time.Now
	}
	if env.Random == nil {
		env.Random = rand.Reader
	}
	c := &cli{env: env, deps: deps}
	root := c.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	if !c.started { // flags may not have been read
		c.json = c.json || asksJSON(args)
	}
	var usage *usageError
	if !c.started && !errors.As(err, &usage) {
		err = &usageError{err: err, hint: c.env.Program + " --help"} // the command line did not fit
	}
	return c.report(err)
}

// asksJSON reports whether --json stands among the arguments, wherever reading
// them stopped.
func asksJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// cli is one execution of the program.
type cli struct {
	env  Env
	deps Deps

	client  clientFlags
	started bool // a command has begun: what fails now is no matter of usage
	json    bool // the command that runs was asked for JSON
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "counterfoil",
		Short: "An evidence ledger for AI-agent platforms",
		Long: `counterfoil keeps evidence of what AI agents do: every attempt, outcome, reversal,
reconciliation and review becomes a leaf of a Merkle log, and a receipt that anyone
can verify offline.

Exit codes: 0 done or verified, 1 refused, failed or not verified, 2 wrong usage or
could not be judged.`,
		Example: `  counterfoil quickstart            # see it work, in ./counterfoil-data
  counterfoil serve                 # run a ledger
  counterfoil record session.jsonl  # record an MCP session
  counterfoil list --state failed`,
		Version:       Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          c.groupArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	v := readVersion()
	root.SetVersionTemplate(fmt.Sprintf("counterfoil %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err: err, hint: cmd.CommandPath() + " --help"}
	})
	root.AddGroup(
		&cobra.Group{ID: groupLedger, Title: "Run a ledger:"},
		&cobra.Group{ID: groupRecord, Title: "Record:"},
		&cobra.Group{ID: groupRead, Title: "Read and verify:"},
	)
	for _, g := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{groupLedger, []*cobra.Command{c.quickstartCommand(), c.serveCommand(), c.rebuildCommand(), c.doctorCommand(), c.keysCommand(), c.tokensCommand(), c.eraseCommand(), c.holdCommand(), c.policyCommand(), c.contractCommand(), c.reviewCommand(), c.backupCommand(), c.restoreCommand(), c.upgradeCommand(), c.nodeCommand()}},
		{groupRecord, []*cobra.Command{c.beginCommand(), c.appendCommand(), c.reconcileCommand(), c.recordCommand(), c.proxyCommand(), c.mcpCommand(), c.admitCommand()}},
		{groupRead, []*cobra.Command{c.getCommand(), c.listCommand(), c.tailCommand(), c.bundleCommand(), c.trustCommand(), c.verifyCommand(), c.auditCommand()}},
		{"", []*cobra.Command{c.versionCommand()}},
	} {
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.SetIn(c.env.Stdin)
	root.SetOut(c.env.Stdout)
	root.SetErr(c.env.Stderr)
	root.InitDefaultCompletionCmd() // after its output is set
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = c.groupArgs, needsCommand
		case "help":
			cmd.Run, cmd.RunE = nil, c.help
		}
	}
	c.markStart(root)
	return root
}

// needsCommand refuses a group that was named without one of its commands.
func needsCommand(cmd *cobra.Command, _ []string) error {
	return usagef(cmd.CommandPath()+" --help", "%q needs a command", cmd.CommandPath())
}

// help shows the help of a command that is there.
func (c *cli) help(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if of == nil || err != nil || len(rest) > 0 {
		return usagef(cmd.Root().CommandPath()+" --help", "there is no command %q", strings.Join(args, " "))
	}
	return of.Help()
}

const (
	groupLedger = "ledger"
	groupRecord = "record"
	groupRead   = "read"
)

// markStart lets every command say that it has begun.
func (c *cli) markStart(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			c.started = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		c.markStart(sub)
	}
}
