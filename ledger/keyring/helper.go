package keyring

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/program"
	"counterfoil/ledger/event"
)

// HelperProfile is how a helper signs: Ed25519ph (RFC 8032) over a SHA-512
// digest, with an empty context.
const HelperProfile = "ed25519ph-sha512"

// HelperSchema names the protocol between ledger and helper.
const HelperSchema = "counterfoil.signer.v1"

// ErrSigner: an external signer did not sign. Nothing was signed as far as the
// caller is concerned.
var ErrSigner = errors.New("the external signer does not sign")

// HelperConfig describes a helper program that holds the event key: the way to a
// key service or to hardware (ATT-32 to ATT-35).
type HelperConfig struct {
	// Path is the program; see [program.Check] (ATT-34).
	Path string
	// Env is the whole environment of the program, NAME=value.
	Env []string
	// Limit bounds one signature, and the start. Required.
	Limit time.Duration
	// InFlight bounds the signatures that wait at once. Required.
	InFlight int
	Logger   *slog.Logger
}

// Helper is an [event.PrehashKeyID] signer in another process. The program is
// started once and asked for many signatures at a time. It gets digests, never an
// event (ATT-32). Lines of JSON go both ways, in any order:
//
//	→ {"schema":"counterfoil.signer.v1"}
//	← {"schema":"counterfoil.signer.v1","profile":"ed25519ph-sha512","publicKey":"<base64>"}
//	→ {"id":7,"profile":"ed25519ph-sha512","digest":"<base64 of 64 bytes>"}
//	← {"id":7,"signature":"<base64 of 64 bytes>"}   or   {"id":7,"error":"<why not>"}
//
// It ends when its standard input is closed. What it writes to standard error
// goes to the ledger's log. A program that ends, breaks the protocol or answers
// nothing within the limit is killed and started anew for the next signature; what
// waited fails with [ErrSigner]. A Helper is safe for concurrent use.
type Helper struct {
	cfg   HelperConfig
	slots chan struct{}
	pub   ed25519.PublicKey // of the first start; every later one must have it

	lock  chan struct{} // over what follows; waiting for it ends with a limit
	proc  *helperProcess
	ended bool
}

// StartHelper starts the program and learns its public key.
func StartHelper(ctx context.Context, cfg HelperConfig) (*Helper, error) {
	if err := program.Check(cfg.Path); err != nil {
		return nil, fmt.Errorf("external signer: %w", err)
	}
	h := &Helper{cfg: cfg, slots: make(chan struct{}, cfg.InFlight), lock: make(chan struct{}, 1)}
	p, err := startHelper(ctx, &h.cfg)
	if err != nil {
		return nil, err
	}
	h.proc, h.pub = p, p.pub
	return h, nil
}

// KeyID is the id of the program's key.
func (h *Helper) KeyID() string { return event.PrehashKeyID(h.pub) }

// Public is the program's public key.
func (h *Helper) Public() ed25519.PublicKey { return h.pub }

// Sign asks the program for a signature, within the limit of the configuration.
// It verifies nothing: see [Verified].
func (h *Helper) Sign(pae []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), h.cfg.Limit, fmt.Errorf("%w: no signature within %s", ErrSigner, h.cfg.Limit))
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p, err := h.process(ctx)
	if err != nil {
		return nil, err
	}
	digest := event.Prehash(pae)
	return p.sign(ctx, digest[:])
}

