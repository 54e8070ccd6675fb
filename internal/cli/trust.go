package cli

import "github.com/spf13/cobra"

func (c *cli) trustCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "What a verifier needs from outside",
		Args:  c.groupArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.trustExportCommand())
	return cmd
}

func (c *cli) trustExportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the ledger's trust file",
		Long: `export writes the trust file: the log's key and the keys that sign events. It needs
no token. A verifier's trust is worth as much as the way by which this file came:
compare it with the one you have before you replace it.`,
		Example: `  counterfoil trust export --out trust.json
  counterfoil trust export --server https://ledger.example --out trust.json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.connect(true)
			if err != nil {
				return err
			}
			defer cl.Close()
			b, err := cl.Trust(cmd.Context())
			if err != nil {
				return err
			}
			return c.deliver(b, out)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write instead of stdout")
	c.addClientFlags(cmd)
	return cmd
}
