package stream

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// gate says whether publishes and reads may go on.
type gate struct{ shut atomic.Pointer[error] }

func (g *gate) check() error {
	if e := g.shut.Load(); e != nil {
		return *e
	}
	return nil
}

func (g *gate) set(err error) {
	if err == nil {
		g.shut.Store(nil)
		return
	}
	g.shut.Store(&err)
}

// rewound shuts the gate: the stream ends at last although seen was seen.
func (s *Stream) rewound(last, seen uint64) {
	if errors.Is(s.gate.check(), ErrRewound) {
		return
	}
	err := fmt.Errorf("it ends at sequence %d, %d was seen: %w", last, seen, ErrRewound)
	s.gate.set(err)
	s.log.Error("the stream went back", "last", last, "seen", seen)
	s.conn.set(s.conn.reason()) // wakes the tails
}
