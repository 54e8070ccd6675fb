package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// plainFile appends 700-byte events to one file from many writers with group
// commit: whoever finds no flush under way writes and flushes for all that
// wait. It is the least that a durable record costs on this disk.
func plainFile(ctx context.Context, dir string, writers int, length time.Duration) (perSecond float64, err error) {
	f, err := os.CreateTemp(dir, "plain-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(filepath.Join(dir, filepath.Base(f.Name())))
	defer f.Close()
	var (
		mu      sync.Mutex
		buf     []byte
		waiting []chan error
		kick    = make(chan struct{}, 1)
		done    = make(chan struct{})
		count   atomic.Int64
	)
	go func() {
		defer close(done)
		for range kick {
			mu.Lock()
			b, w := buf, waiting
			buf, waiting = nil, nil
			mu.Unlock()
			_, err := f.Write(b)
			if err == nil {
				err = f.Sync()
			}
			for _, c := range w {
				c <- err
			}
		}
	}()
	event := append(bytes.Repeat([]byte("x"), 699), '\n')
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	start := time.Now()
	for range writers {
		wg.Go(func() {
			c := make(chan error, 1)
			for ctx.Err() == nil {
				mu.Lock()
				buf = append(buf, event...)
				waiting = append(waiting, c)
				mu.Unlock()
				select {
				case kick <- struct{}{}:
				default:
				}
				if <-c != nil {
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	close(kick)
	<-done
	return float64(count.Load()) / elapsed.Seconds(), nil
}
