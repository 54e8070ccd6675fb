package vault

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"counterfoil/internal/testkit/natskit"
	"counterfoil/ledger/commit"
	"counterfoil/ledger/stream"
)

func TestMain(m *testing.M) {
	natskit.Child()
	// Each check opens many vaults; -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const killLogEnv = "COUNTERFOIL_TEST_VAULT_LOG"

// external opens the stream of a server in a process of its own.
func external(t testing.TB, url string) *stream.Rows {
	t.Helper()
	s, err := stream.Open(t.Context(), stream.Config{URL: url, Tenant: "default", Origin: "example.com/test", Fingerprint: "sha256:00", AckTimeout: 5 * time.Minute})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close(context.WithoutCancel(t.Context()))) })
	r, err := s.Rows(t.Context(), "VAULT")
	must(t, err)
	return r
}

// EVI-12: kill −9 between any two steps of what a node does with the log. It goes on
// where it was, and an erasure that was cut off is finished.
func TestEVI12_KilledBetweenPublishAndApply(t *testing.T) {
	t.Parallel()
	srv := natskit.Start(t, filepath.Join(t.TempDir(), "nats"))
	r := external(t, srv.URL)
	dir := filepath.Join(t.TempDir(), "vault")
	w := join(t, t.TempDir(), r)
	for kill := 1; ; kill++ {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSharedKillHelper$")
		cmd.Env = append(os.Environ(), killLogEnv+"="+strings.Join([]string{srv.URL, dir, strconv.Itoa(kill)}, " "))
		out, err := cmd.CombinedOutput()
		if err == nil {
			if kill < 15 {
				t.Fatalf("only %d steps: %s", kill, out)
			}
			break
		}
		if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() {
			t.Fatalf("the process was not killed: %v: %s", err, out)
		}
		v, err := tryJoin(t, dir, r)
		must(t, err)
		mustBeEqual(t, v, w)
		if n := rowsOf(t, v, rowPending) + rowsOf(t, v, rowLoose); n != 0 {
			t.Errorf("after kill %d: %d rows are left", kill, n)
		}
		must(t, v.Close())
	}
	// As one that applies all of it again.
	mustBeEqual(t, w, join(t, t.TempDir(), r))
}

func TestSharedKillHelper(t *testing.T) {
	spec := os.Getenv(killLogEnv)
	if spec == "" {
		t.Skip("helper of another test")
	}
	f := strings.Fields(spec)
	kill, err := strconv.Atoi(f[2])
	must(t, err)
	v := join(t, f[1], &killer{Replica: external(t, f[0]), at: int64(kill)})
	for n := 2 * kill; n < 2*kill+2; n++ {
		id := mustPut(t, v, n)
		must(t, v.PutBody(id, "slot", "value", big(300_000, byte(n)), commit.Raw))
		mustStore(t, v, id, "role", big(65_536*2, byte(n)))
		must(t, v.PutBody(id, "other", "value", fmt.Append(nil, n), commit.Raw))
	}
	id, _ := attempt(2 * kill)
	must(t, v.Erase(id))
}

// killer ends the process at the nth step of what a vault does with its log.
type killer struct {
	Replica
	at, n int64
}

func (k *killer) step() {
	if atomic.AddInt64(&k.n, 1) == k.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (k *killer) Publish(ctx context.Context, body []byte, expect uint64) (uint64, uint64, error) {
	seq, last, err := k.Replica.Publish(ctx, body, expect)
	k.step()
	return seq, last, err
}

func (k *killer) Erase(ctx context.Context, seq uint64) error {
	k.step()
	err := k.Replica.Erase(ctx, seq)
	k.step()
	return err
}
