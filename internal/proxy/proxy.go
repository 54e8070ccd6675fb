// Package proxy puts evidence beside the traffic between an MCP client and its
// server: one process, one server, one state directory.
//
//	state     who the proxy is, across restarts
//	record    attempts before calls leave, outcomes, gaps, recovery
//	contract  what the server says about its tools
//	gate      whether the ledger lets tools be called under a contract
//	traffic   which messages are calls and answers, and what they become
//	stdio     the wires: lines of a child process
package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"counterfoil/internal/proxy/contract"
	"counterfoil/internal/proxy/gate"
	"counterfoil/internal/proxy/record"
	"counterfoil/internal/proxy/state"
	"counterfoil/internal/proxy/traffic"
)

// Ledger takes evidence and says what contracts allow. *client.Client is one.
type Ledger interface {
	record.Ledger
	gate.Ledger
}

// Config says how to keep evidence.
type Config struct {
	Ledger Ledger
	// State is the state directory. Empty chooses a slot below StateBase.
	State, StateBase string
	// Server names what is proxied, for the choice of the slots: a command
	// line, or a URL. Only its digest is kept.
	Server []string
	// FailOpen, KeepBody and Patience are those of record.Config.
	FailOpen, KeepBody bool
	Patience           time.Duration
	// Contract names the contract under which tools are called; empty asks for
	// none. Grace is that of gate.Config.
	Contract string
	Grace    time.Duration
	// CallTimeout is that of traffic.Config.
	CallTimeout time.Duration
	Random      io.Reader
	Now         func() time.Time
	Log         *slog.Logger
}

// drain bounds how long a stop waits for the ledger.
const drain = 10 * time.Second

// Evidence is what a proxy keeps beside the traffic.
type Evidence struct {
	Traffic *traffic.Config

	cfg      Config
	dir      *state.Dir
	recorder *record.Recorder
	gate     *gate.Gate // nil without a contract
}

// Open locks the state directory and starts recording.
func Open(cfg Config) (*Evidence, error) {
	dir, err := openState(&cfg)
	if err != nil {
		return nil, err
	}
	e := &Evidence{cfg: cfg, dir: dir}
	instance, err := e.Name()
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	e.recorder, err = record.New(record.Config{Ledger: cfg.Ledger, State: dir, Instance: instance, Patience: cfg.Patience,
		FailOpen: cfg.FailOpen, KeepBody: cfg.KeepBody, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	book, err := contract.Open(dir, e.recorder, cfg.Log)
	if err == nil && cfg.Contract != "" {
		e.gate, err = gate.Open(gate.Config{Ledger: cfg.Ledger, State: dir, Contract: cfg.Contract, Grace: cfg.Grace,
			Patience: cmp.Or(cfg.Patience, record.DefaultPatience), FailOpen: cfg.FailOpen, Now: cfg.Now, Log: cfg.Log})
	}
	if err != nil {
		stopped, cancel := context.WithCancel(context.Background())
		cancel()
		e.recorder.Close(stopped)
		return nil, errors.Join(err, dir.Close())
	}
	e.Traffic = &traffic.Config{Recorder: e.recorder, Book: book, Gate: e.gate, CallTimeout: cfg.CallTimeout, Now: cfg.Now, Log: cfg.Log}
	return e, nil
}

func openState(cfg *Config) (*state.Dir, error) {
	if cfg.State != "" {
		return state.Open(cfg.State, cfg.Random)
	}
	h := sha256.New()
	for _, s := range cfg.Server {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return state.OpenSlot(filepath.Join(cfg.StateBase, hex.EncodeToString(h.Sum(nil)[:8])), cfg.Random)
}

// Name is 16 random hex digits, for an instance or a trace.
func (e *Evidence) Name() (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(e.cfg.Random, b[:]); err != nil {
		return "", fmt.Errorf("make a name: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// RuntimeID is the proxy's persistent id.
func (e *Evidence) RuntimeID() string { return e.dir.RuntimeID() }

// Close waits for what still has to be recorded, within bounds, and lets go of
// the state directory. What is not recorded then is found by the next start.
func (e *Evidence) Close() error {
	e.gate.Close()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if lost := e.recorder.Close(ctx); lost > 0 {
		e.cfg.Log.Warn("events are not recorded; the next start of this proxy ends as unknown those attempts that the ledger has; of calls that it never heard of nothing is recorded", "events", lost)
	}
	return e.dir.Close()
}
