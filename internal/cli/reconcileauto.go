package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"counterfoil/internal/program"
	"counterfoil/internal/readback"
	"counterfoil/internal/wait"
)

// helperPath is the PATH of helpers.
const helperPath = "PATH=/usr/bin:/bin"

// autoFlags are the flags of reconcile --auto.
type autoFlags struct {
	commands, env           []string
	limit                   time.Duration
	unknownAfter, openAfter time.Duration
	every                   time.Duration
}

func (a *autoFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&a.commands, "readback-command", nil, "TOOL=/abs/path of the helper of a tool; may be repeated")
	f.StringArrayVar(&a.env, "readback-env", nil, "name of a variable that helpers get; may be repeated")
	f.DurationVar(&a.limit, "readback-limit", 10*time.Second, "time that a helper has for an answer")
	f.DurationVar(&a.unknownAfter, "unknown-after", 0, "age from which an attempt with the outcome unknown is asked about")
	f.DurationVar(&a.openAfter, "open-after", 0, "age from which an attempt without an outcome is asked about; 0 for never")
	f.DurationVar(&a.every, "every", 0, "go on, with this time between two rounds, until interrupted (default: one round)")
}

// helpers reads TOOL=/abs/path, and checks every program.
func (c *cli) helpers(a *autoFlags) (map[string]*readback.Helper, error) {
	if len(a.commands) == 0 {
		return nil, usagef("--readback-command pay=/usr/local/lib/pay-readback", "--auto needs a helper")
	}
	if a.limit <= 0 || a.unknownAfter < 0 || a.openAfter < 0 || a.every < 0 {
		return nil, usagef("write it like 30s or 15m", "a time is negative, or the limit is not above 0")
	}
	env := []string{helperPath}
	for _, name := range a.env {
		if name == "" || strings.ContainsAny(name, "=\x00") || name == "PATH" {
			return nil, usagef("--readback-env PAY_API_TOKEN", "%q is not the name of a variable that helpers may get", name)
		}
		env = append(env, name+"="+c.env.Getenv(name))
	}
	out := map[string]*readback.Helper{}
	for _, v := range a.commands {
		tool, rest, ok := strings.Cut(v, "=/")
		if !ok || tool == "" {
			return nil, usagef("--readback-command pay=/usr/local/lib/pay-readback", "%q is not TOOL=/abs/path", v)
		}
		if out[tool] != nil {
			return nil, usagef("name one helper", "two helpers of the tool %q", tool)
		}
		if err := program.Check("/" + rest); err != nil {
			return nil, err
		}
		out[tool] = &readback.Helper{Path: "/" + rest, Env: env, Limit: a.limit}
	}
	return out, nil
}

func (c *cli) reconcileAll(ctx context.Context, a *autoFlags) error {
	helpers, err := c.helpers(a)
	if err != nil {
		return err
	}
	cl, err := c.connect(false)
	if err != nil {
		return err
	}
	defer cl.Close()
	r := &readback.Reconciler{Client: cl, Helpers: helpers, UnknownAfter: a.unknownAfter, OpenAfter: a.openAfter, Now: c.env.Now, Report: c.reported}
	for {
		failed, err := r.Pass(ctx)
		if a.every == 0 {
			if err == nil && failed > 0 {
				err = &hinted{fmt.Errorf("%d attempts could not be reconciled", failed), "each is said above; nothing was recorded for them"}
			}
			return err
		}
		if ctx.Err() != nil {
			return nil // that is how it ends
		}
		if err != nil {
			c.say("counterfoil: %s; trying again in %s", plain(err.Error()), a.every)
		}
		if wait.For(ctx, a.every) != nil {
			return nil
		}
	}
}

// reported prints what came of one attempt: a line, with --json a document.
func (c *cli) reported(res *readback.Result) error {
	if c.json {
		return c.printJSON(struct {
			SchemaVersion string `json:"schemaVersion"`
			*readback.Result
		}{"counterfoil.reconcile.v1", res})
	}
	said := res.Status
	switch {
	case res.Err != "":
		said = "failed: " + res.Err
	case res.Left != "":
		said = "left: " + res.Left
	}
	if res.Observed != "" {
		said += " (" + res.Observed + " at " + res.Source + ")"
	}
	if _, err := fmt.Fprintf(c.env.Stdout, "%s  %s  %s  %s\n", res.AttemptID, plain(res.Tool), res.State, plain(said)); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}
