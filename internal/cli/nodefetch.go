package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/witness/audit"
)

// Fetched says what taking a log from other nodes came to.
type Fetched struct {
	Origin    string
	Had, Size uint64 // leaves before, and of the checkpoint
	Root      string // its root, hex
	From      string // where the checkpoint was read
	Cosigned  string // how the policy's witnesses stand to it; "" without a policy
}

// fetched is the document of node fetch --json.
type fetched struct {
	SchemaVersion string `json:"schemaVersion"` // counterfoil.fetched.v1
	Origin        string `json:"origin"`
	Had           uint64 `json:"had"`
	Size          uint64 `json:"size"`
	Root          string `json:"root"`
	From          string `json:"from"`
	// Cosigned is absent where the log's key alone was verified.
	Cosigned string `json:"cosigned,omitempty"`
}

func (c *cli) nodeFetchCommand() *cobra.Command {
	var cfg ServeConfig
	var from []string
	cmd := &cobra.Command{
		Use:   "fetch --data DIR --from URL",
		Short: "Take the log from other nodes, proven by a checkpoint",
		Long: `fetch makes the log of a directory, which is empty or behind, the one that other nodes have.
It reads their newest checkpoint, verifies the log's signature on it, and proves every byte
of their tiles by it: nothing that they serve is believed. With --witness-policy the
checkpoint must have the cosignatures of a quorum. A leaf that differs from the own log's
ends it, with both digests.

The node must not run. A fetch that was ended goes on where it was. Start the node then:
private values, index and views come as they always do.`,
		Example: `  counterfoil node fetch --data n3 --from http://10.0.0.1:8480
  counterfoil node fetch --data n3 --from http://10.0.0.1:8480 --from http://10.0.0.2:8480 --witness-policy witnesses.policy`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(from) == 0 {
				return usagef("--from http://10.0.0.1:8480, an address of another node", "nobody to fetch the log from")
			}
			var err error
			if cfg.Logger, err = c.logger("warn"); err != nil {
				return err
			}
			bar := newProgress(c.env.Stderr, isTerminal(c.env.Stderr), time.Now)
			r, err := c.deps.App.FetchLog(cmd.Context(), cfg, from, func(leaves, of uint64) { bar.show(audit.Progress{Next: leaves, Size: of}) })
			bar.end()
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(fetched{"counterfoil.fetched.v1", r.Origin, r.Had, r.Size, r.Root, r.From, r.Cosigned})
			}
			by := "the log's key alone: no witness policy was given"
			if r.Cosigned != "" {
				by = "the log's key and witnesses: " + r.Cosigned
			}
			_, err = fmt.Fprintf(c.env.Stdout, "%s has %d leaves, %d of them fetched\nroot        %s\ncheckpoint  %s, signed by %s\n",
				plain(r.Origin), r.Size, r.Size-min(r.Had, r.Size), r.Root, plain(r.From), plain(by))
			return err
		},
	}
	addData(cmd, &cfg.Data)
	f := cmd.Flags()
	f.StringArrayVar(&from, "from", nil, "address of another node, or the prefix of a copy of the tiles; may be repeated")
	f.StringVar(&cfg.WitnessPolicy, "witness-policy", "", "tlog-policy file: the checkpoint must have the quorum's cosignatures")
	c.addJSONFlag(cmd)
	return cmd
}
