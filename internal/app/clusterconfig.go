package app

import (
	"errors"
	"fmt"
	"net"
	"regexp"
)

// Cluster makes a ledger one of several nodes that share one stream: each builds
// the same tree by itself, one at a time signs.
type Cluster struct {
	// Name is the same on all nodes, Node another on each: 1 to 32 of a-z 0-9 -.
	Name, Node string
	// Listen is the address that the embedded server takes the other nodes at,
	// Routes are where they are: host:port each. Both are empty with an external
	// NATS.
	Listen string
	Routes []string
	// Advertise, host:port, is what nodes tell one another of this one instead of
	// Listen. Optional.
	Advertise string
	// Replicas is how many servers keep the stream; default 3.
	Replicas int
	// RepairAlone lets this node rebuild a lost stream from its own log while other
	// nodes are away, whose logs may be longer.
	RepairAlone bool
}

var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// validate fills in defaults and reports every problem at once.
func (c *Cluster) validate(nats string, remote bool) error {
	var errs []error
	for _, x := range []struct{ what, name, hint string }{{"cluster", c.Name, "--cluster-name ledger"}, {"node", c.Node, "--node n1"}} {
		if !nodeName.MatchString(x.name) {
			errs = append(errs, fmt.Errorf("%s name %q is not 1 to 32 of a-z 0-9 - with a letter or digit at both ends (hint: such as %s)", x.what, x.name, x.hint))
		}
	}
	switch {
	case nats != "":
		if c.Listen != "" || c.Advertise != "" || len(c.Routes) > 0 {
			errs = append(errs, errors.New("an external NATS has its own cluster: leave out the address and the routes of the embedded one"))
		}
	case c.Listen == "" || len(c.Routes) == 0:
		errs = append(errs, errors.New("a node needs the address that it takes the others at, and where they are (hint: --cluster-listen ADDR --routes ADDR,ADDR)"))
	default:
		if err := checkAddress(c.Listen, remote); err != nil {
			errs = append(errs, fmt.Errorf("cluster address: %w", err))
		}
		if _, _, err := net.SplitHostPort(c.Advertise); c.Advertise != "" && err != nil {
			errs = append(errs, fmt.Errorf("advertised address %q: %w", c.Advertise, err))
		}
		for _, r := range c.Routes {
			if _, _, err := net.SplitHostPort(r); err != nil {
				errs = append(errs, fmt.Errorf("route %q: %w", r, err))
			}
			if r == c.Listen {
				errs = append(errs, fmt.Errorf("route %q is this node's own address (hint: --routes names the other nodes)", r))
			}
		}
	}
	if c.Replicas == 0 {
		c.Replicas = 3
	}
	if c.Replicas < 1 || c.Replicas > 5 || c.Replicas%2 == 0 {
		errs = append(errs, fmt.Errorf("%d replicas: 1, 3 or 5 can agree by majority, and an even number bears no more losses than one less (hint: --replicas 3 with three nodes, --replicas 5 with five)", c.Replicas))
	}
	return errors.Join(errs...)
}