// process returns the running program, or starts it anew.
func (h *Helper) process(ctx context.Context) (*helperProcess, error) {
	select {
	case h.lock <- struct{}{}:
		defer func() { <-h.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h.ended {
		return nil, fmt.Errorf("%w: it was closed", ErrSigner)
	}
	if !h.proc.dead() {
		return h.proc, nil
	}
	p, err := startHelper(ctx, &h.cfg)
	if err != nil {
		return nil, err
	}
	if !p.pub.Equal(h.pub) {
		p.end(errors.New("another key"))
		return nil, fmt.Errorf("%w: %w: started anew it has key %s, expected %s", ErrSigner, ErrMismatch, event.PrehashKeyID(p.pub), h.KeyID())
	}
	h.cfg.Logger.Warn("the external signer was started anew", "reason", h.proc.cause())
	h.proc = p
	return p, nil
}

// Close ends the program.
func (h *Helper) Close() error {
	h.lock <- struct{}{}
	defer func() { <-h.lock }()
	h.ended = true
	h.proc.end(errors.New("closed"))
	<-h.proc.gone
	return nil
}

// maxHelperLine bounds one line of a helper.
const maxHelperLine = 4 << 10

// helperProcess is one run of the program.
type helperProcess struct {
	cmd *exec.Cmd
	pub ed25519.PublicKey

	out  sync.Mutex // one line at a time
	in   io.WriteCloser
	gone chan struct{} // closed when nothing more comes

	mu       sync.Mutex
	next     uint64
	waiting  map[uint64]chan helperAnswer
	answered uint64
	why      error // set once
}

type helperHello struct {
	Schema    string `json:"schema"`
	Profile   string `json:"profile,omitzero"`
	PublicKey string `json:"publicKey,omitzero"`
}

type helperRequest struct {
	ID      uint64 `json:"id"`
	Profile string `json:"profile"`
	Digest  []byte `json:"digest"`
}

type helperAnswer struct {
	ID        uint64 `json:"id"`
	Signature string `json:"signature,omitzero"`
	Error     string `json:"error,omitzero"`
}

// startHelper runs the program until it said which key it has.
func startHelper(ctx context.Context, cfg *HelperConfig) (*helperProcess, error) {
	fail := func(err error) error { return fmt.Errorf("%w: start %s: %w", ErrSigner, cfg.Path, err) }
	p := &helperProcess{cmd: exec.Command(cfg.Path), gone: make(chan struct{}), waiting: map[uint64]chan helperAnswer{}}
	p.cmd.Env = append([]string{}, cfg.Env...)
	p.cmd.Dir = "/"
	p.cmd.Stderr = &logLines{log: cfg.Logger}
	p.cmd.WaitDelay = time.Second
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fail(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fail(err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fail(err)
	}
	p.in = in
	hello := make(chan helperHello, 1)
	go p.read(bufio.NewReaderSize(out, maxHelperLine), hello)
	limit := time.NewTimer(cfg.Limit)
	defer limit.Stop()
	go func() { _ = p.send(helperHello{Schema: HelperSchema}) }() // a program that never reads is found by the limit
	select {
	case got := <-hello:
		pub, err := base64.StdEncoding.Strict().DecodeString(got.PublicKey)
		if got.Schema != HelperSchema || got.Profile != HelperProfile || err != nil || len(pub) != ed25519.PublicKeySize {
			p.end(errors.New("bad first line"))
			return nil, fail(fmt.Errorf("its first line has schema %.40q, profile %.40q and a key of %d bytes, expected %q, %q and %d", got.Schema, got.Profile, len(pub), HelperSchema, HelperProfile, ed25519.PublicKeySize))
		}
		p.pub = pub
		return p, nil
	case <-p.gone:
		return nil, fail(p.cause())
	case <-limit.C:
		p.end(errors.New("late"))
		return nil, fail(fmt.Errorf("it did not name its key within %s", cfg.Limit))
	case <-ctx.Done():
		p.end(errors.New("given up"))
		return nil, fail(context.Cause(ctx))
	}
}

func (p *helperProcess) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.out.Lock()
	defer p.out.Unlock()
	_, err = p.in.Write(append(line, '\n'))
	return err
}

// read takes lines until the program ends or breaks the protocol.
func (p *helperProcess) read(out *bufio.Reader, hello chan<- helperHello) {
	why := p.lines(out, hello)
	p.end(why)
	err := p.cmd.Wait()
	p.mu.Lock()
	if err != nil && errors.Is(p.why, io.EOF) {
		p.why = fmt.Errorf("it ended: %w", err)
	}
	p.mu.Unlock()
	close(p.gone)
}

func (p *helperProcess) lines(out *bufio.Reader, hello chan<- helperHello) error {
	for first := true; ; first = false {
		line, err := out.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				return fmt.Errorf("it wrote a line of over %d bytes", maxHelperLine)
			}
			return fmt.Errorf("it closed its standard output: %w", err)
		}
		if first {
			var h helperHello
			if err := json.Unmarshal(line, &h, json.RejectUnknownMembers(true)); err != nil {
				return fmt.Errorf("its first line: %w", err)
			}
			hello <- h
			continue
		}
		var a helperAnswer
		if err := json.Unmarshal(line, &a, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("it wrote what is no answer: %w", err)
		}
		p.mu.Lock()
		w := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.answered++
		p.mu.Unlock()
		if w != nil { // one that is late is nobody's any more
			w <- a
		}
	}
}

func (p *helperProcess) sign(ctx context.Context, digest []byte) ([]byte, error) {
	answer := make(chan helperAnswer, 1)
	p.mu.Lock()
	p.next++
	id, before := p.next, p.answered
	p.waiting[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
	}()
	sent := make(chan error, 1)
	go func() { sent <- p.send(helperRequest{ID: id, Profile: HelperProfile, Digest: digest}) }()
	for {
		select {
		case err := <-sent:
			if err != nil {
				p.end(fmt.Errorf("write to it: %w", err))
			}
			sent = nil
		case a := <-answer:
			if a.Error != "" || a.Signature == "" {
				return nil, fmt.Errorf("%w: it refused: %.200q", ErrSigner, a.Error)
			}
			sig, err := base64.StdEncoding.Strict().DecodeString(a.Signature)
			if err != nil {
				return nil, fmt.Errorf("%w: its signature is not base64: %w", ErrSigner, err)
			}
			return sig, nil
		case <-p.gone:
			return nil, fmt.Errorf("%w: %w", ErrSigner, p.cause())
		case <-ctx.Done():
			p.mu.Lock()
			hangs := p.answered == before
			p.mu.Unlock()
			if hangs { // it answered nobody all the while
				p.end(context.Cause(ctx))
			}
			return nil, context.Cause(ctx)
		}
	}
}

// end kills the program. The first reason stays.
func (p *helperProcess) end(why error) {
	p.mu.Lock()
	if p.why == nil {
		p.why = why
	}
	p.mu.Unlock()
	_ = p.in.Close()
	_ = p.cmd.Process.Kill() // it may have ended by itself
}

func (p *helperProcess) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why != nil
}

func (p *helperProcess) cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// logLines sends what a helper says to the log, bounded by line.
type logLines struct {
	log  *slog.Logger
	line []byte
}

func (l *logLines) Write(b []byte) (int, error) {
	for _, c := range b {
		switch {
		case c == '\n':
			l.log.Warn("the external signer says", "line", string(l.line))
			l.line = l.line[:0]
		case len(l.line) < 512:
			l.line = append(l.line, c)
		}
	}
	return len(b), nil
}
