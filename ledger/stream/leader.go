package stream

import (
	"context"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// handOverLimit bounds how long a node that stops waits until others lead what it
// led. Without it they choose for themselves, which takes 4 to 9 seconds.
const handOverLimit = 2 * time.Second

// handOver gives the streams that srv leads to other servers of the cluster, and
// returns once those lead them, or ctx or handOverLimit ends: it is a courtesy. srv
// still takes part meanwhile: it votes, and passes on what callers send. A server
// that just shuts down says the same and is gone before it knows whether anybody
// heard it.
func (e *embedded) handOver(ctx context.Context, srv *server.Server) {
	ctx, cancel := context.WithTimeout(ctx, handOverLimit)
	defer cancel()
	t := time.NewTicker(startPoll)
	defer t.Stop()
	asked := map[string]bool{}
	for {
		// Who is left must be able to choose without this one.
		if _, others := metaLeader(srv); len(others) <= e.cfg.Replicas/2 {
			return
		}
		waiting := false
		for name, leader := range streamLeaders(srv) {
			if leader == srv.Name() {
				// It has to be asked once: one that it comes back to was given by
				// the others.
				if !asked[name] {
					asked[name] = true
					if err := srv.JetStreamStepdownStream(account, name); err != nil {
						e.cfg.Logger.Debug("a stream is not handed over", "stream", name, "error", err)
					}
				}
				waiting = true
			}
			waiting = waiting || asked[name] && leader == ""
		}
		if !waiting {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// streamLeaders are the names of the servers that lead the streams of which srv has
// a copy, by stream; empty where it knows none.
func streamLeaders(srv *server.Server) map[string]string {
	d, err := srv.JszAccount(&server.JSzOptions{Account: account, Streams: true})
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, s := range d.Streams {
		if s.Cluster != nil {
			out[s.Name] = s.Cluster.Leader
		}
	}
	return out
}
