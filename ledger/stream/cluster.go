package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ClusterConfig makes the embedded server one of several that keep the streams
// together: a message is acknowledged once most of them have it on their disks.
type ClusterConfig struct {
	// Name of the cluster, the same on all nodes.
	Name string
	// Node is the name of this node, of its own in the cluster and the same for
	// ever: the other nodes know this node's vote by it.
	Node string
	// Listen, host:port, is where the other nodes connect to. Routes between
	// nodes are not encrypted: the network between them must be private.
	Listen string
	// Advertise, host:port, is what nodes tell one another of this one instead of
	// Listen, where that is not what the others can reach. Optional.
	Advertise string
	// Routes are the host:port of the other nodes. All nodes must name each
	// other: how many votes the cluster needs at its first start is counted here.
	Routes []string
	// Secret lets nodes into the cluster, the same on all nodes; at least
	// MinSecret bytes.
	Secret string
}

const (
	// MinSecret is the least length of ClusterConfig.Secret, in bytes.
	MinSecret = 16
	// DefaultReplicas is how many nodes keep each stream of a cluster.
	DefaultReplicas = 3
	// clusterAckTimeout is the default of Config.AckTimeout in a cluster. It has
	// room for the choice of a new leader, for which the server takes 4 to 9
	// seconds after the old one died without a word.
	clusterAckTimeout = 20 * time.Second
	// routeUser is the user of routes between nodes.
	routeUser = "counterfoil-route"
	// leaderTimeout bounds how long the start waits for a leader of the cluster
	// if its context has no end.
	leaderTimeout = 2 * time.Minute
)

func (c *ClusterConfig) validate() error {
	var errs []error
	for _, f := range []struct{ name, value string }{{"cluster name", c.Name}, {"node name", c.Node}} {
		if !nameRE.MatchString(f.value) {
			errs = append(errs, fmt.Errorf("%s %q is not 1 to 64 of A-Z a-z 0-9 _ -", f.name, f.value))
		}
	}
	if _, _, err := hostPort(c.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen address of the cluster: %w", err))
	}
	if c.Advertise != "" {
		if _, port, err := hostPort(c.Advertise); err != nil || port == 0 {
			errs = append(errs, fmt.Errorf("advertised address %q is not host:port", c.Advertise))
		}
	}
	if len(c.Routes) == 0 {
		errs = append(errs, errors.New("a cluster needs the routes to its other nodes"))
	}
	for _, r := range c.Routes {
		if _, port, err := hostPort(r); err != nil || port == 0 {
			errs = append(errs, fmt.Errorf("route %q is not host:port", r))
		}
	}
	if len(c.Secret) < MinSecret {
		errs = append(errs, fmt.Errorf("the secret of the cluster has %d bytes, at least %d are needed", len(c.Secret), MinSecret))
	}
	return errors.Join(errs...)
}

func hostPort(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("address %q: port is not 0 to 65535", addr)
	}
	return host, port, nil
}

// clustered tells whether several servers keep the stream, so that what one of
// them says is not all that there is to know.
func (c *Config) clustered() bool { return c.Cluster != nil || c.URL != "" && c.Replicas > 1 }

// join makes the options those of a node. Every acknowledged write is flushed on
// most nodes: a power loss in all of them at once loses nothing.
func (c *ClusterConfig) join(o *server.Options) error {
	host, port, err := hostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen address of the cluster: %w", err)
	}
	o.ServerName = c.Node
	o.SyncAlways = true
	// Routes start after the listener for clients, so there must be one. Nobody
	// knows a password for it but we and who reads by Config.ListenAddr.
	o.Host, o.Port, o.DontListen = "127.0.0.1", server.RANDOM_PORT, false
	o.Cluster = server.ClusterOpts{
		Name: c.Name, Host: host, Port: port, Username: routeUser, Password: c.Secret,
		Advertise: c.Advertise, AuthTimeout: 5, NoAdvertise: true, PingInterval: 2 * time.Second, MaxPingsOut: 2,
	}
	// The server waits at its first start for as many nodes as it has routes, so
	// one of them leads to itself.
	for _, r := range slices.Compact(slices.Sorted(slices.Values(append([]string{c.Listen}, c.Routes...)))) {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: r, User: url.UserPassword(routeUser, c.Secret)})
	}
	return nil
}

// startNode runs a server of a cluster. What the store holds is the cluster's
// business: a server that cannot use its store starts on an empty one and gets
// everything from the others. The stream itself is never touched.
func (e *embedded) startNode(ctx context.Context) error {
	srv, err := e.launch(ctx)
	if errors.Is(err, errStore) {
		if err := e.setStoreAside(err, false); err != nil {
			return err
		}
		srv, err = e.launch(ctx)
	}
	if err != nil {
		return err
	}
	e.use(srv)
	return nil
}

// awaitLeader waits until the cluster has a leader and this node hears it. A
// node that starts alone waits here for the others.
func (e *embedded) awaitLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	t := time.NewTicker(5 * startPoll)
	defer t.Stop()
	for {
		srv := e.current()
		if srv == nil {
			return errNoServer
		}
		if leader, seen := metaLeader(srv); leader != "" {
			return nil
		} else if err := ctx.Err(); err != nil {
			return unavailable(fmt.Sprintf("cluster %s has no leader: node %s listens on %s and is connected to %s (hint: most nodes must run, reach each other by their routes %s, and have the same secret)",
				e.cfg.Cluster.Name, e.cfg.Cluster.Node, e.cfg.Cluster.Listen, list(seen), list(e.cfg.Cluster.Routes)), err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// metaLeader is the name of the server that leads the cluster as srv knows it,
// empty if there is none, and the names of the servers that it is connected to.
func metaLeader(srv *server.Server) (leader string, connected []string) {
	if j, err := srv.Jsz(nil); err == nil && j.Meta != nil {
		leader = j.Meta.Leader
	}
	if r, err := srv.Routez(nil); err == nil {
		for _, route := range r.Routes {
			connected = append(connected, route.RemoteName)
		}
	}
	slices.Sort(connected)
	return leader, slices.Compact(connected)
}

// leads tells whether a server leads a stream.
func leads(srv *server.Server, stream string) bool {
	acc, err := srv.LookupAccount(account)
	return err == nil && acc.JetStreamIsStreamLeader(stream)
}

func list(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}
