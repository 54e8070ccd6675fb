package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"counterfoil/witness/server"
)

func (p *program) keygenCommand() *cobra.Command {
	var name, file string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a witness key",
		Long: `keygen writes a new key to a file that only its owner can read, and prints the verifier key
that logs and verifiers need. A file that exists is never replaced. One key belongs to
one witness: a cosignature does not say the name, and a state belongs to one key.`,
		Example: "  counterfoil-witness keygen --name witness.example/w1 --key-file witness.key",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			k, err := server.GenerateKey(file, name, rand.Reader)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%w (hint: choose another --key-file; the logs know the key that is there)", err)
			}
			if err != nil {
				return err
			}
			return p.print([]byte(k.Verifier().String() + "\n"))
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the witness: a URL without its scheme, like witness.example/w1")
	cmd.Flags().StringVar(&file, "key-file", "", "file for the key")
	require(cmd, "name", "key-file")
	return cmd
}
