package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"counterfoil/internal/testkit/mcpkit"
	"counterfoil/internal/verifycmd"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"counterfoil":        main,
		"counterfoil-verify": func() { os.Exit(verifycmd.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"mcp-test-server":    mcpkit.Serve,
	})
}

// TestScripts runs testdata/scripts: whole commands against real ledgers. The
// head of each script carries the ids of the rules that it pins.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/scripts",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("COUNTERFOIL_SERVER", "")
			env.Setenv("COUNTERFOIL_TOKEN_FILE", "")
			// Files that are shipped, which scripts name rather than copy.
			for name, dir := range map[string]string{"EVIDENCE": "../../testdata/evidence", "POLICIES": "../../deploy/policies"} {
				abs, err := filepath.Abs(dir)
				if err != nil {
					return err
				}
				env.Setenv(name, abs)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ledger":  ledgerCommand,
			"jsonenv": jsonenvCommand,
			"jsonis":  jsonisCommand,
			"absent":  absentCommand,
		},
	})
}

func TestCommandsAreNamedAsTheUserCallsThem(t *testing.T) {
	for arg0, want := range map[string]string{
		"counterfoil":                          "counterfoil",
		"./bin/counterfoil":                    "bin/counterfoil",
		"/usr/bin/counterfoil":                 "/usr/bin/counterfoil",
		"/tmp/go-build12/b001/exe/counterfoil": "go run ./cmd/counterfoil",
	} {
		if got := program(arg0); got != want {
			t.Errorf("%s: %q, want %q", arg0, got, want)
		}
	}
}
