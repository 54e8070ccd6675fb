package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunStepsGoesOnAfterAFailureAndReportsIt(t *testing.T) {
	var ran []string
	at := func(name string, err error) step {
		return step{name: name, run: func(context.Context, *env) error { ran = append(ran, name); return err }}
	}
	var out bytes.Buffer
	failed := runSteps(t.Context(), &env{out: &out}, []step{
		at("one", nil), at("two", errors.New("broken")), at("three", errSkip{"no compiler"}), at("four", nil),
	})
	if failed != 1 {
		t.Errorf("failed = %d, want 1", failed)
	}
	if diff := cmp.Diff([]string{"one", "two", "three", "four"}, ran); diff != "" {
		t.Errorf("steps run (-want +got):\n%s", diff)
	}
	for _, want := range []string{"FAIL  two", "broken", "skip  three", "no compiler", "2 passed, 1 failed, 1 skipped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not say %q:\n%s", want, out.String())
		}
	}
}

func TestRunStepsFailsWhatTheBudgetCutsShort(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	steps := []step{
		{name: "cut", run: func(context.Context, *env) error {
			cancel(errors.New("out of time"))
			return errors.New("killed")
		}},
		{name: "never", run: func(context.Context, *env) error { t.Error("ran after the end"); return nil }},
	}
	var out bytes.Buffer
	if failed := runSteps(ctx, &env{out: &out}, steps); failed != 2 {
		t.Errorf("failed = %d, want 2:\n%s", failed, out.String())
	}
}

func TestChoose(t *testing.T) {
	got, err := choose([]string{"test", "build"})
	if err != nil || len(got) != 2 || got[0].name != "build" || got[1].name != "test" {
		t.Errorf("choose = %v, %v; want build, test in the order of the table", got, err)
	}
	all, err := choose(nil)
	if err != nil || len(all) != len(steps)-1 {
		t.Errorf("choose of nothing = %d steps, %v; want all but the long ones", len(all), err)
	}
	if _, err := choose([]string{"test", "tset"}); err == nil || !strings.Contains(err.Error(), `"tset"`) {
		t.Errorf("unknown step: error %v does not name it", err)
	}
	if code := run([]string{"tset"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("unknown step: exit %d, want 2", code)
	}
}

func TestReadTests(t *testing.T) {
	const in = `{"ImportPath":"m/broken","Action":"build-output","Output":"m/broken/x.go:1: undefined: y\n"}
go: downloading something
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"chatter of a good test\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:9: wrong digest\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"=== RUN   TestSkip\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"    a_test.go:20: only as root\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkip"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}
{"Action":"output","Package":"m/b","Test":"TestPanics","Output":"panic: index out of range\n"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.1s\n"}
{"Action":"fail","Package":"m/b"}
{"Action":"output","Package":"m/c","Output":"PASS\n"}
{"Action":"output","Package":"m/c","Output":"ok  \tm/c\t0.2s\n"}
{"Action":"pass","Package":"m/c"}
`
	var out bytes.Buffer
	got, err := readTests(strings.NewReader(in), &out)
	if err != nil {
		t.Fatal(err)
	}
	want := tally{passed: 1, failed: 1, failedPackages: 2, skipped: []string{"m/a TestSkip: a_test.go:20: only as root"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tally{})); diff != "" {
		t.Errorf("tally (-want +got):\n%s", diff)
	}
	const wantOut = `m/broken/x.go:1: undefined: y
go: downloading something
    a_test.go:9: wrong digest
FAIL	m/a	0.1s
panic: index out of range
FAIL	m/b	0.1s
ok  	m/c	0.2s
`
	// A panic's text is printed when its package fails, so after the package's
	// own line; the order of the rest is that of the input.
	if diff := cmp.Diff(sortedLines(wantOut), sortedLines(out.String())); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func sortedLines(s string) map[string]int {
	m := make(map[string]int)
	for line := range strings.Lines(s) {
		m[line]++
	}
	return m
}

func TestMatching(t *testing.T) {
	got := matching([]string{"m/ledger/tiles", "m/ledger/tilesets", "m/projections", "m/projections/kv", "m/projectionsx", "m/cmd/x"},
		[]string{"ledger/tiles", "projections/..."})
	if diff := cmp.Diff([]string{"m/ledger/tiles", "m/projections", "m/projections/kv"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFuzzTargets(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/a_test.go", "package a\n\nfunc FuzzParse(f *testing.F) {\n}\n\nfunc fuzzHelper(f *testing.F) {}\n")
	write(t, root, "a/a.go", "package a\n\nfunc FuzzNot(f *testing.F) {}\n")
	write(t, root, "a/testdata/b_test.go", "package b\n\nfunc FuzzHidden(f *testing.F) {}\n")
	write(t, root, "b/c/c_test.go", "package c\n\nfunc FuzzB(f *testing.F) {}\nfunc FuzzA(fz *testing.F) {}\n")
	got, err := fuzzTargets(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []fuzzTarget{{"a", "FuzzParse"}, {"b/c", "FuzzA"}, {"b/c", "FuzzB"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(fuzzTarget{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCutShort(t *testing.T) {
	const engine = "--- FAIL: FuzzX (5.03s)\n    context deadline exceeded\nFAIL\n"
	if !cutShort(engine) {
		t.Error("the engine's own time-out is not recognised")
	}
	if cutShort(engine + "    Failing input written to testdata/fuzz/FuzzX/1\n") {
		t.Error("a failing input was taken for the engine's own time-out")
	}
}

func TestCompareGo(t *testing.T) {
	have, want := t.TempDir(), t.TempDir()
	const gen = "// Code generated by x. DO NOT EDIT.\npackage v1\n"
	for _, d := range []string{have, want} {
		write(t, d, "v1/same.pb.go", gen)
	}
	write(t, have, "v1/changed.pb.go", gen+"// by hand\n")
	write(t, want, "v1/changed.pb.go", gen)
	write(t, want, "v1/new.pb.go", gen)
	write(t, have, "v1/stale.pb.go", gen)
	write(t, have, "v1/doc.go", "package v1\n")
	got, err := compareGo(have, want)
	if err != nil {
		t.Fatal(err)
	}
	wantDiffs := []string{"v1/changed.pb.go: differs", "v1/new.pb.go: missing", "v1/stale.pb.go: no schema gives it"}
	if diff := cmp.Diff(wantDiffs, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := compareGo(have, t.TempDir()); err == nil {
		t.Error("generators that wrote nothing pass")
	}
}

func TestFormattedFindsBadFiles(t *testing.T) {
	root := t.TempDir()
	write(t, root, "good.go", "package a\n\nvar x = 1\n")
	if err := formatted(t.Context(), &env{root: root, out: io.Discard}); err != nil {
		t.Errorf("well formatted: %v", err)
	}
	write(t, root, "bad.go", "package a\nvar   x = 1\n")
	if err := formatted(t.Context(), &env{root: root, out: io.Discard}); err == nil {
		t.Error("a badly formatted file passes")
	}
}

func TestVectorsNeedScripts(t *testing.T) {
	if err := vectors(t.Context(), &env{root: t.TempDir(), out: io.Discard}); err == nil {
		t.Error("no script at all passes")
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
