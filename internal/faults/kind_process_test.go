package faults

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

var killKind = kind{
	name:     "kill",
	says:     "kill −9 under load",
	inject:   func(r *round) { r.sleep(0, 300*time.Millisecond); r.p.kill(syscall.SIGKILL) },
	recover:  (*round).start,
	refusals: []string{nobodyListens, noAnswer},
}

var killStartingKind = kind{
	name:   "kill while starting",
	says:   "kill −9 under load, and again three times while it starts",
	inject: func(r *round) { r.p.kill(syscall.SIGKILL) },
	recover: func(r *round) {
		for range 3 {
			cmd := exec.Command(binary, append([]string{"serve", "--data", r.era.dir, "--listen", "127.0.0.1:0"}, r.era.args...)...)
			if err := cmd.Start(); err != nil {
				r.t.Fatal(err)
			}
			r.sleep(10*time.Millisecond, 700*time.Millisecond)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		r.start()
	},
	refusals: []string{nobodyListens, noAnswer},
}

// stopKind stops the ledger with a thousand calls in flight beside the load. Each
// gets a receipt, a refusal that says why, or finds that nobody listens.
var stopKind = kind{
	name: "stop",
	says: "SIGTERM with 1,000 calls in flight",
	inject: func(r *round) {
		p := r.p
		var wg sync.WaitGroup
		for i := range 1000 {
			name := fmt.Sprintf("%s-stop-%d", r.name, i)
			wg.Go(func() { r.send(p, "/v1/attempts", name, beginBody(name)) })
		}
		r.sleep(0, 150*time.Millisecond)
		p.stop()
		wg.Wait()
	},
	recover:  (*round).start,
	refusals: []string{"503 stopping", nobodyListens, noAnswer},
}

var frozenKind = kind{
	name: "frozen",
	says: "SIGSTOP for up to 6 s, then SIGCONT",
	inject: func(r *round) {
		signal(r, syscall.SIGSTOP)
		r.sleep(200*time.Millisecond, r.atMost(6*time.Second))
		signal(r, syscall.SIGCONT)
		r.grown(50)
	},
}

func signal(r *round, s syscall.Signal) {
	r.t.Helper()
	if err := r.p.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// twiceKind starts a second ledger on the directory of the first.
var twiceKind = kind{
	name: "two processes",
	says: "a second and a third ledger, and a rebuild of the views, on the directory of a running one",
	inject: func(r *round) {
		for range 2 {
			if _, err := startErr(r.t, r.era.dir, r.era.args...); err == nil || !strings.Contains(err.Error(), "in use") {
				r.t.Errorf("a second process: %v, want a refusal that says that the directory is in use", err)
			}
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
		defer cancel()
		if out, err := exec.CommandContext(ctx, binary, "rebuild", "--data", r.era.dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "in use") {
			r.t.Errorf("a rebuild beside it: %v %s, want a refusal", err, out)
		}
		r.grown(20)
	},
}
