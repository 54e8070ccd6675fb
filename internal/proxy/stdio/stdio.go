// Package stdio stands between a client and a server that speak MCP over
// standard input and output: it starts the server, and passes lines on in both
// directions, as they were received and in their order.
//
// A call waits for its evidence, and what the client sent after it waits with
// it: nothing overtakes. Calls that wait together are recorded together. Nothing
// but what the server wrote, and refusals, goes to the client's stream.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"counterfoil/internal/proxy/traffic"
)

// Config says what to stand between.
type Config struct {
	// Command is the server: a program and its arguments.
	Command []string
	// Stdin and Stdout are the client's ends; Stderr is the server's own.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Signals are passed on to the server.
	Signals <-chan os.Signal
	Conn    *traffic.Conn
	// MaxLine bounds a line in bytes; default DefaultMaxLine.
	MaxLine int
	// Async passes answers on without waiting for their outcomes.
	Async bool
	Log   *slog.Logger
}

const (
	// afterExit bounds how long output is read after the server has ended:
	// processes that it started may hold the stream open.
	afterExit = 2 * time.Second
	// untilTerm and untilKill bound how long a server may go on without its
	// client.
	untilTerm = 5 * time.Second
	untilKill = 5 * time.Second
)

// Run starts the server and returns its exit code when it has ended, 128 and the
// number of the signal if one ended it. Evidence that still waits for the ledger
// is left to the recorder.
func Run(ctx context.Context, cfg Config) (code int, err error) {
	if cfg.MaxLine == 0 {
		cfg.MaxLine = DefaultMaxLine
	}
	p, err := start(cfg)
	if err != nil {
		return 0, err
	}
	return p.run(ctx)
}

// process is one run.
type process struct {
	cfg        Config
	cmd        *exec.Cmd
	in         *os.File // to the server
	out        *os.File // from the server
	fromClient *queue
	fromServer *queue
	exited     chan struct{}

	write sync.Mutex // of Stdout: one line at a time

	mu    sync.Mutex
	fault error // why the proxy itself ended the session
}

func start(cfg Config) (*process, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), inR.Close(), inW.Close())
	}
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, cfg.Stderr
	cmd.WaitDelay = afterExit // of Stderr, if it is no file
	err = cmd.Start()
	_, _ = inR.Close(), outW.Close() // the server has its own
	if err != nil {
		_, _ = inW.Close(), outR.Close()
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return &process{cfg: cfg, cmd: cmd, in: inW, out: outR, exited: make(chan struct{}),
		fromClient: newQueue(cfg.MaxLine), fromServer: newQueue(cfg.MaxLine)}, nil
}

func (p *process) run(ctx context.Context) (int, error) {
	deciding, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // it may wait for the client for ever, also when all is over
		if err := readLines(p.cfg.Stdin, p.cfg.MaxLine, p.fromClient); err != nil {
			p.blame(fmt.Errorf("read from the client: %w", err))
			go p.urge() // what came before it is still passed on
		}
		p.fromClient.close()
	}()
	var toServer, toClient sync.WaitGroup
	toServer.Go(func() { p.passToServer(deciding) })
	toClient.Go(func() {
		if err := readLines(p.out, p.cfg.MaxLine, p.fromServer); err != nil && !errors.Is(err, os.ErrClosed) {
			p.fail(fmt.Errorf("read from the server: %w", err))
		}
		p.fromServer.close()
	})
	toClient.Go(p.passToClient)
	var signals sync.WaitGroup
	signals.Go(func() { p.passSignals(ctx) })

	err := p.cmd.Wait()
	close(p.exited)
	// What waits to be sent never will be.
	cancel()
	p.fromClient.abort()
	_ = p.in.Close()
	toServer.Wait()
	late := time.AfterFunc(afterExit, func() { _ = p.out.Close() })
	toClient.Wait()
	late.Stop()
	_ = p.out.Close()
	signals.Wait()
	p.cfg.Conn.End(p.reason())
	return p.result(err)
}

// reason is why calls have no answer.
func (p *process) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		return "connection_lost"
	}
	return "server_exited"
}

func (p *process) result(err error) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		return 0, p.fault
	}
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return p.cmd.ProcessState.ExitCode(), nil
	case errors.As(err, &exit):
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return 128 + int(s.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, fmt.Errorf("wait for the server: %w", err)
}

// blame remembers why the proxy itself ends the session.
func (p *process) blame(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == nil {
		p.fault = err
	}
}

// fail lets go of a server that cannot be followed any more, or whose client is
// gone: it sees the end of its input and nobody who reads its output, as without
// the proxy.
func (p *process) fail(err error) {
	p.blame(err)
	p.fromClient.abort()
	p.fromServer.abort()
	_, _ = p.in.Close(), p.out.Close()
	go p.urge()
}

// urge tells the server to end if it does not by itself.
func (p *process) urge() {
	if p.gone(untilTerm) {
		return
	}
	p.signal(syscall.SIGTERM)
	if !p.gone(untilKill) {
		p.signal(os.Kill)
	}
}

// gone waits for the server's end, for a time.
func (p *process) gone(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

func (p *process) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.cfg.Log.Warn("a signal did not reach the server", "signal", s.String(), "error", err.Error())
	}
}

// passSignals passes signals on to the server. A context that ends asks it to
// terminate.
func (p *process) passSignals(ctx context.Context) {
	done := ctx.Done()
	for {
		select {
		case s, ok := <-p.cfg.Signals:
			if !ok {
				p.cfg.Signals = nil
				continue
			}
			p.signal(s)
		case <-done:
			done = nil
			p.signal(syscall.SIGTERM)
		case <-p.exited:
			return
		}
	}
}
