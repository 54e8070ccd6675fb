package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// racePackages are the packages whose goroutines share state, by import path
// below the module or by prefix with "/...". The rest is pure or has one owner,
// and the race detector costs five to ten times the time.
var racePackages = []string{
	"ledger/intake",      // shard locks, shared waits for acknowledgements
	"ledger/sequencer",   // reads the stream, writes the log, answers waiters
	"ledger/stream",      // futures, reconnects
	"ledger/tlog",        // batches in flight, checkpoint readers
	"ledger/tiles",       // cache shared by all readers
	"ledger/index",       // follows the stream while intake asks
	"ledger/vault",       // callers share a flush
	"ledger/lease",       // beats, watches and signatures of several nodes
	"ledger/tee",         // readers of one source
	"internal/access",    // lists change while requests are judged
	"witness/...",        // parallel requests for one log, shared flushes
	"projections/...",    // follower writes while queries read
	"internal/api",       // every request is a goroutine
	"internal/rpc",       // likewise, and streams
	"ledger/client",      // used by many at once
	"internal/app",       // start and stop order
	"internal/proxy/...", // two directions of traffic, lanes of evidence
}

// raceSkips are tests that the race step leaves to the step test: they search files
// for bytes, kill processes of their own or start three nodes once more, for minutes
// under the detector, and what runs side by side in them does so in other tests of
// their packages too.
var raceSkips = []string{
	"TestPRV01_NothingErasedStaysInTheLog",
	"TestEVI12_KilledBetweenPublishAndApply",
	`TestCluster_\w+`, // three servers beside other tests' for minutes; internal/app has three nodes under the detector
	"TestStreamsAreLostOnAllNodes", "TestAllNodesStop", "TestErasureOnAllNodes", "TestKeysOfAllNodes", "TestNodesOnAnExternalNATS", "TestClusterWithoutLeader",
	"TestCLU11_WrongTilesAndTheStream", "TestCLU11_NodeWithAnotherLeafStops", "TestCLU11_StreamLostAndNodeEmptied",
	"TestCLU11_FetchStopsAtAnotherLeaf", "TestCLU11_FetchAsksForCosignatures", "TestVaultFailsBesideTheStart",
}

// Variables that tests read: how often the whole ledger is killed and started
// again, and whether long loops (kills of parts, damage, big logs) are long.
const (
	killsVar = "COUNTERFOIL_KILLS"
	longVar  = "COUNTERFOIL_LONG"
)

// faultsPackage is run whole by the step faults.
const faultsPackage = "internal/faults"

// tests runs everything but what the step faults runs, if that is to come.
func tests(ctx context.Context, e *env) error {
	if !e.faultsToo {
		return e.goTest(ctx, nil, "./...")
	}
	list, err := e.output(ctx, "go", "list", "./...")
	if err != nil {
		return err
	}
	pkgs := slices.DeleteFunc(strings.Fields(list), func(p string) bool { return strings.HasSuffix(p, "/"+faultsPackage) })
	return e.goTest(ctx, nil, pkgs...)
}

// faults kills the ledger 50 times, and lets every kind of fault happen once, in
// another order than in the step test.
func faults(ctx context.Context, e *env) error { return e.testReaders(ctx, killsVar, "50") }

// long is for hours that nobody waits for.
func long(ctx context.Context, e *env) error {
	return errors.Join(e.testReaders(ctx, killsVar, "500"), e.testReaders(ctx, longVar, "1"))
}

