package main

import (
	"testing"

	"counterfoil/internal/testkit/freeport"
)

// TestReadmeTour types the commands of the README's tour in their order and
// compares what they print, as far as it does not depend on the day.
func TestReadmeTour(t *testing.T) {
	p := openPage(t, "README.md")
	// Where another ledger may run beside, the default port is not for tests.
	ledger, witness := freeport.Addr(t), freeport.Addr(t)
	p.replace("127.0.0.1:8480", ledger, "127.0.0.1:8481", witness, "counterfoil serve ", "counterfoil serve --listen "+ledger+" ")
	script, want := p.tour()
	if len(want) < 10 {
		t.Fatalf("only %d lines of output are in the tour", len(want))
	}
	p.build("./cmd/counterfoil", "./cmd/counterfoil-verify", "./cmd/counterfoil-witness")
	p.typed(script, want, steady, "COUNTERFOIL_SERVER=http://"+ledger)
}
