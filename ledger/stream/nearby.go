package stream

import "context"

// nearTries is how many consumers are made at most to have one on this node's own
// server. The cluster gives each to a server by chance: of three, 25 of 26 times one
// of eight is here.
const nearTries = 8

// makeConsumer makes a consumer of a stream that gives the messages from next on, and
// returns its name, one that name gave. near: on this node's own server, if there is
// one and it can be had. What a consumer there reads is on this node's disk anyway;
// from elsewhere it comes over the network once more, and ends with its server.
func (s *Stream) makeConsumer(ctx context.Context, stream string, next uint64, near bool, name func() string) (string, error) {
	made, here, err := s.tryConsumer(ctx, stream, next, name())
	if err != nil || !near || s.cfg.Cluster == nil {
		return made, err
	}
	for n := 1; n < nearTries && !here; n++ {
		var other string
		if other, here, err = s.tryConsumer(ctx, stream, next, name()); err != nil {
			break // one is enough
		}
		if here {
			made, other = other, made
		}
		s.dropConsumer(stream, other)
	}
	return made, nil
}

func (s *Stream) tryConsumer(ctx context.Context, stream string, next uint64, name string) (made string, here bool, err error) {
	var info struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	err = s.api(ctx, "CONSUMER.CREATE."+stream+"."+name, map[string]any{
		"stream_name": stream,
		"config": map[string]any{
			"name":               name,
			"deliver_policy":     "by_start_sequence",
			"opt_start_seq":      next,
			"ack_policy":         "none",
			"replay_policy":      "instant",
			"inactive_threshold": consumerIdle,
			"mem_storage":        true,
			"num_replicas":       1,
		},
	}, &info)
	if err != nil {
		return "", false, err
	}
	return name, s.cfg.Cluster != nil && info.Cluster.Leader == s.cfg.Cluster.Node, nil
}

// dropConsumer deletes a consumer, without waiting whether that worked: the stream
// forgets it in any case.
func (s *Stream) dropConsumer(stream, name string) {
	_ = s.nc.Publish("$JS.API.CONSUMER.DELETE."+stream+"."+name, nil)
}
