package stream

import (
	"context"
	"errors"
	"fmt"
)

// Look asks an external NATS for the stream and changes nothing. found is false if
// there is none yet. A stream that is not configured as the ledger needs it, or that
// is another ledger's, gives a *[ConfigError] with every difference. ctx bounds it.
func Look(ctx context.Context, cfg Config) (st State, found bool, err error) {
	if cfg.Dir != "" {
		return st, false, errors.New("the stream of an embedded server can be looked at by its own process alone")
	}
	if err := cfg.validate(); err != nil {
		return st, false, fmt.Errorf("stream configuration: %w", err)
	}
	s := &Stream{cfg: cfg, log: cfg.Logger, kick: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.conn.init()
	s.pub = newPublisher(s)
	defer func() {
		s.stop()
		if s.nc != nil {
			s.nc.Close()
		}
	}()
	if err := s.connect(); err != nil {
		return st, false, err
	}
	var info struct {
		Config map[string]any `json:"config"`
		State  State          `json:"state"`
	}
	switch err := s.info(ctx, &info); {
	case isCode(err, codeStreamNotFound):
		return st, false, nil
	case err != nil:
		return st, false, fmt.Errorf("ask for the stream: %w", err)
	}
	if d := differences(s.wanted(), info.Config); len(d) > 0 {
		return info.State, true, &ConfigError{Stream: s.cfg.Name, Differences: d}
	}
	return info.State, true, nil
}
