package stream

import (
	"context"
)

// suspect asks the watch to look after the server now.
func (s *Stream) suspect() {}

func (s *Stream) watch() { <-s.ctx.Done() }

// Healthy is nil if the stream takes and gives messages.
func (s *Stream) Healthy(ctx context.Context) error {
	if err := s.gate.check(); err != nil {
		return err
	}
	_, err := s.State(ctx)
	return err
}
