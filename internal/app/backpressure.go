package app

import (
	"fmt"

	"counterfoil/internal/api"
)

// maxBacklog is how far the log may be behind the stream before intake waits
// for it to catch up.
const maxBacklog = 50_000

// admit says whether events can be taken now.
func (l *Ledger) admit() error {
	if l.signingStopped() != nil {
		return errSignsNothing
	}
	waiting := l.waiting()
	if err := l.disk.admit(waiting); err != nil {
		return err
	}
	if l.isDraining() {
		return errStopping
	}
	if err := l.reachesOthers(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, part := range []string{"vault", "sequencer", "index"} {
		if err := l.fatal[part]; err != nil {
			return &api.Unavailable{Reason: reasonLogUnavailable, Message: "the " + part + " stopped; see the ledger's log"}
		}
	}
	if waiting > maxBacklog {
		return &api.Unavailable{Reason: "log_behind", Message: fmt.Sprintf("%d events wait to be logged", waiting)}
	}
	return nil
}

const reasonLogUnavailable = "log_unavailable"

// waiting is how many events are on the stream and not in the log.
func (l *Ledger) waiting() uint64 {
	last, size := l.stream.LastSeen(), l.seq.Size()
	return last - min(last, size)
}
