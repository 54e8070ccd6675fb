// Command ci runs every check that a change must pass, one step after the other,
// and says at the end what each cost and which failed:
//
//	go run ./internal/ci              all steps but those of hours
//	go run ./internal/ci test race    these steps
//	go run ./internal/ci -list        what there is
//
// It needs Go and the module proxy, nothing else. What a step needs beyond that
// (a C compiler for the race detector, python3 for the vectors) is skipped with
// its reason when it is missing, and named in the summary.
//
// A failing step does not stop the others. Exit codes: 0 every step passed or
// was skipped, 1 a step failed, 2 usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A step is one named check. run reports errSkip for "cannot run here".
type step struct {
	name  string
	why   string
	run   func(context.Context, *env) error
	asked bool // only when it is named
}

var steps = []step{
	{name: "build", why: "every package compiles", run: build},
	{name: "modules", why: "go.mod and go.sum list what the code imports, no more", run: modules},
	{name: "vet", why: "go vet", run: vet},
	{name: "format", why: "every Go file is as gofmt writes it", run: formatted},
	{name: "deps", why: "licences of what is shipped, and known vulnerabilities where their database can be reached", run: deps},
	{name: "proto", why: "buf lint, and generated code is what the schema gives", run: protoDrift},
	{name: "staticcheck", why: "staticcheck, with the exceptions of staticcheck.conf", run: staticcheck},
	{name: "vectors", why: "the test vectors, checked by scripts that share no code with the ledger", run: vectors},
	{name: "test", why: "every test; those of the step faults are left to it where it runs too", run: tests},
	{name: "quickstart", why: "the built programs as a newcomer uses them, to offline verification", run: quickstart},
	{name: "peers", why: "the log and the witness against programs and libraries of others", run: peers},
	{name: "deploy", why: "compose file, images, units, alerts and dashboard, tried without containers", run: deployed},
	{name: "race", why: "the concurrent packages again, under the race detector", run: race},
	{name: "fuzz", why: "every fuzz target for a few seconds", run: fuzz},
	{name: "faults", why: "the whole ledger killed 50 times and every kind of fault at random, and what was acknowledged found again", run: faults},
	{name: "long", why: "kills, faults at random, damage and big logs in loops of hours; only when named", run: long, asked: true},
}

// env is what the steps share.
type env struct {
	root     string        // of the module; every command runs here
	out      io.Writer     // everything goes here in order
	fuzzTime time.Duration // per target
	count    int           // tests run this often, for hunting flakes
	runRegex string        // -run of the steps that run tests; empty for all
	notices  string        // file for the notices of what is shipped; empty for none

	faultsToo bool // the step faults is among the chosen
}

// errSkip marks a step that cannot run on this machine.
type errSkip struct{ reason string }

func (e errSkip) Error() string { return e.reason }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("ci", flag.ContinueOnError)
	fs.SetOutput(stderr)
	list := fs.Bool("list", false, "print the steps and stop")
	budget := fs.Duration("budget", 28*time.Minute, "time for all steps together; what has not ended by then failed")
	fuzzTime := fs.Duration("fuzztime", 2*time.Second, "time for each fuzz target")
	count := fs.Int("count", 1, "run each test this often")
	runRegex := fs.String("run", "", "in the steps test, race and faults, only tests that match")
	notices := fs.String("notices", "", "in the step deps, write the notices of what is shipped to this file")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if *list {
		for _, s := range steps {
			fmt.Fprintf(stdout, "%-12s %s\n", s.name, s.why)
		}
		return 0
	}
	chosen, err := choose(fs.Args())
	if err != nil {
		fmt.Fprintln(stderr, "ci:", err)
		return 2
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(stderr, "ci:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *budget, fmt.Errorf("out of time: all steps together have %v", *budget))
	defer cancel()
	e := &env{root: root, out: stdout, fuzzTime: *fuzzTime, count: *count, runRegex: *runRegex, notices: *notices,
		faultsToo: slices.ContainsFunc(chosen, func(s step) bool { return s.name == "faults" })}
	if failed := runSteps(ctx, e, chosen); failed > 0 {
		return 1
	}
	return 0
}

// runSteps runs all of them, prints the summary and returns how many failed.
func runSteps(ctx context.Context, e *env, chosen []step) (failed int) {
	type result struct {
		step
		took time.Duration
		err  error
	}
	var results []result
	start := time.Now()
	for _, s := range chosen {
		fmt.Fprintf(e.out, "\n=== %s: %s\n", s.name, s.why)
		t := time.Now()
		err := context.Cause(ctx)
		if err == nil {
			err = s.run(ctx, e)
		}
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		if err != nil {
			fmt.Fprintf(e.out, "--- %s: %v\n", s.name, err)
		}
		results = append(results, result{s, time.Since(t).Round(100 * time.Millisecond), err})
	}
	fmt.Fprintf(e.out, "\n=== summary\n")
	var passed, skipped int
	for _, r := range results {
		word, note := "ok", ""
		var skip errSkip
		switch {
		case errors.As(r.err, &skip):
			word, note = "skip", skip.reason
			skipped++
		case r.err != nil:
			word = "FAIL"
			note, _, _ = strings.Cut(r.err.Error(), "\n")
			failed++
		default:
			passed++
		}
		fmt.Fprintln(e.out, strings.TrimRight(fmt.Sprintf("%-4s  %-12s %8s  %s", word, r.name, r.took, note), " "))
	}
	fmt.Fprintf(e.out, "%d passed, %d failed, %d skipped in %v\n", passed, failed, skipped, time.Since(start).Round(time.Second))
	return failed
}

// choose returns the named steps in the order of the table, all for no name.
func choose(names []string) ([]step, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.asked }), nil
	}
	want := make(map[string]bool)
	for _, n := range names {
		want[n] = true
	}
	var chosen []step
	for _, s := range steps {
		if want[s.name] {
			chosen = append(chosen, s)
			delete(want, s.name)
		}
	}
	for n := range want {
		return nil, fmt.Errorf("no step %q\nhint: go run ./internal/ci -list", n)
	}
	return chosen, nil
}

// moduleRoot is the folder of the nearest go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod here or above\nhint: run inside the repository")
		}
		dir = up
	}
}
