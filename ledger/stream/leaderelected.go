package stream

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// elections tells that a stream has another leader. What was sent to the one before
// and got no answer is sent again at once then, and not when its turn comes: the
// pauses between sendings grow to resendMax.
type elections struct {
	mu   sync.Mutex
	next chan struct{} // closed with the next election
}

// wait returns a channel that the next election closes.
func (e *elections) wait() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.next == nil {
		e.next = make(chan struct{})
	}
	return e.next
}

func (e *elections) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.next != nil {
		close(e.next)
	}
	e.next = nil
}

// hearElections subscribes to what new leaders of the stream say of themselves. A
// word that is lost costs a pause.
func (s *Stream) hearElections() error {
	if !s.cfg.clustered() {
		return nil
	}
	_, err := s.nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+s.cfg.Name, func(*nats.Msg) { s.elected.tell() })
	if err != nil {
		return unavailable(fmt.Sprintf("subscribe to elections of %s", s.cfg.Name), err)
	}
	return nil
}
