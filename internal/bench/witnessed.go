package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

// witnessProcess is a witness in a process of its own.
type witnessProcess struct {
	cmd *exec.Cmd
	url string
}

func (w *witnessProcess) stop() error {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	return w.cmd.Wait()
}

// witnessed: a fixed offered rate, each call waiting until two witnesses of two
// have cosigned.
func witnessed(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleWitnessed, Text: "Begins offered at a fixed rate, each with `wait=witnessed`, on a ledger with two witnesses on the same machine, both asked for by the quorum, " +
		"each a `counterfoil-witness` with its state on the same disk. The clock starts when a call was due, so the time to the acknowledgement is part of it."}
	l, stop, err := serveWitnessed(ctx, r)
	if err != nil {
		return nil, err
	}
	defer stop()
	for range r.Rounds {
		for _, rate := range []int{100, 1000, 5000} {
			load, err := rig.Offer(ctx, rate, r.Length, begin(l, "witnessed", nil))
			if err != nil {
				return nil, err
			}
			g, row := s.Grid("offered"), report.Count(rate)+" events/s"
			g.Add(row, "p50, ms", rig.MS(rig.Quantile(load.Answers, 0.5)))
			g.Add(row, "p99, ms", rig.MS(rig.Quantile(load.Answers, 0.99)))
			g.Add(row, "answered, events/s", load.Rate())
		}
	}
	return s, nil
}

// serveWitnessed runs a ledger and two witnesses that know it.
func serveWitnessed(ctx context.Context, r *rig.Rig) (_ *rig.Ledger, stop func(), err error) {
	var stops []func() error
	stop = func() {
		for i := len(stops) - 1; i >= 0; i-- {
			_ = stops[i]() // what was measured is known
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	bin, err := r.Build(ctx, "./cmd/counterfoil-witness")
	if err != nil {
		return nil, nil, err
	}
	dir := r.NewDir()
	first, err := r.Serve(ctx, dir) // the log has its key after its first start
	if err != nil {
		return nil, nil, err
	}
	body, err := first.Get(ctx, "/v1/trust")
	if err := errors.Join(err, first.Stop()); err != nil {
		return nil, nil, err
	}
	var trust struct {
		Log struct {
			VKey string `json:"vkey"`
		} `json:"log"`
	}
	if err := json.Unmarshal(body, &trust); err != nil {
		return nil, nil, err
	}
	logs := filepath.Join(r.Work, "logs.txt")
	if err := os.WriteFile(logs, fmt.Appendf(nil, "logs/v0\nvkey %s\nqpd 1000000000\ncontact bench\n", trust.Log.VKey), 0o600); err != nil {
		return nil, nil, err
	}
	policy := fmt.Sprintf("log %s\n", trust.Log.VKey)
	for _, name := range []string{"a", "b"} {
		w, vkey, err := runWitness(ctx, r, bin, name, logs)
		if err != nil {
			return nil, nil, err
		}
		stops = append(stops, w.stop)
		policy += fmt.Sprintf("witness %s %s %s\n", name, vkey, w.url)
	}
	file := filepath.Join(r.Work, "witnesses.policy")
	if err := os.WriteFile(file, []byte(policy+"group both all a b\nquorum both\n"), 0o600); err != nil {
		return nil, nil, err
	}
	srv, err := r.Serve(ctx, dir, "--witness-policy", file)
	if err != nil {
		return nil, nil, err
	}
	stops = append(stops, srv.Stop)
	return srv, stop, nil
}

func runWitness(ctx context.Context, r *rig.Rig, bin, name, logs string) (*witnessProcess, string, error) {
	key := filepath.Join(r.Work, "witness-"+name+".key")
	vkey, err := exec.CommandContext(ctx, bin, "keygen", "--name", "bench.example/"+name, "--key-file", key).Output()
	if err != nil {
		return nil, "", fmt.Errorf("keygen: %w", err)
	}
	cmd := exec.CommandContext(ctx, bin, "serve", "--key-file", key, "--state", filepath.Join(r.Work, "witness-"+name), "--logs", logs, "--listen", "127.0.0.1:0", "--log-level", "warn")
	cmd.Stderr = os.Stderr
	url, err := rig.Listening(cmd)
	if err != nil {
		return nil, "", err
	}
	return &witnessProcess{cmd, url}, strings.TrimSpace(string(vkey)), nil
}
