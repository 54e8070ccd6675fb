package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type bench struct {
	bin, work string
	rounds    int
	length    time.Duration
	dirs      int
}

// server is a ledger in a process of its own.
type server struct {
	cmd    *exec.Cmd
	url    string
	token  string
	dir    string
	client *http.Client
}

func (b *bench) newDir() string {
	b.dirs++
	return filepath.Join(b.work, "data-"+strconv.Itoa(b.dirs))
}

func (b *bench) serve(ctx context.Context, dir string, flags ...string) (*server, error) {
	cmd := exec.CommandContext(ctx, b.bin, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, flags...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the server ended before it was ready: %w", err)
	}
	var ready struct {
		Listening string `json:"listening"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}
	return &server{cmd: cmd, url: ready.Listening, token: strings.TrimSpace(string(token)), dir: dir,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, MaxConnsPerHost: 0, DisableCompression: true}}}, nil
}

func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}

// post sends a body and returns the status and answer.
func (s *server) post(path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	return s.do(req)
}

func (s *server) get(path string) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, nil, err
	}
	return s.do(req)
}

func (s *server) do(req *http.Request) (int, []byte, error) {
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, b, err
}

// settled waits until the views reflect the whole stream, and returns how long
// that took.
func (s *server) settled(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	for {
		var st struct {
			StreamLast uint64 `json:"streamLast"`
			ViewSize   uint64 `json:"viewSize"`
		}
		code, b, err := s.get("/v1/status")
		if err != nil || code != http.StatusOK {
			return 0, fmt.Errorf("status %d: %w", code, err)
		}
		if err := json.Unmarshal(b, &st); err != nil {
			return 0, err
		}
		if st.ViewSize >= st.StreamLast {
			return time.Since(start), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// rss is the resident memory of the server in MiB, without file pages.
func (s *server) rss() float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "RssAnon:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// cpu is the processor time of a process so far; 0 is this one.
func cpu(pid int) time.Duration {
	name := "/proc/self/stat"
	if pid != 0 {
		name = fmt.Sprintf("/proc/%d/stat", pid)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.ParseInt(f[11], 10, 64)
	k, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(u+k) * (time.Second / 100)
}