// testReaders runs the packages whose tests read a variable, with a value for it.
func (e *env) testReaders(ctx context.Context, variable, value string) error {
	var pkgs []string
	err := walkGo(e.root, func(file string, src []byte) error {
		dir := "./" + path.Dir(file)
		if strings.HasSuffix(file, "_test.go") && dir != "./internal/ci" &&
			bytes.Contains(src, []byte(strconv.Quote(variable))) && !slices.Contains(pkgs, dir) {
			pkgs = append(pkgs, dir)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(pkgs) == 0 {
		return errors.New("no test reads " + variable)
	}
	return e.goTest(ctx, []string{variable + "=" + value}, append([]string{"-timeout=3h"}, pkgs...)...)
}

// race needs cgo, and so a C compiler.
func race(ctx context.Context, e *env) error {
	cgo, err := e.output(ctx, "go", "env", "CGO_ENABLED")
	if err != nil {
		return err
	}
	if strings.TrimSpace(cgo) != "1" {
		return errSkip{"the race detector needs cgo, and there is no C compiler"}
	}
	list, err := e.output(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	if err != nil {
		return err
	}
	pkgs := matching(strings.Fields(list), racePackages)
	if len(pkgs) == 0 {
		return errors.New("no package to run")
	}
	return e.goTest(ctx, nil, append([]string{"-race", "-skip=^(" + strings.Join(raceSkips, "|") + ")$"}, pkgs...)...)
}

// matching returns the packages of this module that a pattern names.
func matching(pkgs, patterns []string) []string {
	var out []string
	for _, pkg := range pkgs {
		_, rel, _ := strings.Cut(pkg, "/")
		for _, p := range patterns {
			dir, tree := strings.CutSuffix(p, "/...")
			if rel == dir || tree && strings.HasPrefix(rel, dir+"/") {
				out = append(out, pkg)
				break
			}
		}
	}
	return out
}

// goTest runs go test, prints one line a package and the whole output of what
// failed, and counts.
func (e *env) goTest(ctx context.Context, environ []string, args ...string) error {
	args = append([]string{"test", "-json", "-timeout=15m", fmt.Sprintf("-count=%d", e.count), "-run=" + e.runRegex}, args...)
	fmt.Fprintf(e.out, "$ %s\n", strings.Join(slices.Concat(environ, []string{"go"}, args), " "))
	cmd := e.command(ctx, "go", args...)
	cmd.Env = append(cmd.Environ(), environ...)
	cmd.Stderr = e.out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t, readErr := readTests(stdout, e.out)
	err = cmd.Wait()
	t.print(e.out)
	if err == nil {
		err = readErr
	}
	if err != nil {
		return fmt.Errorf("%d tests and %d packages failed: %w", t.failed, t.failedPackages, err)
	}
	if t.failed+t.failedPackages > 0 {
		return fmt.Errorf("%d tests and %d packages failed", t.failed, t.failedPackages)
	}
	return nil
}

// testEvent is one line of go test -json.
type testEvent struct {
	Action, Package, Test, Output string
}

// tally counts tests and subtests.
type tally struct {
	passed, failed, failedPackages int
	skipped                        []string // with the reason of each
}

func (t *tally) print(out io.Writer) {
	slices.Sort(t.skipped)
	for _, s := range t.skipped {
		fmt.Fprintf(out, "skipped: %s\n", s)
	}
	fmt.Fprintf(out, "tests and subtests: %d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
}

// readTests reads the output of go test -json to its end. Lines that are no
// event (go itself prints some) are passed on.
func readTests(r io.Reader, out io.Writer) (t tally, err error) {
	type key struct{ pkg, test string }
	running := make(map[key]*strings.Builder)
	flush := func(k key) {
		if b := running[k]; b != nil {
			fmt.Fprint(out, b.String())
			delete(running, k)
		}
	}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var ev testEvent
			if json.Unmarshal(line, &ev) != nil || ev.Action == "" {
				fmt.Fprintf(out, "%s", line)
				continue
			}
			k := key{ev.Package, ev.Test}
			switch {
			case ev.Action == "build-output":
				fmt.Fprint(out, ev.Output)
			case ev.Action == "output" && ev.Test == "":
				if ev.Output != "PASS\n" && ev.Output != "FAIL\n" {
					fmt.Fprint(out, ev.Output)
				}
			case ev.Action == "output":
				if running[k] == nil {
					running[k] = new(strings.Builder)
				}
				running[k].WriteString(ev.Output)
			case ev.Action == "pass" && ev.Test != "":
				t.passed++
				delete(running, k)
			case ev.Action == "skip" && ev.Test != "":
				t.skipped = append(t.skipped, fmt.Sprintf("%s %s: %s", ev.Package, ev.Test, skipReason(running[k])))
				delete(running, k)
			case ev.Action == "fail" && ev.Test != "":
				t.failed++
				flush(k)
			case ev.Action == "fail":
				t.failedPackages++
				for k := range running { // what a panic or a timeout cut short
					if k.pkg == ev.Package {
						flush(k)
					}
				}
			}
		}
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return t, err
		}
	}
}

// skipReason is what the test said to t.Skip.
func skipReason(b *strings.Builder) string {
	if b == nil {
		return "no reason"
	}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}
	return "no reason"
}
