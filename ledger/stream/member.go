package stream

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Members of a cluster of embedded servers are all that were ever seen in it, also
// by one start under a mistyped name: most of them must be there for anything to go
// on. Only the system account of the servers may take one out.
const (
	systemAccount = "$SYS"
	systemUser    = "counterfoil-system"
	removeSubject = "$JS.API.SERVER.REMOVE"
	metaGroup     = "_meta_"

	codeNotMember = 10044
)

var (
	// ErrExternal: the members of an external NATS are its operator's business.
	ErrExternal = errors.New("an external NATS has members of its own")
	// ErrNoMember: the cluster has no member of that name.
	ErrNoMember = errors.New("no member of the cluster")
	// ErrMemberRuns: the member is this node, or connected to it.
	ErrMemberRuns = errors.New("the member runs")
	// ErrMemberKeeps: the member keeps a copy of the stream, so that there would be
	// one copy less.
	ErrMemberKeeps = errors.New("the member keeps a copy of the stream")
)

// addSystemUser lets us, and nobody else, ask for the removal of a member.
func addSystemUser(o *server.Options, a *server.Account, password string) error {
	hash, err := hashed(password)
	if err != nil {
		return err
	}
	o.Users = append(o.Users, &server.User{Username: systemUser, Password: hash, Account: a, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{removeSubject}},
		Subscribe: &server.SubjectPermission{Allow: []string{inboxPrefix + ".>"}},
	}})
	return nil
}

// Members are the members of the cluster of embedded servers that this node knows,
// sorted: their names, or the short id of one whose name no running server knows.
// It is empty for a server alone and for an external NATS.
func (s *Stream) Members() []string {
	ids := s.memberIDs()
	out := make([]string, 0, len(ids))
	for name := range ids {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// memberIDs has the id of every member by its name, or by its id if it has none.
func (s *Stream) memberIDs() map[string]string {
	if s.emb == nil || s.cfg.Cluster == nil {
		return nil
	}
	srv := s.emb.current()
	if srv == nil {
		return nil
	}
	st := srv.Raftz(&server.RaftzOptions{GroupFilter: metaGroup})
	if st == nil {
		return nil
	}
	ids := map[string]string{}
	for _, groups := range *st {
		for _, g := range groups {
			ids[s.cfg.Cluster.Node] = g.ID
			for id, p := range g.Peers {
				switch {
				case id == g.ID || !p.Known:
				case p.Name == "":
					ids[id] = id
				default:
					ids[p.Name] = id
				}
			}
		}
	}
	return ids
}

// memberID is the id that servers derive from a name.
func memberID(name string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(name))
	id := sum[:8]
	for i, b := range id {
		id[i] = digits[int(b)%len(digits)]
	}
	return string(id)
}

// RemoveMember takes a member out of the cluster, by a name that [Stream.Members] has
// or that such an id is of. It is refused (ErrMemberRuns, ErrMemberKeeps) unless the
// member is away and keeps no copy of the stream. It returns once most members agree;
// after ErrUnavailable it may have been done, and doing it again is safe.
func (s *Stream) RemoveMember(ctx context.Context, name string) error {
	if s.emb == nil {
		return ErrExternal
	}
	ids := s.memberIDs()
	id, there := ids[name]
	if !there {
		id = memberID(name)
		_, there = ids[id]
	}
	if !there {
		return fmt.Errorf("%w: %q", ErrNoMember, name)
	}
	st, err := s.ClusterState(ctx)
	if err != nil {
		return err
	}
	is := func(server string) bool { return memberID(server) == id }
	switch {
	case is(st.Node), slices.ContainsFunc(st.Connected, is):
		return fmt.Errorf("%w: %q", ErrMemberRuns, name)
	case slices.ContainsFunc(st.Replicas, func(r Replica) bool { return is(r.Server) || r.Server == name }):
		return fmt.Errorf("%w: %q", ErrMemberKeeps, name)
	}
	return s.removePeer(ctx, id)
}

// removePeer asks the server that leads the cluster.
func (s *Stream) removePeer(ctx context.Context, id string) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.AckTimeout)
		defer cancel()
	}
	nc, err := nats.Connect("", nats.Name("counterfoil members"), nats.InProcessServer(s.emb), nats.UserInfo(systemUser, s.emb.system), nats.CustomInboxPrefix(inboxPrefix))
	if err != nil {
		return unavailable("connect to the servers' account", err)
	}
	defer nc.Close()
	body, err := json.Marshal(map[string]string{"peer_id": id})
	if err != nil {
		return err
	}
	// A leader that goes meanwhile never answers: the next one is asked again.
	for asked := false; ; asked = true {
		err := askRemoval(ctx, nc, body)
		switch {
		case err == nil, asked && errors.Is(err, ErrNoMember): // it was done before
			return nil
		case !errors.Is(err, ErrUnavailable) || !s.pause(ctx, retryMax):
			return err
		}
	}
}

func askRemoval(ctx context.Context, nc *nats.Conn, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestAgainAfter)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, removeSubject, body)
	if err != nil {
		return unavailable("remove a member of the cluster", err)
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Success bool      `json:"success"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return fmt.Errorf("remove a member of the cluster: %w", err)
	case answer.Error != nil && answer.Error.ErrCode == codeNotMember:
		return ErrNoMember
	case answer.Error != nil:
		return unavailable("remove a member of the cluster", answer.Error)
	case !answer.Success:
		return unavailable("remove a member of the cluster", errors.New("the leader did not do it"))
	}
	return nil
}
