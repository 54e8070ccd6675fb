package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/witness/audit"
)

// TestLOG11_ABusyLogIsAuditedUpToItsWitnessedCheckpoint: the newest checkpoint has
// no cosignatures yet, an earlier one has. What the log offers as witnessed is
// believed no further than it shows.
func TestLOG11_ABusyLogIsAuditedUpToItsWitnessedCheckpoint(t *testing.T) {
	read := func(l *ledgerLog) []byte {
		t.Helper()
		b, err := os.ReadFile(l.file(tiles.Path{Kind: tiles.Checkpoint}))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all := story(300)
	l, w := newLog(t).add(all[:100]...), newWitness(t, "witness.test/w1")
	plain := read(l)
	w.cosign(t, l, 1_000_000)
	witnessed := read(l)
	l.add(all[100:]...)
	fork := l.fork().add(story(300)[:299]...).add(all[0])
	w.cosign(t, fork, 1_000_000)
	other := newLog(t).add(all[:50]...)
	w.cosign(t, other, 1_000_000)

	ask := func(offer []byte, err error) func(*audit.Config) {
		return func(c *audit.Config) {
			c.Trust.Witnesses, c.Trust.Quorum = []trust.VerifierKey{w.key}, 1
			c.Witnessed = func(context.Context) ([]byte, error) { return offer, err }
		}
	}
	r := verified(t, l.config(ask(witnessed, nil)))
	if r.Size != 100 || r.Leaves.Counted != 100 || !strings.Contains(strings.Join(r.Notes, " "), "size 300") {
		t.Errorf("%s", text(r))
	}
	refused(t, l.config(ask(nil, fs.ErrNotExist)), audit.Quorum)
	refused(t, l.config(ask(plain, nil)), audit.Quorum)       // without a cosignature
	refused(t, l.config(ask(read(other), nil)), audit.Quorum) // of another key
	refused(t, l.config(ask([]byte("x"), nil)), audit.Quorum) // no note
	refused(t, l.config(ask(read(fork), nil)), audit.Forked)  // another root at the same size
	if r, err := audit.Run(t.Context(), l.config(ask(nil, errors.New("cut off")))); err == nil || r.Status != audit.NotJudged {
		t.Errorf("trouble: %v", err)
	}

	// What was seen before is not gone back behind: the newest one is then audited,
	// and has no quorum.
	state := filepath.Join(t.TempDir(), "state")
	remember := func(c *audit.Config) { c.State = state }
	if r, err := audit.Run(t.Context(), l.config(remember)); err != nil || r.Size != 300 {
		t.Fatal(fmt.Sprint(r), err)
	}
	refused(t, l.config(remember, ask(witnessed, nil)), audit.Quorum)
}
