package stream

import (
	"fmt"
	"sync/atomic"
)

// gate says whether publishes may go on. Two things can shut it: trouble that
// passes, and a stream that went back, which only Heal ends.
type gate struct {
	trouble atomic.Pointer[error]
	rewound atomic.Pointer[error]
}

// check is why the gate is shut, nil if it is open.
func (g *gate) check() error {
	if e := g.rewound.Load(); e != nil {
		return *e
	}
	if e := g.trouble.Load(); e != nil {
		return *e
	}
	return nil
}

// wentBack is the ErrRewound, nil if the stream did not go back.
func (g *gate) wentBack() error {
	if e := g.rewound.Load(); e != nil {
		return *e
	}
	return nil
}

// set shuts the gate for trouble, or ends that with nil.
func (g *gate) set(err error) {
	if err == nil {
		g.trouble.Store(nil)
		return
	}
	g.trouble.Store(&err)
}

// rewound shuts the gate: the stream ends at last although seen was seen.
func (s *Stream) rewound(last, seen uint64) {
	err := fmt.Errorf("the stream ends at sequence %d, %d was seen: %w", last, seen, ErrRewound)
	if !s.gate.rewound.CompareAndSwap(nil, &err) {
		return
	}
	s.rewinds.Add(1)
	s.log.Error("the stream went back", "last", last, "seen", seen)
	s.conn.wake()
}
