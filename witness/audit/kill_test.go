package audit_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
)

const childEnv = "COUNTERFOIL_AUDIT_CHILD"

// child audits the log in dir and kills itself at the commit that its argument
// says.
func child(dir string) {
	raw, err := os.ReadFile(filepath.Join(dir, "trust.json"))
	if err != nil {
		panic(err)
	}
	file, err := trust.Parse(raw)
	if err != nil {
		panic(err)
	}
	at, _ := strconv.Atoi(os.Getenv(childEnv + "_AT"))
	cfg := audit.Config{Source: tiles.Dir(filepath.Join(dir, "log")), Trust: file, State: filepath.Join(dir, "state"), Mirror: filepath.Join(dir, "mirror"),
		Tenant: leaftest.Tenant, Now: time.Now}
	commits := 0
	audit.InBatches(40, func() {
		if commits++; commits == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})(&cfg)
	r, err := audit.Run(context.Background(), cfg)
	fmt.Fprintln(os.Stderr, r.Status, err)
	os.Exit(10 + r.ExitCode())
}

// A kill at any batch neither skips a leaf nor counts one twice.
func TestLOG11_KilledAtEveryBatchGoesOn(t *testing.T) {
	leaves := leaftest.History(11, 1200)
	m := leaftest.Fold(leaves)
	l := newLog(t).add(leaves...)
	dir := filepath.Dir(l.dir)
	if err := os.WriteFile(filepath.Join(dir, "trust.json"), l.trust().Append(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for kills := 0; ; kills++ {
		if kills > 500 {
			t.Fatal("it never ends")
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_AT="+strconv.Itoa(1+kills%3))
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code == 11 { // not verified: the history has bad leaves
			if kills < 5 {
				t.Errorf("only %d kills", kills)
			}
			break
		} else if code != -1 {
			t.Fatalf("after %d kills: %v %s", kills, err, out)
		}
	}
	r := run(t, l.config(func(c *audit.Config) {
		c.State, c.Mirror, c.Tenant = filepath.Join(dir, "state"), filepath.Join(dir, "mirror"), leaftest.Tenant
	}))
	if r.Leaves.Before != 1200 || r.Findings.Total != uint64(len(m.Parked)) || r.Leaves.Counted != uint64(len(m.Events)) || r.Mirror.Size != 1200 {
		t.Errorf("%s", text(r))
	}
}
