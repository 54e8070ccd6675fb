package readback

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program writes a shell script that is a helper.
func helperProgram(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOPR10_HelperIsAskedInJSONAndBounded(t *testing.T) {
	q := &Request{Schema: RequestSchema, AttemptID: "att_1", Tool: "pay"}
	for _, c := range []struct {
		name, script string
		limit        time.Duration
		want         string // of the error; "" for an answer
	}{
		{"an answer", `cat >/dev/null; echo '{"source":"bank","observed":"present","count":2,"value":{"a":1.50}}'`, time.Minute, ""},
		{"one that reads nothing", `echo '{"source":"bank","observed":"absent"}'`, time.Minute, ""},
		{"the question", `grep -q '"schema":"counterfoil.readback-request.v1"' && echo '{"source":"bank","observed":"absent"}'`, time.Minute, ""},
		{"no environment but the given", `[ "$(env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= -e ^PATH=)" = "ONLY=this" ] && [ $# = 0 ] && [ "$PWD" = / ] && echo '{"source":"s","observed":"absent"}'`, time.Minute, ""},
		{"a status is not the helper's to state", `echo '{"source":"bank","observed":"absent","status":"confirmed_absent"}'`, time.Minute, "at /status"},
		{"a name twice", `echo '{"source":"bank","observed":"absent","observed":"present"}'`, time.Minute, "at /observed"},
		{"two documents", `echo '{"source":"bank","observed":"absent"} {}'`, time.Minute, "strict JSON"},
		{"nothing", ``, time.Minute, "strict JSON"},
		{"no JSON, and what it says is not shown", `echo 'secret-4711'`, time.Minute, "strict JSON, at its top"},
		{"an exit code", `echo '{"source":"bank","observed":"absent"}'; echo 'first' >&2; echo 'no token' >&2; exit 3`, time.Minute, `exit status 3: it said "no token"`},
		{"endless output", `yes`, time.Minute, "over 1048576 bytes"},
		{"no answer in time", `sleep 600`, 50 * time.Millisecond, "nothing within 50ms"},
		{"children that stay", `sleep 600 & sleep 600`, 50 * time.Millisecond, "nothing within 50ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &Helper{Path: helperProgram(t, "PATH=/usr/bin:/bin\n"+c.script), Limit: c.limit, Env: []string{"ONLY=this"}}
			a, err := h.Ask(t.Context(), q)
			if c.want == "" {
				if err != nil || a.Source == "" {
					t.Fatalf("%+v %v", a, err)
				}
				return
			}
			if !errors.Is(err, ErrHelper) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "4711") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Helper{Path: helperProgram(t, `sleep 600`), Limit: time.Minute}).Ask(ctx, q); !errors.Is(err, context.Canceled) || errors.Is(err, ErrHelper) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestOPR10_HelperMustBeNamedAbsolutelyAndSafe(t *testing.T) {
	good := helperProgram(t, "")
	dir := filepath.Dir(good)
	link, open, plain := filepath.Join(dir, "link"), filepath.Join(dir, "open"), filepath.Join(dir, "plain")
	for _, err := range []error{os.Symlink(good, link), os.WriteFile(open, nil, 0o700), os.Chmod(open, 0o722), os.WriteFile(plain, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	loose := filepath.Join(t.TempDir(), "loose")
	if err := errors.Join(os.Mkdir(loose, 0o700), os.Chmod(loose, 0o777), os.WriteFile(filepath.Join(loose, "h"), nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"helper", "./helper", "", dir, dir + "/../" + filepath.Base(dir) + "/helper", dir + "/none", link, open, plain, loose + "/h"} {
		if _, err := (&Helper{Path: path, Limit: time.Minute}).Ask(t.Context(), &Request{}); !errors.Is(err, ErrHelper) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
