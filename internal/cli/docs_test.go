package cli

import (
	"os"
	"strings"
	"testing"
)

func TestDocsNameEveryCommandAndFlagOfTheContract(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	c := &cli{env: Env{Program: "counterfoil"}}
	for _, cmd := range c.root().Commands() {
		if cmd.Name() != "help" && !strings.Contains(text, "| `"+cmd.Name()) {
			t.Errorf("docs/cli.md has no row for %s", cmd.Name())
		}
	}
	for _, word := range []string{"counterfoil.rebuild.v1", "counterfoil.version.v1", "counterfoil.record.v1", "COUNTERFOIL_SERVER", "COUNTERFOIL_TOKEN_FILE",
		defaultServer, "`usage`", "`unreachable`", "`interrupted`", "`failed`", "`unspecified`", "`read_only`", "`additive`", "`destructive`", "`idempotent`"} {
		if !strings.Contains(text, word) {
			t.Errorf("docs/cli.md does not name %s", word)
		}
	}
}
