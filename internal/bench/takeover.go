package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"
)

const (
	// callAgain is the pause of a client that no node served.
	callAgain = 20 * time.Millisecond
	// afterTakeover is how long the load goes on once another node published.
	afterTakeover = time.Second
	// takeoverLimit bounds one round.
	takeoverLimit = 90 * time.Second
)

// takeOvers ends the node that signs, round by round: without a word, and then as
// often in good order.
func takeOvers(ctx context.Context, r *rig.Rig, s *report.Section) error {
	ways := []struct {
		name string
		end  func(*rig.Nodes, int) error
	}{
		{"killed", func(ns *rig.Nodes, i int) error { ns.Kill(i); return nil }},
		{"stopped", (*rig.Nodes).Stop},
	}
	return onNodes(ctx, r, func(ns *rig.Nodes) error {
		g := s.Grid("the node that signs is")
		for _, way := range ways {
			t := map[string]*takeover{}
			for range r.Takeovers {
				led, err := takeOver(ctx, ns, way.end, func(col string) *takeover {
					col = way.name + col
					if t[col] == nil {
						t[col] = &takeover{}
					}
					return t[col]
				})
				if err != nil {
					return fmt.Errorf("%s (led the stream: %v): %w", way.name, led, err)
				}
			}
			for _, col := range []string{way.name, way.name + ledStream, way.name + ledNot} {
				if t[col] != nil {
					t[col].report(g, col)
				}
			}
		}
		s.Note(fmt.Sprintf("Take-over: %d clients send single events to any of the nodes, and to the next one if that does not take them, while the node that signs is ended, %d times each way. "+
			"A round's wait is the longest from an event's first call until it was acknowledged; the wait of one client is the longest of that client. "+
			"Columns are divided by whether that node also led the stream, for which the stream has to choose another leader.", lightClients, r.Takeovers))
		return nil
	})
}

const ledStream, ledNot = ", led the stream", ", did not lead"

// takeover is what rounds of one kind gave.
type takeover struct {
	longest, each, published []time.Duration
}

func (t *takeover) report(g *report.Grid, col string) {
	for _, x := range []struct {
		name string
		of   []time.Duration
	}{{"longest wait of a round", t.longest}, {"wait of one client", t.each}, {"until another node published", t.published}} {
		slices.Sort(x.of)
		g.Add(x.name+", p50, ms", col, rig.MS(rig.Quantile(x.of, 0.5)))
		g.Add(x.name+", p99, ms", col, rig.MS(rig.Quantile(x.of, 0.99)))
		g.Add(x.name+", max, ms", col, rig.MS(x.of[len(x.of)-1]))
	}
	g.Add("rounds", col, float64(len(t.longest)))
}

// takeOver is one round; the node is started again at its end.
func takeOver(ctx context.Context, ns *rig.Nodes, end func(*rig.Nodes, int) error, of func(col string) *takeover) (led bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverLimit)
	defer cancel()
	if err := ns.Settle(ctx); err != nil {
		return false, err
	}
	c := startCallers(ctx, ns.Up())
	defer c.end()
	if err := c.grown(ctx, 4*lightClients); err != nil {
		return false, err
	}
	signer, led, err := ns.Signer(ctx)
	if err != nil {
		return led, err
	}
	c.reset()
	began := time.Now()
	ending := make(chan error, 1)
	others := slices.DeleteFunc(ns.Up(), func(l *rig.Ledger) bool { return l == ns.At[signer] })
	name := fmt.Sprintf("n%d", signer+1)
	go func() { ending <- end(ns, signer) }()
	published, err := publishedByAnother(ctx, others, name)
	if err != nil {
		return led, err
	}
	took := published.Sub(began)
	select { // calls that still wait come in
	case <-ctx.Done():
	case <-time.After(afterTakeover):
	}
	waits, cerr := c.end()
	if err := <-ending; err != nil {
		return led, err
	}
	if cerr != nil {
		return led, cerr
	}
	for _, col := range []string{"", map[bool]string{true: ledStream, false: ledNot}[led]} {
		t := of(col)
		t.longest = append(t.longest, slices.Max(waits))
		t.each = append(t.each, waits...)
		t.published = append(t.published, took)
	}
	return led, ns.Start(context.WithoutCancel(ctx), signer)
}

// publishedByAnother waits until a node that is not the old one signs and a
// checkpoint larger than any before is published.
func publishedByAnother(ctx context.Context, others []*rig.Ledger, old string) (time.Time, error) {
	var before uint64
	for ctx.Err() == nil {
		for _, l := range others {
			v, err := l.View(ctx)
			if err != nil || v.Signer == "" || v.Signer == old {
				continue
			}
			st, err := l.Status(ctx)
			switch {
			case err != nil:
			case before == 0:
				before = st.PublishedSize
			case st.PublishedSize > before:
				return time.Now(), nil
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return time.Time{}, fmt.Errorf("no other node published: %w", ctx.Err())
}

// callers are clients that try one node after the other.
type callers struct {
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	mu   sync.Mutex
	wait []time.Duration // the longest of each
	sent int
	err  error
}

func startCallers(ctx context.Context, nodes []*rig.Ledger) *callers {
	c := &callers{stop: make(chan struct{}), wait: make([]time.Duration, lightClients)}
	for w := range lightClients {
		c.wg.Go(func() {
			for i := w; ; i++ {
				select {
				case <-c.stop:
					return
				default:
				}
				began := time.Now()
				err := callAny(ctx, nodes, i)
				c.mu.Lock()
				c.sent++
				c.wait[w] = max(c.wait[w], time.Since(began))
				if c.err == nil {
					c.err = err
				}
				c.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	return c
}

// callAny records one event at the first node that takes it, from node at on.
func callAny(ctx context.Context, nodes []*rig.Ledger, at int) error {
	body := rig.BeginBody()
	for ; ; at++ {
		err := nodes[at%len(nodes)].Begin(ctx, body)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(callAgain):
		}
	}
}

// reset forgets the waits so far.
func (c *callers) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.wait)
}

// grown waits until n more events were taken.
func (c *callers) grown(ctx context.Context, n int) error {
	t := time.NewTicker(callAgain)
	defer t.Stop()
	for {
		c.mu.Lock()
		sent, err := c.sent, c.err
		c.mu.Unlock()
		if err != nil || sent >= n {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// end waits for the calls that are out, and returns the longest wait of each client.
func (c *callers) end() ([]time.Duration, error) {
	c.once.Do(func() { close(c.stop) })
	c.wg.Wait()
	return c.wait, c.err
}
