package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// System is something that records events.
type System struct {
	Name string
	// Open makes it ready to record on an empty directory, for this many
	// clients.
	Open func(ctx context.Context, dir string, clients int) (Recorder, error)
}

// Recorder is a system that runs.
type Recorder interface {
	// Record is the Op of the system.
	Record(ctx context.Context, client int) (events int, err error)
	// Settle returns when nothing that was acknowledged is still being worked
	// on: that work is part of the cost.
	Settle(ctx context.Context) error
	Close() error
}

// Measure opens a system on a directory of its own, warms it up, drives it and
// removes what it left. The rate includes Settle.
func (r *Rig) Measure(ctx context.Context, s System, clients int) (_ *Load, err error) {
	dir := r.NewDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	runtime.GC() // what the system before left behind is not this one's work
	rec, err := s.Open(ctx, dir, clients)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	load, err := DriveSettled(ctx, rec, clients, r.Length/8)
	if err == nil {
		load, err = DriveSettled(ctx, rec, clients, r.Length)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %d clients: %w", s.Name, clients, err)
	}
	return load, nil
}

// DriveSettled is Drive until what was acknowledged is settled, too.
func DriveSettled(ctx context.Context, rec Recorder, clients int, length time.Duration) (*Load, error) {
	start := time.Now()
	load, err := Drive(ctx, clients, length, rec.Record)
	if err != nil {
		return nil, err
	}
	if err := rec.Settle(ctx); err != nil {
		return nil, err
	}
	load.Wall = time.Since(start)
	return load, nil
}
