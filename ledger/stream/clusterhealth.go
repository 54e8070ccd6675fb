package stream

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A cluster has lost what was acknowledged only if a leader says so that most
// servers follow. One that was cut off and does not know it yet, or a replica
// that lags, just knows less.
//
// backAfter is the time between the two looks that it takes: a leader that was
// cut off has not heard of most others for longer by then.
const backAfter = 2 * heardWithin

// heardWithin is how recently a leader must have heard of a server that counts
// as following it. Leaders and servers speak once a second.
const heardWithin = 3 * time.Second

// doubt remembers since when the stream seems shorter than what was seen.
type doubt struct {
	since time.Time
	asked bool // somebody had a reason to look
}

// lookBack asks the stream's leader whether the stream ends before what was
// seen, and shuts the gate if that is certain. d remembers the first look.
func (s *Stream) lookBack(ctx context.Context, d *doubt, now time.Time) {
	seen := s.seen.Load()
	ctx, cancel := context.WithTimeout(ctx, requestAgainAfter)
	defer cancel()
	var info clusterInfo
	if err := s.info(ctx, &info); err != nil {
		d.since = time.Time{}
		return
	}
	switch {
	case info.State.Last >= seen:
		*d = doubt{}
	case !info.followed():
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = now
	case now.Sub(d.since) >= backAfter:
		s.rewound(info.State.Last, seen)
		*d = doubt{}
	}
}

// clusterInfo is the answer of a stream's leader.
type clusterInfo struct {
	State   State        `json:"state"`
	Cluster *clusterPart `json:"cluster"`
}

type clusterPart struct {
	Name     string        `json:"name"`
	Leader   string        `json:"leader"`
	Replicas []replicaPart `json:"replicas"`
}

type replicaPart struct {
	Name    string        `json:"name"`
	Current bool          `json:"current"`
	Offline bool          `json:"offline"`
	Active  time.Duration `json:"active"`
	Lag     uint64        `json:"lag"`
}

var errCutOff = errors.New("the stream's leader is cut off from most servers")

// followed tells whether most servers follow the leader that answered.
func (i *clusterInfo) followed() bool {
	c := i.Cluster
	if c == nil {
		return true // one server has no other to lag behind
	}
	if c.Leader == "" {
		return false // who answers only says what it has
	}
	with := 1
	for _, r := range c.Replicas {
		if !r.Offline && r.Active > 0 && r.Active < heardWithin {
			with++
		}
	}
	return 2*with > len(c.Replicas)+1
}

// truth is what the stream holds, from a leader that most servers follow. For a
// moment after a cut is mended there may be two that claim to be it: the one with
// more is the newer, since what a leader shows was stored by most servers.
func (s *Stream) truth(ctx context.Context) (State, error) { return s.truthOf(ctx, s.cfg.Name) }

func (s *Stream) truthOf(ctx context.Context, name string) (State, error) {
	for {
		infos, err := s.infos(ctx, name)
		var best *State
		for _, i := range infos {
			if i.followed() && (best == nil || i.State.Last > best.Last) {
				best = &i.State
			}
		}
		if best != nil {
			return *best, nil
		}
		if err == nil {
			err = unavailable("state of the stream", errCutOff)
		}
		if !errors.Is(err, ErrUnavailable) || !s.pause(ctx, retryMax) {
			return State{}, err
		}
	}
}

// infos asks for the stream and takes every answer that comes soon after the
// first.
func (s *Stream) infos(ctx context.Context, name string) ([]*clusterInfo, error) {
	if s.ctx.Err() != nil {
		return nil, ErrClosed
	}
	sub, err := s.nc.SubscribeSync(s.nc.NewInbox())
	if err != nil {
		return nil, unavailable("subscribe", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.nc.PublishRequest("$JS.API.STREAM.INFO."+name, sub.Subject, nil); err != nil {
		return nil, unavailable("ask for the stream", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestAgainAfter)
	defer cancel()
	var out []*clusterInfo
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil && len(out) > 0 {
			return out, nil
		}
		if err != nil {
			return nil, unavailable("ask for the stream", err)
		}
		var answer struct {
			clusterInfo
			Error *apiError `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Error != nil {
			continue // a leader may come after it
		}
		if out = append(out, &answer.clusterInfo); len(out) == 1 {
			soon, cancel := context.WithTimeout(ctx, resendAfter/2)
			defer cancel()
			ctx = soon
		}
	}
}
