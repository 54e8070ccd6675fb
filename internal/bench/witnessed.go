package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
func (b *bench) witnessed(ctx context.Context, r *report) error {
	s := r.section("Time to a witnessed receipt", "Begins offered at a fixed rate, each with `wait=witnessed`, on a ledger with two witnesses on the same machine, both asked for by the quorum, "+
		"each a `counterfoil-witness` with its state on the same disk. The clock starts when a call was due, so the time to the acknowledgement is part of it.")
	srv, stop, err := b.serveWitnessed(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, rate := range []int{100, 1000} {
		for range b.rounds {
			lat, done, err := offered(ctx, srv, rate, b.length, "witnessed")
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%d/s offered", rate)
			s.series(name+", p50", "ms").add(ms(quantile(lat, 0.5)))
			s.series(name+", p99", "ms").add(ms(quantile(lat, 0.99)))
			s.series(name+", answered", "events/s").add(done)
		}
	}
	return nil
}

// serveWitnessed runs a ledger and two witnesses that know it.
func (b *bench) serveWitnessed(ctx context.Context) (_ *server, stop func(), err error) {
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
	bin := filepath.Join(b.work, "counterfoil-witness")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/counterfoil-witness").CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("build: %w: %s", err, out)
	}
	dir := b.newDir()
	first, err := b.serve(ctx, dir) // the log has its key after its first start
	if err != nil {
		return nil, nil, err
	}
	code, body, err := first.get("/v1/trust")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("status %d", code)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := first.stop(); err != nil {
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
	logs := filepath.Join(b.work, "logs.txt")
	if err := os.WriteFile(logs, fmt.Appendf(nil, "logs/v0\nvkey %s\nqpd 1000000000\ncontact bench\n", trust.Log.VKey), 0o600); err != nil {
		return nil, nil, err
	}
	policy := fmt.Sprintf("log %s\n", trust.Log.VKey)
	for _, name := range []string{"a", "b"} {
		w, vkey, err := b.runWitness(ctx, bin, name, logs)
		if err != nil {
			return nil, nil, err
		}
		stops = append(stops, w.stop)
		policy += fmt.Sprintf("witness %s %s %s\n", name, vkey, w.url)
	}
	file := filepath.Join(b.work, "witnesses.policy")
	if err := os.WriteFile(file, []byte(policy+"group both all a b\nquorum both\n"), 0o600); err != nil {
		return nil, nil, err
	}
	srv, err := b.serve(ctx, dir, "--witness-policy", file, "--log-level", "warn")
	if err != nil {
		return nil, nil, err
	}
	stops = append(stops, srv.stop)
	return srv, stop, nil
}

func (b *bench) runWitness(ctx context.Context, bin, name, logs string) (*witnessProcess, string, error) {
	key := filepath.Join(b.work, "witness-"+name+".key")
	vkey, err := exec.CommandContext(ctx, bin, "keygen", "--name", "bench.example/"+name, "--key-file", key).Output()
	if err != nil {
		return nil, "", fmt.Errorf("keygen: %w", err)
	}
	cmd := exec.CommandContext(ctx, bin, "serve", "--key-file", key, "--state", filepath.Join(b.work, "witness-"+name), "--logs", logs, "--listen", "127.0.0.1:0", "--log-level", "warn")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	var ready struct {
		Listening string `json:"listening"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the witness ended before it was ready: %w", err)
	}
	return &witnessProcess{cmd, ready.Listening}, strings.TrimSpace(string(vkey)), nil
}
