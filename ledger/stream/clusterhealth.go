package stream

import (
	"context"
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
	with := 0
	if c.Leader != "" {
		with++
	}
	for _, r := range c.Replicas {
		if !r.Offline && r.Active > 0 && r.Active < heardWithin {
			with++
		}
	}
	return 2*with > len(c.Replicas)+1
}

// truth is what the stream holds, from a leader that most servers follow.
func (s *Stream) truth(ctx context.Context) (State, error) {
	for {
		var info clusterInfo
		err := s.info(ctx, &info)
		if err == nil && info.followed() {
			return info.State, nil
		}
		if err == nil {
			err = unavailable("state of the stream", errCutOff)
		}
		if !errors.Is(err, ErrUnavailable) || !s.pause(ctx, retryMax) {
			return State{}, err
		}
	}
}
