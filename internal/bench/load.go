package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var invocation atomic.Int64

func beginBody() []byte {
	n := invocation.Add(1)
	return fmt.Appendf(nil, `{"source":{"runtimeId":"bench","agentId":"agent:bench","invocationId":"call-%d","protocol":"mcp/2025-11-25","implementation":"bench/1"},`+
		`"occurredAt":"2026-07-28T00:00:00.000Z","traceId":"trace-%d","action":{"name":"write_file","effectKind":"mcp.tools/call","effectMode":"unspecified"},`+
		`"privateInput":{"path":"/srv/agent/workspace/summary.md","content":"total %d"}}`, n, n, n)
}

func outcomeBody(attempt string) []byte {
	return fmt.Appendf(nil, `{"attemptId":%q,"lifecycle":"outcome","sourceEventId":"result","occurredAt":"2026-07-28T00:00:01.000Z","status":"succeeded",`+
		`"privateResult":{"content":[{"type":"text","text":"Successfully wrote"}]}}`, attempt)
}

// client runs attempts with their outcomes, one call after the other, and
// reports the number of events acknowledged.
func client(ctx context.Context, s *server, query string, seen func(time.Duration)) (int, error) {
	n := 0
	call := func(path string, body []byte) ([]byte, error) {
		start := time.Now()
		code, b, err := s.post(path+query, body)
		if err == nil && code != http.StatusCreated {
			err = fmt.Errorf("status %d: %s", code, b)
		}
		if err != nil {
			return nil, err
		}
		n++
		seen(time.Since(start))
		return b, nil
	}
	for ctx.Err() == nil {
		b, err := call("/v1/attempts", beginBody())
		if err != nil {
			return n, err
		}
		i := bytes.Index(b, []byte(`"attemptId":"`))
		id := string(b[i+13 : i+13+36])
		if _, err := call("/v1/attempts/"+id+"/events", outcomeBody(id)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// throughput: 64 clients, each waiting for the answer at stage logged.
func (b *bench) throughput(ctx context.Context, r *report) error {
	s := r.section("Throughput over HTTP", "Begin and outcome in turn from 64 clients on keep-alive connections, each answered at stage `logged` (signed, flushed); "+
		"the time until the views reflect the last event is part of the measurement. The baseline is a plain file with group commit, 64 writers, 700-byte events.")
	srv, err := b.serve(ctx, b.newDir())
	if err != nil {
		return err
	}
	defer srv.stop()
	for range b.rounds {
		base, err := plainFile(ctx, b.work, 64, b.length/2)
		if err != nil {
			return err
		}
		before, start := srv.usage(), time.Now()
		n, lat, err := clients(ctx, srv, 64, b.length, "")
		if err != nil {
			return err
		}
		if _, err := srv.settled(ctx); err != nil {
			return err
		}
		wall := time.Since(start)
		ours := float64(n) / wall.Seconds()
		s.series("ledger, 64 clients", "events/s").add(ours)
		s.series("plain file, 64 writers", "events/s").add(base)
		s.series("ledger / plain file", "ratio").add(ours / base)
		s.series("time to the answer, p50", "ms").add(ms(quantile(lat, 0.5)))
		s.series("time to the answer, p99", "ms").add(ms(quantile(lat, 0.99)))
		s.work(srv, before, n)
	}
	return nil
}

func clients(ctx context.Context, srv *server, n int, length time.Duration, query string) (int, []time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
		lat   []time.Duration
		fail  error
	)
	for range n {
		wg.Go(func() {
			var own []time.Duration
			k, err := client(ctx, srv, query, func(d time.Duration) { own = append(own, d) })
			mu.Lock()
			defer mu.Unlock()
			total += k
			lat = append(lat, own...)
			if err != nil {
				fail = err
			}
		})
	}
	wg.Wait()
	return total, lat, fail
}

// batch: NDJSON batches of 1,000 begins from four clients.
func (b *bench) batch(ctx context.Context, r *report) error {
	s := r.section("Batch intake", "`POST /v1/events:batch` with 1,000 begins a batch from 4 clients, answered at stage `logged`, views caught up.")
	srv, err := b.serve(ctx, b.newDir())
	if err != nil {
		return err
	}
	defer srv.stop()
	for range b.rounds {
		ctxR, cancel := context.WithTimeout(ctx, b.length)
		var wg sync.WaitGroup
		var total atomic.Int64
		var fail atomic.Pointer[error]
		before, start := srv.usage(), time.Now()
		for range 4 {
			wg.Go(func() {
				for ctxR.Err() == nil {
					var body []byte
					for range 1000 {
						body = append(append(append(body, `{"begin":`...), beginBody()...), "}\n"...)
					}
					code, out, err := srv.post("/v1/events:batch", body)
					if err == nil && (code != http.StatusOK || bytes.Count(out, []byte(`"status":201`)) != 1000) {
						err = fmt.Errorf("status %d, %d of 1000 recorded: %.300s", code, bytes.Count(out, []byte(`"status":201`)), out)
					}
					if err != nil {
						fail.Store(&err)
						return
					}
					total.Add(1000)
				}
			})
		}
		wg.Wait()
		cancel()
		if e := fail.Load(); e != nil {
			return *e
		}
		if _, err := srv.settled(ctx); err != nil {
			return err
		}
		s.series("batch intake", "events/s").add(float64(total.Load()) / time.Since(start).Seconds())
		s.work(srv, before, int(total.Load()))
	}
	return nil
}

// latency: a fixed offered rate, each call waiting for its proof.
func (b *bench) latency(ctx context.Context, r *report) error {
	s := r.section("Time to a receipt with its proof", "Begins offered at a fixed rate, each with `wait=published`: the answer carries the inclusion proof and the signed checkpoint. "+
		"The clock starts when a call was due, so that a stall counts for all calls behind it.")
	srv, err := b.serve(ctx, b.newDir())
	if err != nil {
		return err
	}
	defer srv.stop()
	for _, rate := range []int{100, 1000, 5000} {
		for range b.rounds {
			lat, done, err := offered(ctx, srv, rate, b.length, "published")
			if err != nil {
				return err
			}
			name := strconv.Itoa(rate) + "/s offered"
			s.series(name+", p50", "ms").add(ms(quantile(lat, 0.5)))
			s.series(name+", p99", "ms").add(ms(quantile(lat, 0.99)))
			s.series(name+", answered", "events/s").add(done)
			if rate == 5000 {
				s.series(name+", memory of the ledger", "MiB").add(srv.rss())
			}
		}
	}
	return nil
}

// offered sends begins at a fixed rate, each waiting for a stage.
func offered(ctx context.Context, srv *server, rate int, length time.Duration, wait string) ([]time.Duration, float64, error) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		lat  []time.Duration
		fail error
	)
	n := int(float64(rate) * length.Seconds())
	start := time.Now()
	for i := range n {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if d := time.Until(due); d > 0 {
			time.Sleep(d)
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			code, b, err := srv.post("/v1/attempts?wait="+wait, beginBody())
			d := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && code != http.StatusCreated {
				err = fmt.Errorf("status %d: %s", code, b)
			}
			if err != nil {
				fail = err
				return
			}
			lat = append(lat, d)
		})
	}
	wg.Wait()
	return lat, float64(len(lat)) / time.Since(start).Seconds(), fail
}

