package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// build leaves out the version stamp, which a clone owned by somebody else
// refuses.
func build(ctx context.Context, e *env) error {
	return e.stream(ctx, "go", "build", "-buildvcs=false", "./...")
}

// modules looks at both module files without changing them.
func modules(ctx context.Context, e *env) error {
	if err := e.stream(ctx, "go", "mod", "tidy", "-diff"); err != nil {
		return fmt.Errorf("%w\nhint: go mod tidy", err)
	}
	if err := e.stream(ctx, "go", "-C", "tools", "mod", "tidy", "-diff"); err != nil {
		return fmt.Errorf("%w\nhint: go -C tools mod tidy", err)
	}
	return nil
}

func vet(ctx context.Context, e *env) error { return e.stream(ctx, "go", "vet", "./...") }

func staticcheck(ctx context.Context, e *env) error {
	return e.stream(ctx, "go", "tool", toolFile, "staticcheck", "./...")
}

// formatted compares every Go file with what go/format makes of it.
func formatted(_ context.Context, e *env) error {
	var checked, bad int
	err := walkGo(e.root, func(path string, src []byte) error {
		checked++
		want, err := format.Source(src)
		if err != nil {
			fmt.Fprintf(e.out, "%s: %v\n", path, err)
			bad++
		} else if !bytes.Equal(src, want) {
			fmt.Fprintf(e.out, "%s: not as gofmt writes it\n", path)
			bad++
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.out, "%d files\n", checked)
	if bad > 0 {
		return fmt.Errorf("%d of %d files\nhint: gofmt -l -w on what is named above", bad, checked)
	}
	return nil
}

// protoDrift lints the schema and generates into a scratch folder, so that it
// neither needs git nor touches the work tree.
func protoDrift(ctx context.Context, e *env) error {
	if err := e.stream(ctx, "go", "tool", toolFile, "buf", "lint"); err != nil {
		return err
	}
	if err := e.stream(ctx, "go", "tool", toolFile, "buf", "format", "--diff", "--exit-code"); err != nil {
		return fmt.Errorf("%w\nhint: go tool %s buf format -w", err, toolFile)
	}
	scratch, err := os.MkdirTemp("", "counterfoil-gen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := e.stream(ctx, "go", "tool", toolFile, "buf", "generate", "-o", scratch); err != nil {
		return err
	}
	diffs, err := compareGo(filepath.Join(e.root, "proto"), filepath.Join(scratch, "proto"))
	if err != nil {
		return err
	}
	for _, d := range diffs {
		fmt.Fprintf(e.out, "proto/%s\n", d)
	}
	if len(diffs) > 0 {
		return fmt.Errorf("%d generated files are not what the schema gives\nhint: go tool %s buf generate", len(diffs), toolFile)
	}
	return nil
}

// compareGo names every Go file that is not the same under both folders. Files
// of have that say nothing of being generated are left alone.
func compareGo(have, want string) ([]string, error) {
	files := func(root string) (map[string][]byte, error) {
		m := make(map[string][]byte)
		err := walkGo(root, func(path string, src []byte) error {
			m[path] = src
			return nil
		})
		return m, err
	}
	a, err := files(have)
	if err != nil {
		return nil, err
	}
	b, err := files(want)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, errors.New("the generators wrote nothing")
	}
	var diffs []string
	for path, src := range b {
		if got, ok := a[path]; !ok {
			diffs = append(diffs, path+": missing")
		} else if !bytes.Equal(got, src) {
			diffs = append(diffs, path+": differs")
		}
	}
	for path, src := range a {
		if _, ok := b[path]; !ok && bytes.HasPrefix(src, []byte("// Code generated ")) {
			diffs = append(diffs, path+": no schema gives it")
		}
	}
	slices.Sort(diffs)
	return diffs, nil
}

// vectors runs every testdata/vectors/check_*.py.
func vectors(ctx context.Context, e *env) error {
	scripts, err := filepath.Glob(filepath.Join(e.root, "testdata", "vectors", "check_*.py"))
	if err != nil {
		return err
	}
	if len(scripts) == 0 {
		return errors.New("testdata/vectors has no script check_*.py")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return errSkip{"no python3 on this machine"}
	}
	var failed []string
	for _, s := range scripts {
		rel, err := filepath.Rel(e.root, s)
		if err != nil {
			return err
		}
		if err := e.stream(ctx, python, rel); err != nil {
			failed = append(failed, rel)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// walkGo calls f with every Go file below root that is part of a package of this
// module, by slash-separated path relative to root.
func walkGo(root string, f func(path string, src []byte) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		src, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's scratch file, gone again
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(rel), src)
	})
}
