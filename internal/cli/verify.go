package cli

import "github.com/spf13/cobra"

func (c *cli) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "verify FILE --trust TRUST_FILE [--policy POLICY] [--json]",
		Short:              "Verify a bundle, a tlog-proof or an equivocation document offline",
		DisableFlagParsing: true, // the program counterfoil-verify reads the same arguments
		RunE: func(_ *cobra.Command, args []string) error {
			if code := c.deps.Verify(args, c.env.Stdin, c.env.Stdout, c.env.Stderr); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
}
