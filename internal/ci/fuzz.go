package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// fuzzTarget is a function that go test -fuzz can run.
type fuzzTarget struct {
	dir, name string // dir relative to the module root
}

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// fuzzTargets finds every target of the module, in order of folder and name.
func fuzzTargets(root string) ([]fuzzTarget, error) {
	var targets []fuzzTarget
	err := walkGo(root, func(file string, src []byte) error {
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		for _, m := range fuzzFunc.FindAllSubmatch(src, -1) {
			targets = append(targets, fuzzTarget{path.Dir(file), string(m[1])})
		}
		return nil
	})
	slices.SortFunc(targets, func(a, b fuzzTarget) int {
		return strings.Compare(a.dir+" "+a.name, b.dir+" "+b.name)
	})
	return targets, err
}

// fuzz runs each target for a few seconds. What it finds is written under the
// package's testdata/fuzz, where the test step runs it again for ever.
func fuzz(ctx context.Context, e *env) error {
	targets, err := fuzzTargets(e.root)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return errors.New("no fuzz target found")
	}
	var failed []string
	for _, t := range targets {
		out, err := e.fuzzOne(ctx, t)
		for n := 1; n < cutShortTries && err != nil && cutShort(out); n++ {
			out, err = e.fuzzOne(ctx, t)
		}
		if err != nil && cutShort(out) {
			fmt.Fprintf(e.out, "ok    %s %s: no failing input in %d runs, each ended by the engine's own deadline: %s\n", t.dir, t.name, cutShortTries, lastProgress(out))
			continue
		}
		if err != nil {
			failed = append(failed, t.dir+" "+t.name)
			fmt.Fprintf(e.out, "FAIL  %s %s: %v\n%s", t.dir, t.name, err, out)
			continue
		}
		fmt.Fprintf(e.out, "ok    %s %s: %s\n", t.dir, t.name, lastProgress(out))
	}
	fmt.Fprintf(e.out, "fuzz targets: %d passed, %d failed\n", len(targets)-len(failed), len(failed))
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// cutShortTries is how often a target is run that the engine cuts short.
const cutShortTries = 3

func (e *env) fuzzOne(ctx context.Context, t fuzzTarget) (string, error) {
	return e.combined(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$",
		fmt.Sprintf("-fuzztime=%v", e.fuzzTime), "-fuzzminimizetime=1s", "./"+t.dir)
}

// cutShort tells the one failure that says nothing about the target: up to Go
// 1.26 the fuzzing engine can report the end of its time as an error
// (golang/go#75804). Such a run found no failing input: it is tried again, and
// said.
func cutShort(out string) bool {
	return strings.Contains(out, "context deadline exceeded") && !strings.Contains(out, "Failing input written to")
}

// lastProgress is the engine's last word on how much it tried.
func lastProgress(out string) string {
	last := "no progress line"
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "fuzz: "); ok && strings.Contains(rest, "execs") {
			last = strings.TrimSpace(rest)
		}
	}
	return last
}
