package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"
)

// Node is what makes a ledger one of several nodes; without a name it is alone.
type Node struct {
	Cluster, Name string
	Listen        string   // for the other nodes
	Routes        []string // host:port of the other nodes
	Replicas      int
	RepairAlone   bool
	// Advertise is what nodes tell one another of this one instead of Listen.
	Advertise string
}

func (c *cli) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Prepare, refill and remove the nodes of a ledger that runs on several machines",
		Args:  c.groupArgs,
		RunE:  needsCommand,
	}
	cmd.AddCommand(c.nodePrepareCommand(), c.nodeFetchCommand(), c.nodeRemoveCommand())
	return cmd
}

func (c *cli) nodePrepareCommand() *cobra.Command {
	var cfg ServeConfig
	var out []string
	cmd := &cobra.Command{
		Use:   "prepare --data DIR --out DIR2 --out DIR3",
		Short: "Make data directories for further nodes",
		Long: `prepare gives further nodes of a ledger their data directories: who the ledger is, its keys
and its tokens. Everything else a node gets from the others when it starts. If --data holds
no ledger, it becomes the directory of the first node.

The directories hold all secrets of the ledger. Move each to its machine the way that you
move secrets, and leave no copy behind.`,
		Example: `  counterfoil node prepare --data n1 --origin example.com/ledger --out n2 --out n3`,
		Args:    want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(out) == 0 {
				return usagef("--out DIR, once for each further node", "no directory for a node")
			}
			var err error
			if cfg.Logger, err = c.logger("warn"); err != nil {
				return err
			}
			origin, err := c.deps.App.PrepareNodes(cfg, out)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(struct {
					SchemaVersion string   `json:"schemaVersion"`
					Origin        string   `json:"origin"`
					Data          []string `json:"data"`
				}{"counterfoil.nodes.v1", origin, append([]string{cfg.Data}, out...)})
			}
			_, err = fmt.Fprintf(c.env.Stdout, "%s has the nodes %s\n", origin, strings.Join(append([]string{cfg.Data}, out...), ", "))
			return err
		},
	}
	addData(cmd, &cfg.Data)
	f := cmd.Flags()
	f.StringVar(&cfg.Origin, "origin", "", "name of the log of a new ledger, like example.com/ledger; chosen once (default: a random one)")
	f.StringVar(&cfg.Tenant, "tenant", "", "tenant of all events of a new ledger; chosen once")
	f.StringArrayVar(&out, "out", nil, "directory of a further node; may be repeated")
	return cmd
}

// addNodeFlags adds what makes a ledger one of several nodes.
func addNodeFlags(cmd *cobra.Command, n *Node) {
	f := cmd.Flags()
	f.StringVar(&n.Cluster, "cluster-name", "", "name of the cluster that this node belongs to, the same on all nodes (default: no cluster)")
	f.StringVar(&n.Name, "node", "", "name of this node, another on each and the same for ever")
	f.StringVar(&n.Listen, "cluster-listen", "", "address at which this node takes the others; the network between nodes must be private")
	f.StringVar(&n.Advertise, "cluster-advertise", "", "host:port that nodes tell one another of this one, where they do not reach --cluster-listen")
	f.StringSliceVar(&n.Routes, "routes", nil, "host:port of the other nodes' --cluster-listen, by commas")
	f.IntVar(&n.Replicas, "replicas", 0, "servers that keep the stream: 3 or 5 (default 3 in a cluster)")
	f.BoolVar(&n.RepairAlone, "repair-alone", false, "make a lost stream anew from this node's log though other nodes are away for good")
}

// check says what of a node's flags is missing or does not fit together.
func (n *Node) check(nats string) error {
	if n.Cluster == "" {
		if n.Name != "" || n.Listen != "" || n.Advertise != "" || len(n.Routes) > 0 || n.Replicas > 0 || n.RepairAlone {
			return usagef("--cluster-name NAME", "flags of a node without the name of its cluster")
		}
		return nil
	}
	if n.Name == "" {
		return usagef("--node NAME", "a node of cluster %q without a name", n.Cluster)
	}
	if nats == "" && (n.Listen == "" || len(n.Routes) == 0) {
		return usagef("--cluster-listen ADDR --routes ADDR,ADDR", "node %q of cluster %q does not know the other nodes", n.Name, n.Cluster)
	}
	for _, r := range n.Routes {
		if _, port, err := net.SplitHostPort(r); err != nil || port == "" {
			return usagef("--routes 10.0.0.2:6222,10.0.0.3:6222", "%q is not host:port: %v", r, errors.Join(err))
		}
	}
	return nil
}
