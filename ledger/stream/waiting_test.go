package stream

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// lines are what a logger wrote.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default: // nobody reads any more
	}
	return len(b), nil
}

// A node that waits says for what, and why it likely is in vain, in one line.
func TestWaitingNodeTellsWhy(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		change func(all []Config)
		want   string
	}{
		"alone":          {func(all []Config) {}, "a node that does not run"},
		"another secret": {func(all []Config) { all[1].Cluster.Secret = "of another ledger's nodes" }, "nodes with other keys"},
		"the same name":  {func(all []Config) { all[1].Cluster.Node = all[0].Cluster.Node }, "two nodes run under one name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := clusterConfigs(t, 3)
			out := make(lines, 1000)
			x.change(all)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{}, 2)
			start := func(c Config) {
				go func() {
					if s, err := Open(ctx, c); err == nil {
						_ = s.Close(context.Background())
					}
					ended <- struct{}{}
				}()
			}
			running := 1
			all[0].Logger, all[0].tellEvery = slog.New(slog.NewTextHandler(out, nil)), 50*time.Millisecond
			start(all[0])
			if name != "alone" {
				running++
				start(all[1])
			}
			limit := time.After(time.Minute)
			for found := false; !found; {
				select {
				case line := <-out:
					found = strings.Contains(line, "level=WARN") && strings.Contains(line, "it waits for most of the nodes") && strings.Contains(line, x.want)
				case <-limit:
					t.Error("it never said ", x.want)
					found = true
				}
			}
			cancel()
			for range running {
				<-ended
			}
		})
	}
}

// A node whose address is taken says by whom it may be and what to change.
func TestTakenClusterAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	cfg := clusterConfigs(t, 3)[0]
	cfg.Cluster.Listen = l.Addr().String()
	s, err := Open(t.Context(), cfg)
	if err == nil {
		closeStream(t, s)
	}
	if err == nil || !strings.Contains(err.Error(), "Choose another --cluster-listen") {
		t.Errorf("%v", err)
	}
}