// growth: what restart, reads and memory cost as the log grows.
func (b *bench) growth(ctx context.Context, r *report) error {
	s := r.section("Growth", "A log filled by batches; restart, memory, bytes on disk and time to a bundle at each size.")
	dir := b.newDir()
	srv, err := b.serve(ctx, dir)
	if err != nil {
		return err
	}
	size := 0
	for _, want := range []int{10_000, 100_000, 300_000} {
		for size < want {
			var body []byte
			for range 1000 {
				body = append(append(append(body, `{"begin":`...), beginBody()...), "}\n"...)
			}
			code, out, err := srv.post("/v1/events:batch", body)
			if err != nil || code != http.StatusOK {
				return fmt.Errorf("status %d: %.300s: %w", code, out, err)
			}
			size += 1000
		}
		if _, err := srv.settled(ctx); err != nil {
			return err
		}
		if err := srv.stop(); err != nil {
			return err
		}
		start := time.Now()
		if srv, err = b.serve(ctx, dir); err != nil {
			return err
		}
		name := figure(float64(want)) + " leaves"
		s.series(name+", restart until ready", "ms").add(ms(time.Since(start)))
		_, out, err := srv.get("/v1/attempts?limit=64")
		if err != nil {
			return err
		}
		var page struct {
			Attempts []struct {
				AttemptID string `json:"attemptId"`
			} `json:"attempts"`
		}
		if err := json.Unmarshal(out, &page); err != nil || len(page.Attempts) == 0 {
			return fmt.Errorf("list attempts: %w: %.200s", err, out)
		}
		for _, a := range page.Attempts {
			start := time.Now()
			if code, _, err := srv.get("/v1/attempts/" + a.AttemptID + "/bundle"); err != nil || code != http.StatusOK {
				return fmt.Errorf("bundle: status %d: %w", code, err)
			}
			s.series(name+", bundle of one attempt", "ms").add(ms(time.Since(start)))
		}
		s.series(name+", memory after restart", "MiB").add(srv.rss())
		for _, part := range []string{"log", "stream", "index", "views", "vault"} {
			s.series(name+", "+part+" on disk", "bytes/event").add(float64(diskUsage(dir, part)) / float64(size))
		}
	}
	return srv.stop()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}
