package stream

import (
	"context"
	"errors"
	"time"
)

const (
	// watchEvery is how often the watch looks after the server unasked.
	watchEvery = time.Second
	// A server that could not write is started again at once, and after longer
	// and longer pauses if that does not help.
	restartMin = 50 * time.Millisecond
	restartMax = 5 * time.Second
)

// Healthy is nil if the stream takes and gives messages now; the error says
// what is wrong. It asks the server, so a caller polls it a few times a second
// at most.
func (s *Stream) Healthy(ctx context.Context) error {
	if err := s.gate.check(); err != nil {
		return err
	}
	if err := s.checked(); err != nil {
		return err
	}
	if s.emb != nil {
		if err := s.emb.trouble(); err != nil {
			s.suspect()
			return unavailable("embedded stream server", err)
		}
	}
	if s.cfg.clustered() {
		var info clusterInfo
		if err := s.info(ctx, &info); err != nil || info.followed() {
			return err
		}
		return unavailable("publish", errCutOff)
	}
	_, err := s.State(ctx)
	return err
}

// suspect asks the watch to look after the server now.
func (s *Stream) suspect() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// watch looks after the connection and the embedded server until Close.
func (s *Stream) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	pause := restartMin
	var d doubt
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.kick:
			d.asked = true
		case <-t.C:
		}
		if !s.maintain.TryLock() {
			continue // Heal sees by itself what fails
		}
		if s.emb == nil {
			s.recheck()
		} else if err := s.emb.trouble(); err == nil {
			pause = restartMin
		} else {
			s.revive(err, pause)
			pause = min(2*pause, restartMax)
		}
		if d.asked && s.cfg.clustered() {
			ctx, cancel := context.WithTimeout(s.ctx, requestAgainAfter)
			s.lookBack(ctx, &d, time.Now())
			cancel()
		}
		s.maintain.Unlock()
	}
}

// revive starts the embedded server again. A server that once failed to write,
// on a full disk for example, refuses everything from then on, without an
// answer, until it is started again.
func (s *Stream) revive(cause error, pause time.Duration) {
	s.log.Error("the embedded stream server must be started again", "reason", cause)
	s.gate.set(unavailable("embedded stream server", cause))
	s.pub.failAll(cause)
	if !s.pause(s.ctx, pause) || !s.awaitSpace() {
		return
	}
	if err := s.restart(); err != nil {
		s.log.Error("the embedded stream server did not start", "error", err)
		s.gate.set(unavailable("embedded stream server", err))
		return
	}
	s.log.Info("the embedded stream server was started again")
	s.gate.set(nil)
}

// awaitSpace waits until the disk has room again; false if the stream closes.
// Messages can be read meanwhile.
func (s *Stream) awaitSpace() bool {
	for {
		err := s.emb.ready()
		if err == nil {
			return true
		}
		s.gate.set(err)
		if !s.pause(s.ctx, 10*restartMin) {
			return false
		}
	}
}

// restart stops the embedded server and starts it again, and asks it whether it
// still has everything that was acknowledged or read; if not, only Heal will
// publish to it. Publishes are refused meanwhile.
func (s *Stream) restart() error {
	if old := s.emb.take(); old != nil {
		shutdown(old)
	}
	seen := s.seen.Load()
	if err := s.emb.start(s.ctx); err != nil {
		return err
	}
	if s.cfg.Cluster != nil {
		return nil // the cluster has what was acknowledged
	}
	st, found, err := streamState(s.emb.current(), s.cfg.Name)
	if err != nil {
		return err
	}
	if !found || st.Last < seen || st.Deleted > 0 || st.First > 1 {
		s.rewound(st.Last, seen)
		return nil
	}
	return s.emb.unkeep()
}

// checked refuses to go on after Close, and with an external server after a
// reconnect until the watch has seen that its stream did not go back.
func (s *Stream) checked() error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	if s.emb != nil || s.nc.Stats().Reconnects == s.trusted.Load() {
		return nil
	}
	s.suspect()
	return unavailable("connected again", errors.New("the stream has not been checked yet"))
}

// recheck compares the stream of an external server with what was seen.
func (s *Stream) recheck() {
	n := s.nc.Stats().Reconnects
	if n == s.trusted.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.AckTimeout)
	defer cancel()
	seen := s.seen.Load()
	st, err := s.State(ctx)
	switch {
	case s.cfg.clustered() && (err != nil || st.Last < seen):
		s.log.Warn("the stream cannot be checked after a reconnect", "error", err, "last", st.Last, "seen", seen)
		s.suspect() // whoever answered may be behind
		return
	case isCode(err, codeStreamNotFound):
		s.rewound(0, seen)
	case err != nil:
		s.log.Warn("the stream cannot be checked after a reconnect", "error", err)
		return
	case st.Last < seen:
		s.rewound(st.Last, seen)
	}
	s.trusted.Store(n)
	s.conn.wake()
}
