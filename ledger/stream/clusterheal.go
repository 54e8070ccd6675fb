package stream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Healing in a cluster. What a server shows is not all that there is: it may lag,
// be cut off, or have a damaged copy where the others have a good one. So a
// stream that seems broken is looked at again, from a leader that most servers
// follow and from every server in turn, before anything is changed; and only the
// node that may repair changes anything.

// overtaken decides how a rebuild that was cut off goes on: it waits until this
// node may repair, and then tells whether another has repaired the stream
// meanwhile. The stream is not this node's to make anew then; what it had set
// aside and is not in the stream has lost its place.
func (h *healer) overtaken(ctx context.Context, j *journal) (bool, error) {
	for {
		healed, err := h.lookAgain(ctx)
		if err != nil {
			return false, err
		}
		if healed {
			break
		}
		may := true
		if h.cfg.MayRepair != nil {
			if may, err = h.cfg.MayRepair(ctx); err != nil {
				return false, fmt.Errorf("ask whether this node may repair the stream: %w", err)
			}
		}
		if may {
			return false, nil
		}
		if !h.s.pause(ctx, resendAfter) {
			return false, unavailable("finish the rebuild of the stream", errors.Join(ctx.Err(), h.s.ctx.Err()))
		}
	}
	there := map[string]bool{}
	err := h.s.scan(ctx, 1, h.report.Before.Last, func(_ uint64, m *Message) error {
		if m != nil {
			there[digest(m.Body)] = true
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	err = h.eachAside(j, func(m asideMessage) error {
		if !there[digest(m.Body)] {
			h.report.Unchained.add(m.Seq)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	h.report.Action, h.report.Lost, h.report.MaybeLost = Nothing, j.Lost, j.MaybeLost
	if j.Aside != "" {
		h.report.AsideFile = h.path(j.Aside)
	}
	if err := h.note(); err != nil {
		return false, err
	}
	return true, h.removeJournal()
}

// awaitRepair waits until the stream is whole and at least as long as the log
// (true), or until this node may repair it and what is wrong with it is certain
// (false). report.Before is what was found last.
func (h *healer) awaitRepair(ctx context.Context) (healed bool, err error) {
	told := false
	for {
		may := true
		if h.cfg.MayRepair != nil {
			if may, err = h.cfg.MayRepair(ctx); err != nil {
				return false, fmt.Errorf("ask whether this node may repair the stream: %w", err)
			}
		}
		if may {
			return h.certain(ctx)
		}
		if !told {
			h.s.log.Warn("the stream waits to be repaired by another node", "last", h.report.Before.Last, "log", h.size)
			told = true
		}
		if !h.s.pause(ctx, resendAfter) {
			return false, unavailable("wait until another node has repaired the stream", errors.Join(ctx.Err(), h.s.ctx.Err()))
		}
		if healed, err := h.lookAgain(ctx); healed || err != nil {
			return healed, err
		}
	}
}

// lookAgain tells whether the stream is whole and long enough now.
func (h *healer) lookAgain(ctx context.Context) (bool, error) {
	st, err := h.s.truth(ctx)
	if err != nil {
		return false, err
	}
	h.report.Before = st
	h.s.seen.Store(st.Last)
	if h.intact, err = h.whole(ctx); err != nil {
		return false, err
	}
	return h.intact && st.Last >= h.size, nil
}

// certain looks at the stream once more after a time in which a leader that was
// cut off must have noticed, and from other servers as its leaders.
func (h *healer) certain(ctx context.Context) (healed bool, err error) {
	if !h.s.pause(ctx, backAfter) {
		return false, unavailable("look at the stream again", errors.Join(ctx.Err(), h.s.ctx.Err()))
	}
	for range h.s.cfg.Replicas {
		if healed, err = h.lookAgain(ctx); healed || err != nil {
			return healed, err
		}
		if h.intact {
			return false, nil // only too short, and that most servers agree on
		}
		if err := h.s.stepDown(ctx); err != nil {
			return false, err
		}
	}
	return h.lookAgain(ctx)
}

// holes counts the messages between 1 and Last that are not there.
func (s State) holes() uint64 { return s.Last - min(s.Last, s.Messages) }

// stepDown makes another server lead the stream, and waits for it.
func (s *Stream) stepDown(ctx context.Context) error {
	was, err := s.ClusterState(ctx)
	if err != nil {
		return err
	}
	if err := s.api(ctx, "STREAM.LEADER.STEPDOWN."+s.cfg.Name, nil, nil); err != nil {
		return fmt.Errorf("let another server lead the stream: %w", err)
	}
	for end := time.Now().Add(clusterAckTimeout); time.Now().Before(end); {
		if now, err := s.ClusterState(ctx); err == nil && now.Leader != "" && now.Leader != was.Leader {
			return nil
		}
		if !s.pause(ctx, retryMax) {
			break
		}
	}
	return unavailable("let another server lead the stream", errors.New("no other took over"))
}

// checkReplica looks whether our own server's copy of the stream has holes that
// the stream itself has not: then the whole store is moved away, and the server
// gets a new copy from the others. Nothing is deleted.
func (s *Stream) checkReplica(ctx context.Context) error {
	srv := s.emb.current()
	if srv == nil {
		return errNoServer
	}
	own, found, err := streamState(srv, s.cfg.Name)
	if err != nil || !found || own.holes() == 0 {
		return err
	}
	if leads(srv, s.cfg.Name) {
		if err := s.stepDown(ctx); err != nil {
			return err
		}
	}
	st, err := s.truth(ctx)
	if err != nil {
		return err
	}
	// A hole that the stream has too is not this server's damage, and a leader that
	// has less by itself can fill none.
	if st.holes() >= own.holes() || st.Last < own.Last {
		return nil
	}
	// A stream that was just made anew may not be known here yet.
	if !s.pause(ctx, requestAgainAfter) {
		return unavailable("look at this server's copy of the stream", errors.Join(ctx.Err(), s.ctx.Err()))
	}
	if now, found, err := streamState(srv, s.cfg.Name); err != nil || !found || now.holes() < own.holes() {
		return err
	}
	cause := fmt.Errorf("%w: %d messages are missing in this server's copy, %d in the stream", errStore, own.holes(), st.holes())
	s.emb.take()
	shutdown(srv)
	if err := s.emb.setStoreAside(cause, false); err != nil {
		return err
	}
	if err := s.emb.startNode(ctx); err != nil {
		return err
	}
	if err := s.awaitConnection(ctx); err != nil {
		return err
	}
	return s.emb.awaitLeader(ctx)
}
