package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	witnessLogs = 64
	// witnessSteps is how often a log can grow in one measurement; the requests
	// are made before it.
	witnessSteps = 800
	omniwitness  = "github.com/transparency-dev/witness/cmd/omniwitness"
)

// witness: 64 logs grow by a leaf a request, each from one client that waits for
// the cosignature. Ours and the omniwitness get the same requests in turn, each
// with an empty state.
func witness(ctx context.Context, r *rig.Rig) (*report.Section, error) {
	s := &report.Section{Title: report.TitleWitness, Text: fmt.Sprintf("Durable updates of %d logs, each growing by one leaf a request from one client on a keep-alive connection. "+
		"The omniwitness of transparency-dev (SQLite, every commit flushed) gets the same requests in the same rounds, as it comes and with one database connection; "+
		"what it refuses with 429 is sent again and not counted.", witnessLogs)}
	theirs := filepath.Join(r.Work, "omniwitness")
	ours, err := r.Build(ctx, "./cmd/counterfoil-witness")
	if err != nil {
		return nil, err
	}
	others := []struct{ name, conns string }{{"omniwitness", "1000"}, {"omniwitness, one connection", "1"}}
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(r.Root, "internal", "interop"), "-o", theirs, omniwitness).CombinedOutput(); err != nil {
		// The rest of the report does not need the module proxy either.
		fmt.Fprintf(os.Stderr, "bench: the omniwitness cannot be built here: %v: %s", err, out)
		s.Text += " It could not be built for this report."
		others = nil
	}
	logs, err := newWitnessLogs()
	if err != nil {
		return nil, err
	}
	for range r.Rounds {
		mine, cost, err := witnessRound(ctx, r, logs, func(dir string) (*exec.Cmd, string, error) { return startOurWitness(ctx, ours, dir, logs) })
		if err != nil {
			return nil, fmt.Errorf("our witness: %w", err)
		}
		s.Series("counterfoil-witness", "updates/s").Add(mine)
		s.Series("counterfoil-witness, processor time", "µs/update").Add(cost)
		for _, o := range others {
			other, cost, err := witnessRound(ctx, r, logs, func(dir string) (*exec.Cmd, string, error) {
				return startOmniwitness(ctx, theirs, dir, o.conns, logs)
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.name, err)
			}
			s.Series(o.name, "updates/s").Add(other)
			s.Series(o.name+", processor time", "µs/update").Add(cost)
			s.Series("counterfoil-witness / "+o.name, "ratio").Add(mine / other)
		}
	}
	return s, nil
}

// witnessLog is a log with its requests, in order.
type witnessLog struct {
	origin, vkey string
	requests     [][]byte
}

func newWitnessLogs() ([]witnessLog, error) {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			out[i] = stored[x]
		}
		return out, nil
	})
	out := make([]witnessLog, witnessLogs)
	signers := make([]note.Signer, witnessLogs)
	for i := range out {
		out[i].origin = fmt.Sprintf("bench.example/log/%d", i)
		skey, vkey, err := note.GenerateKey(nil, out[i].origin)
		if err != nil {
			return nil, err
		}
		out[i].vkey = vkey
		if signers[i], err = note.NewSigner(skey); err != nil {
			return nil, err
		}
	}
	for n := int64(0); n < witnessSteps; n++ {
		h, err := tlog.StoredHashes(n, fmt.Append(nil, "leaf ", n), read)
		if err != nil {
			return nil, err
		}
		stored = append(stored, h...)
		head := fmt.Appendf(nil, "old %d\n", n)
		if n > 0 {
			proof, err := tlog.ProveTree(n+1, n, read)
			if err != nil {
				return nil, err
			}
			for _, h := range proof {
				head = append(append(head, h.String()...), '\n')
			}
		}
		root, err := tlog.TreeHash(n+1, read)
		if err != nil {
			return nil, err
		}
		for i := range out {
			signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", out[i].origin, n+1, root)}, signers[i])
			if err != nil {
				return nil, err
			}
			out[i].requests = append(out[i].requests, bytes.Join([][]byte{head, signed}, []byte("\n")))
		}
	}
	return out, nil
}

// witnessRound returns updates a second, and processor time of the witness in
// microseconds an update.
func witnessRound(ctx context.Context, r *rig.Rig, logs []witnessLog, start func(dir string) (*exec.Cmd, string, error)) (rate, cost float64, err error) {
	dir := r.NewDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, 0, err
	}
	cmd, url, err := start(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: witnessLogs, DisableCompression: true}}
	defer client.CloseIdleConnections()
	deadline := time.Now().Add(r.Length)
	var updates atomic.Int64
	errs := make(chan error, len(logs))
	used, began := rig.CPU(cmd.Process.Pid), time.Now()
	var wg sync.WaitGroup
	for _, l := range logs {
		wg.Go(func() {
			for _, body := range l.requests {
				for again := true; again; {
					if time.Now().After(deadline) || ctx.Err() != nil {
						return
					}
					resp, err := client.Post(url+"/add-checkpoint", "text/plain", bytes.NewReader(body))
					if err != nil {
						errs <- err
						return
					}
					answer, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					switch again = resp.StatusCode == http.StatusTooManyRequests; {
					case resp.StatusCode == http.StatusOK:
						updates.Add(1)
					case !again:
						errs <- fmt.Errorf("status %d: %s", resp.StatusCode, answer)
						return
					}
				}
			}
			errs <- fmt.Errorf("all %d requests of a log were used: shorten -seconds", witnessSteps)
		})
	}
	wg.Wait()
	took, used := time.Since(began), rig.CPU(cmd.Process.Pid)-used
	select {
	case err := <-errs:
		return 0, 0, err
	default:
	}
	n := float64(updates.Load())
	return n / took.Seconds(), float64(used.Microseconds()) / n, ctx.Err()
}

func startOurWitness(ctx context.Context, bin, dir string, logs []witnessLog) (*exec.Cmd, string, error) {
	list := "logs/v0\n"
	for _, l := range logs {
		list += fmt.Sprintf("vkey %s\nqpd 1000000000\ncontact nobody\n", l.vkey)
	}
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "logs")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		return nil, "", err
	}
	if out, err := exec.CommandContext(ctx, bin, "keygen", "--name", "bench.example/w", "--key-file", key).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("%w: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, bin, "serve", "--listen", "127.0.0.1:0", "--key-file", key, "--state", filepath.Join(dir, "state"), "--logs", file, "--log-level", "warn")
	cmd.Stderr = os.Stderr
	url, err := rig.Listening(cmd)
	return cmd, url, err
}

func startOmniwitness(ctx context.Context, bin, dir, conns string, logs []witnessLog) (*exec.Cmd, string, error) {
	config := "Logs:\n"
	for _, l := range logs {
		config += fmt.Sprintf("  - Origin: %s\n    URL: http://127.0.0.1/\n    PublicKey: %s\n", l.origin, l.vkey)
	}
	skey, _, err := note.GenerateKey(nil, "bench.example/omni")
	if err != nil {
		return nil, "", err
	}
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "logs.yaml")
	if err := errors.Join(os.WriteFile(key, []byte(skey), 0o600), os.WriteFile(file, []byte(config), 0o600)); err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.CommandContext(ctx, bin, "--listen", addr, "--metrics_listen", "", "--db_file", filepath.Join(dir, "omni.db"), "--db_max_conns", conns,
		"--private_key_path", key, "--additional_logs", file)
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/")
		if err == nil {
			resp.Body.Close()
			return cmd, "http://" + addr, nil
		}
		if time.Now().After(deadline) {
			return nil, "", errors.Join(err, cmd.Process.Kill())
		}
	}
}
