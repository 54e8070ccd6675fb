package cli

import (
	"github.com/spf13/cobra"

	"counterfoil/ledger/trust"
)

func (c *cli) trustCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "What a verifier needs from outside",
		Args:  c.groupArgs,
		RunE:  needsCommand,
	}
	cmd.AddCommand(c.trustExportCommand())
	return cmd
}

func (c *cli) trustExportCommand() *cobra.Command {
	var out, format string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the ledger's trust file",
		Long: `export writes the trust file: the log's key and the keys that sign events. It needs
no token. A verifier's trust is worth as much as the way by which this file came:
compare it with the one you have before you replace it.

With --format tlog-policy it is the C2SP policy text of the log and its witnesses, for
tools that know nothing of events.`,
		Example: `  counterfoil trust export --out trust.json
  counterfoil trust export --server https://ledger.example --out trust.json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != formatTrust && format != formatPolicy {
				return usagef("--format "+formatTrust+" or "+formatPolicy, "unknown format %q", format)
			}
			cl, err := c.connect(true)
			if err != nil {
				return err
			}
			defer cl.Close()
			if format == formatPolicy {
				policy, err := cl.Policy(cmd.Context())
				if err != nil {
					return err
				}
				return c.deliver(policy, out)
			}
			b, err := cl.Trust(cmd.Context())
			if err != nil {
				return err
			}
			if err := c.deliver(b, out); err != nil {
				return err
			}
			if policy, err := cl.Policy(cmd.Context()); err == nil { // an older ledger has none
				c.warnOfPolicy(b, policy)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", formatTrust, formatTrust+" or "+formatPolicy)
	complete(cmd, "format", formatTrust, formatPolicy)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write instead of stdout")
	c.addClientFlags(cmd)
	return cmd
}

// Formats of trust export.
const (
	formatTrust  = "json"
	formatPolicy = "tlog-policy"
)

// warnOfPolicy says that a trust file asks for less than the ledger's own policy: a
// quorum of groups within groups does not fit into it.
func (c *cli) warnOfPolicy(file, policy []byte) {
	f, err := trust.Parse(file)
	if err != nil {
		return // who reads it will say so
	}
	p, err := trust.ParsePolicy(policy)
	if err == nil && p.Quorum != trust.QuorumNone && f.Quorum == 0 {
		c.say("counterfoil: this trust file asks for no witness: the ledger's quorum, of groups within groups, does not fit into it\nhint: give verifiers the policy too: counterfoil trust export --format %s, and verify --policy", formatPolicy)
	}
}
