package tlog

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"counterfoil/internal/durable"

	"golang.org/x/mod/sumdb/note"
)

var errDisk = errors.New("no space left on device")

// fault is what a durable step does instead of succeeding.
type fault int

const (
	works         fault = iota
	failedNotKept       // nothing changed, an error returned
	failedButKept       // everything changed, an error returned
)

// faultyFiles lets the next write of a file with one name fail.
type faultyFiles struct {
	name string
	next fault
	done int // writes of that name that took effect
}

func (f *faultyFiles) files() *files {
	return &files{write: f.wrap(durable.WriteFile), create: f.wrap(durable.Create)}
}

func (f *faultyFiles) wrap(op func(string, []byte, fs.FileMode) error) func(string, []byte, fs.FileMode) error {
	return func(path string, data []byte, perm fs.FileMode) error {
		if filepath.Base(path) != f.name {
			return op(path, data, perm)
		}
		do := f.next
		f.next = works
		if do == failedNotKept {
			return errDisk
		}
		if err := op(path, data, perm); err != nil {
			return err
		}
		f.done++
		if do == failedButKept {
			return errDisk
		}
		return nil
	}
}

// faultyEngine is Tessera with a wrong turn before or after its batches.
type faultyEngine struct {
	engine
	// before may change the leaves that reach Tessera, or end the batch there.
	before func(leaves [][]byte) (through [][]byte, err error)
	// after may change the answer.
	after func(indexes []uint64, err error) ([]uint64, error)
}

func (e *faultyEngine) append(leaves [][]byte) ([]uint64, error) {
	if e.before != nil {
		var err error
		if leaves, err = e.before(leaves); err != nil {
			return nil, err
		}
	}
	indexes, err := e.engine.append(leaves)
	if e.after != nil {
		return e.after(indexes, err)
	}
	return indexes, err
}

// faulty makes the next open use e.
func (b *bench) faulty(e *faultyEngine) {
	b.cfg.engine = func(cfg *Config) (engine, error) {
		real, err := newTessera(cfg)
		e.engine = real
		return e, err
	}
}

// watchedSigner is a signer whose every signature a test sees first.
type watchedSigner struct {
	note.Signer
	mu   sync.Mutex
	see  func(text string) error
	last func(sig []byte) []byte
	all  []string // texts signed
}

func (s *watchedSigner) Sign(msg []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.see != nil {
		if err := s.see(string(msg)); err != nil {
			return nil, err
		}
	}
	s.all = append(s.all, string(msg))
	sig, err := s.Signer.Sign(msg)
	if s.last != nil {
		sig = s.last(sig)
	}
	return sig, err
}

func (b *bench) watch() *watchedSigner {
	s := &watchedSigner{Signer: b.cfg.Signer}
	b.cfg.Signer = s
	return s
}
