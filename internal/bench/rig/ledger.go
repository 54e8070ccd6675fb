package rig

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

	"counterfoil/internal/wait"
)

// Ledger is a ledger in a process of its own.
type Ledger struct {
	Dir string

	cmd    *exec.Cmd
	url    string
	token  string
	client *http.Client
}

// Serve starts a ledger on a directory and returns when it answers. Its
// processor profile, if one is wanted, has the section's name.
func (r *Rig) Serve(ctx context.Context, dir string, flags ...string) (*Ledger, error) {
	return r.serve(ctx, dir, os.Stderr, flags...)
}

func (r *Rig) serve(ctx context.Context, dir string, log *os.File, flags ...string) (*Ledger, error) {
	args := []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--log-level", "warn"}
	if name := r.profile("server"); name != "" {
		args = append(args, "--cpuprofile", name)
	}
	cmd := exec.CommandContext(ctx, r.Bin, append(args, flags...)...)
	cmd.Stderr = log
	url, err := Listening(cmd)
	if err != nil {
		return nil, err
	}
	l := &Ledger{Dir: dir, cmd: cmd}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		_ = l.Stop()
		return nil, err
	}
	l.url, l.token = url, strings.TrimSpace(string(token))
	l.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2048, DisableCompression: true}}
	return l, nil
}

// Stop stops it in good order.
func (l *Ledger) Stop() error {
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
	_ = l.cmd.Process.Signal(syscall.SIGTERM)
	return l.cmd.Wait()
}

// Pid is the process.
func (l *Ledger) Pid() int { return l.cmd.Process.Pid }

// Post sends a body and demands a status.
func (l *Ledger) Post(ctx context.Context, path string, body []byte, status int) ([]byte, error) {
	return l.do(ctx, http.MethodPost, path, bytes.NewReader(body), status)
}

// Begin records the begin of an attempt; that it was recorded before is no error.
func (l *Ledger) Begin(ctx context.Context, body []byte) error {
	res, err := l.send(ctx, http.MethodPost, "/v1/attempts", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("begin: status %d: %.300s", res.StatusCode, b)
	}
	return err
}

// Get demands status 200.
func (l *Ledger) Get(ctx context.Context, path string) ([]byte, error) {
	return l.do(ctx, http.MethodGet, path, nil, http.StatusOK)
}

func (l *Ledger) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	return l.client.Do(req)
}

func (l *Ledger) do(ctx context.Context, method, path string, body io.Reader, status int) ([]byte, error) {
	res, err := l.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != status {
		err = fmt.Errorf("%s %s: status %d: %.300s", method, path, res.StatusCode, b)
	}
	return b, err
}

// FirstEvent is the event of a published leaf as a follower of the log gets it.
func (l *Ledger) FirstEvent(ctx context.Context, index int) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx) // the rest of the log is not read
	defer cancel()
	res, err := l.send(ctx, http.MethodGet, "/v1/events?follow=false&from="+strconv.Itoa(index), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("event of leaf %d: status %d: %w", index, res.StatusCode, err)
	}
	return line, nil
}

// Status is what a ledger says of itself.
type Status struct {
	StreamLast    uint64 `json:"streamLast"`
	PublishedSize uint64 `json:"publishedSize"`
	ViewSize      uint64 `json:"viewSize"`
}

// Status asks for it.
func (l *Ledger) Status(ctx context.Context) (st Status, err error) {
	b, err := l.Get(ctx, "/v1/status")
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(b, &st)
}

// settlePoll is how exactly the end of the work of views is seen.
const settlePoll = 5 * time.Millisecond

// Settle waits until the views reflect the whole stream.
func (l *Ledger) Settle(ctx context.Context) error {
	for {
		st, err := l.Status(ctx)
		if err != nil || st.ViewSize >= st.StreamLast {
			return err
		}
		if err := wait.For(ctx, settlePoll); err != nil {
			return err
		}
	}
}
