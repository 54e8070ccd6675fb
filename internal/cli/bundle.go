package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"counterfoil/internal/durable"
)

func (c *cli) bundleCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "bundle ATTEMPT_ID…",
		Short: "Export the receipts of attempts for offline verification",
		Long: `bundle writes the receipts of the named attempts, with their proofs and the signed
checkpoint, as one file. It holds no private value and no key that anyone should trust.
With --out the file is there whole, or not at all.`,
		Example: `  counterfoil bundle att_00112233445566778899aabbccddeeff --out a.bundle.json
  counterfoil trust export --out trust.json
  counterfoil verify a.bundle.json --trust trust.json`,
		Args: want(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			b, err := cl.Bundle(cmd.Context(), args...)
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

// deliver writes exact bytes to a file, durably and whole, or to stdout.
func (c *cli) deliver(b []byte, out string) error {
	if out == "" {
		if _, err := c.env.Stdout.Write(b); err != nil {
			return fmt.Errorf("write to stdout: %w", err)
		}
		return nil
	}
	if err := durable.WriteFile(out, b, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	c.say("wrote %s, %d bytes", out, len(b))
	return nil
}
