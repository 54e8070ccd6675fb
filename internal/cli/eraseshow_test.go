package cli

import (
	"bytes"
	"strings"
	"testing"

	"counterfoil/ledger/client"
)

func TestErasureCounts(t *testing.T) {
	for n, want := range map[int]string{0: "0 attempts purged", 1: "1 attempt purged", 2: "2 attempts purged"} {
		var out bytes.Buffer
		c := &cli{env: Env{Stdout: &out}}
		if err := c.showErasure(&client.Erasure{Affected: n, State: "purged"}); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%d: %s %v", n, out.String(), err)
		}
	}
}
