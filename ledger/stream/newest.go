package stream

import (
	"context"
	"fmt"
)

// Newest is [Stream.LastSeq] as new as the moment of the call: of a cluster it is the
// word of a leader that most servers followed before and after it gave it. One that
// was cut off and does not know it yet is not believed, and the error is an
// ErrUnavailable.
func (s *Stream) Newest(ctx context.Context, filter string) (uint64, error) {
	if !s.cfg.clustered() {
		return s.LastSeq(ctx, filter)
	}
	for {
		before, err := s.leader(ctx)
		if err != nil {
			return 0, err
		}
		seq, err := s.LastSeq(ctx, filter)
		if err != nil {
			return 0, err
		}
		after, err := s.leader(ctx)
		if err != nil {
			return 0, err
		}
		if before == after {
			return seq, nil
		}
		if !s.pause(ctx, retryBusy) {
			return 0, unavailable("ask for the newest message", ctx.Err())
		}
	}
}

// leader names the server that leads the stream by its own word, if most servers
// follow it.
func (s *Stream) leader(ctx context.Context) (string, error) {
	var info clusterInfo
	if err := s.api(ctx, "STREAM.INFO."+s.cfg.Name, nil, &info); err != nil {
		return "", err
	}
	if !info.followed() {
		return "", fmt.Errorf("ask for the newest message: %w", unavailable("leader of the stream", errCutOff))
	}
	if info.Cluster == nil {
		return "", nil
	}
	return info.Cluster.Leader, nil
}
