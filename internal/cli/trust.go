package cli

import (
	"fmt"

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
			b, err := cl.Trust(cmd.Context())
			if err != nil {
				return err
			}
			if format == formatPolicy {
				file, err := trust.Parse(b)
				if err != nil {
					return fmt.Errorf("the ledger's trust file: %w", err)
				}
				b = file.Policy().Append(nil)
			}
			return c.deliver(b, out)
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
