package faults

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	osignal "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"counterfoil/internal/app"
)

// clockVar says to the test binary that it is a ledger whose clock is off by what
// a file says: the machine's own clock belongs to others.
const clockVar = "COUNTERFOIL_FAULTS_CLOCK"

// clockChild runs that ledger and never returns, if this process is one.
func clockChild() {
	spec := os.Getenv(clockVar)
	if spec == "" {
		return
	}
	file, rest, _ := strings.Cut(spec, "\n")
	dir, nats, _ := strings.Cut(rest, "\n")
	ctx, stop := osignal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := app.Serve(ctx, app.Config{
		Dir: dir, NATS: nats, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)), Random: rand.Reader,
		Now: func() time.Time {
			b, _ := os.ReadFile(file) // none: no offset
			offset, _ := time.ParseDuration(string(b))
			return time.Now().Add(offset)
		},
	}, func(ready app.Ready) error { return json.NewEncoder(os.Stdout).Encode(ready) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// clockKind turns the clock of a ledger back and forth while it runs, and starts
// it again with a clock that is off. Order, receipts and checkpoints do not care.
var clockKind = kind{
	name: "clock",
	says: "the ledger's clock jumps by up to a year, back and forth, and over a restart",
	prepare: func(r *round) {
		r.p.stop()
		r.startClocked(0)
	},
	inject: func(r *round) {
		for range 4 {
			r.setClock(r.jump())
			r.grown(30)
		}
	},
	recover: func(r *round) {
		r.p.stop()
		r.startClocked(r.jump())
		if _, ok := r.send(r.p, "/v1/attempts", r.name+"-clock", beginBody(r.name+"-clock")); !ok {
			r.t.Errorf("refused under a clock that is off: %v", r.refused)
		}
		r.p.stop()
		r.start()
	},
}

func (r *round) jump() time.Duration {
	steps := []time.Duration{5 * time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}
	return []time.Duration{-1, 1}[r.rng.IntN(2)] * steps[r.rng.IntN(len(steps))]
}

func (r *round) clockFile() string { return filepath.Join(r.era.volume.dir, "clock") }

func (r *round) setClock(offset time.Duration) {
	r.t.Helper()
	tmp := r.clockFile() + ".new"
	if err := os.WriteFile(tmp, []byte(offset.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(tmp, r.clockFile()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *round) startClocked(offset time.Duration) {
	r.t.Helper()
	r.setClock(offset)
	nats := ""
	if r.era.nats != nil {
		nats = r.era.nats.URL
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clockVar+"="+strings.Join([]string{r.clockFile(), r.era.dir, nats}, "\n"))
	p, err := startCommand(r.t, r.era.dir, cmd)
	if err != nil {
		r.t.Fatal(err)
	}
	r.p = p
}
