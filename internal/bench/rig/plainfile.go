package rig

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
)

// EventBytes is the size of an event of a system other than the ledger.
const EventBytes = 700

// PlainFile appends events to one file from many writers with group commit:
// whoever finds no flush under way writes and flushes for all that wait. It is
// the least that a durable record costs on this disk.
var PlainFile = System{Name: "plain file with group commit", Open: openPlainFile}

type plainFile struct {
	f       *os.File
	event   []byte
	answers []chan error // by client
	kick    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	buf     []byte
	waiting []chan error
}

func openPlainFile(_ context.Context, dir string, clients int) (Recorder, error) {
	f, err := os.Create(filepath.Join(dir, "events"))
	if err != nil {
		return nil, err
	}
	p := &plainFile{f: f, event: append(bytes.Repeat([]byte("x"), EventBytes-1), '\n'), kick: make(chan struct{}, 1), done: make(chan struct{})}
	for range clients {
		p.answers = append(p.answers, make(chan error, 1))
	}
	go p.flush()
	return p, nil
}

func (p *plainFile) flush() {
	defer close(p.done)
	for range p.kick {
		p.mu.Lock()
		b, w := p.buf, p.waiting
		p.buf, p.waiting = nil, nil
		p.mu.Unlock()
		_, err := p.f.Write(b)
		if err == nil {
			err = p.f.Sync()
		}
		for _, c := range w {
			c <- err
		}
	}
}

func (p *plainFile) Record(_ context.Context, client int) (int, error) {
	p.mu.Lock()
	p.buf = append(p.buf, p.event...)
	p.waiting = append(p.waiting, p.answers[client])
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
	return 1, <-p.answers[client]
}

func (p *plainFile) Settle(context.Context) error { return nil }

func (p *plainFile) Close() error {
	close(p.kick)
	<-p.done
	return p.f.Close()
}
