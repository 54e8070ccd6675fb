package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"counterfoil/ledger/trust"
	"counterfoil/witness/server"
)

// keyTypes are the types by their names on the command line.
var keyTypes = map[string]trust.KeyType{"ed25519": trust.TypeCosignature, "ml-dsa-44": trust.TypeMLDSA44}

func (p *program) keygenCommand() *cobra.Command {
	var name, file, kind string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a witness key",
		Long: `keygen writes a new key to a file that only its owner can read, and prints the verifier key
that logs and verifiers need. A file that exists is never replaced. One key belongs to
one witness: a cosignature does not say the name, and a state belongs to one key.

A key of type ml-dsa-44 withstands quantum computers; serve cosigns with one of each type.`,
		Example: `  counterfoil-witness keygen --name witness.example/w1 --key-file witness.key
  counterfoil-witness keygen --type ml-dsa-44 --name witness.example/w1 --key-file witness.pq.key`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t, ok := keyTypes[kind]
			if !ok {
				return usagef("unknown key type %q (hint: --type ed25519 or ml-dsa-44)", kind)
			}
			k, err := server.GenerateKeyOf(t, file, name, rand.Reader)
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
	cmd.Flags().StringVar(&kind, "type", "ed25519", "ed25519 or ml-dsa-44")
	require(cmd, "name", "key-file")
	return cmd
}
