package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

func (c *cli) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "The keys that sign events: list, rotate, retire, revoke",
		Long: `keys shows and changes the event keys of a running ledger. Each change is an event of the
log. A retired or revoked key stays in the trust file: one trust file verifies what was
signed before a rotation and after it.`,
		Args: c.groupArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(c.keysListCommand(), c.keysGenerateCommand(), c.keysRegisterCommand(), c.keysRotateCommand(),
		c.keysEndCommand("retire", "retired", "Take a key out of use; what it signed stays good"),
		c.keysEndCommand("revoke", "revoked", "Declare that a key was in other hands"),
		c.keysEndCommand("disable", "disabled", "Take a key out of use for a reason of the operator's"),
		c.keysExportCommand())
	return cmd
}

func (c *cli) keysListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the event keys and the leaves that each may sign",
		Example: `  counterfoil keys list
  counterfoil keys list --json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := withClient(c, func(cl *client.Client) (*client.Answer[client.Keys], error) { return cl.Keys(cmd.Context()) })
			return show(c, a, err, func(all *client.Keys) error {
				rows := [][]string{{"key", "status", "from", "to", "revoked from"}}
				for _, k := range all.Keys {
					status := k.Status
					if k.KeyID == all.Signing {
						status = "signs"
					}
					rows = append(rows, []string{k.KeyID, status, strconv.FormatUint(k.FromIndex, 10), index(k.ToIndex), index(k.RevokedFromIndex)})
				}
				return table(c.env.Stdout, rows)
			})
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func index(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}

func (c *cli) keysGenerateCommand() *cobra.Command {
	var out string
	var digests bool
	cmd := &cobra.Command{
		Use:   "generate --out FILE",
		Short: "Write the seed of a new key, for register and an external signer",
		Long: `generate writes a new Ed25519 seed to FILE (mode 0600, never over a file that is there)
and prints key id and public key. It talks to no ledger and registers nothing. To make a
running ledger sign with a new key of its own, use rotate.`,
		Example: `  counterfoil keys generate --out event.seed
  counterfoil keys generate --out signer.seed --digests   # a key that signs digests`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usagef("--out FILE", "no file for the seed")
			}
			pub, err := keyring.GenerateSeed(out, rand.Reader)
			if err != nil {
				return err
			}
			id := event.KeyID(pub)
			if digests {
				id = event.PrehashKeyID(pub)
			}
			return c.showKey(&client.Answer[client.Key]{Value: client.Key{KeyID: id, PublicKey: base64.StdEncoding.EncodeToString(pub)}})
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file for the seed")
	cmd.Flags().BoolVar(&digests, "digests", false, "the key signs digests (Ed25519ph), as external signers do")
	cmd.Flags().BoolVar(&c.json, "json", false, "answer with one JSON document")
	return cmd
}

func (c *cli) keysRegisterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "register KEY_ID PUBLIC_KEY",
		Short: "Let a further key sign from the next leaf on",
		Long: `register adds a public key, in base64, under its id. It may sign from the next leaf on;
which key the ledger signs with does not change. A registered key stays as it is.`,
		Example: `  counterfoil keys register ed25519ph:… /+AixhJ9grIbAkkjuQ6nfHWb+OtIrtXOUVZGJWhGMwE=`,
		Args:    want(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeKey(func(cl *client.Client) (*client.Answer[client.Key], error) {
				return cl.RegisterKey(cmd.Context(), args[0], args[1])
			})
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) keysRotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Sign with a new key from now on, and retire the one before",
		Long: `rotate makes a new key in the ledger's directory of keys, registers it, signs with it from
then on, and retires the key before. Calls in flight are not disturbed. Give verifiers the
new trust file afterwards: counterfoil trust export.`,
		Example: `  counterfoil keys rotate && counterfoil trust export --out trust.json`,
		Args:    want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.changeKey(func(cl *client.Client) (*client.Answer[client.Key], error) { return cl.RotateKey(cmd.Context()) })
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) keysEndCommand(name, status, short string) *cobra.Command {
	var from int64
	cmd := &cobra.Command{
		Use:   name + " KEY_ID",
		Short: short,
		Long: short + `.
It signs nothing from the next leaf on; a key that signs must be rotated first.`,
		Example: `  counterfoil keys ` + name + ` ed25519:…`,
		Args:    want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var at *uint64
			if cmd.Flags().Changed("from-index") {
				if from < 0 {
					return usagef("a leaf index, 0 or more", "--from-index %d", from)
				}
				n := uint64(from)
				at = &n
			}
			return c.changeKey(func(cl *client.Client) (*client.Answer[client.Key], error) {
				return cl.SetKeyStatus(cmd.Context(), args[0], status, at)
			})
		},
	}
	if status == "revoked" {
		cmd.Long = `revoke declares that a key was in other hands: nothing that it signed counts from a leaf
on. Without --from-index that is the next leaf. If it reaches back to leaves that were
counted, the ledger ends, and its next start makes index and views anew.`
		cmd.Example = `  counterfoil keys rotate                              # the key that signs cannot be revoked
  counterfoil keys revoke ed25519:… --from-index 4213  # the first leaf that the thief may have signed`
		cmd.Flags().Int64Var(&from, "from-index", 0, "first leaf from which its signatures do not count (default: the next one)")
	}
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) keysExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export KEY_ID",
		Short: "Write one public key as PEM, for other tools",
		Long: `export writes the public key as PEM (SubjectPublicKeyInfo), for DSSE tools. For
counterfoil verify use the trust file: counterfoil trust export.`,
		Example: `  counterfoil keys export ed25519:… > event.pem`,
		Args:    want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := withClient(c, func(cl *client.Client) (*client.Answer[client.Keys], error) { return cl.Keys(cmd.Context()) })
			if err != nil {
				return err
			}
			for _, k := range a.Value.Keys {
				if k.KeyID != args[0] {
					continue
				}
				if c.json {
					return c.printJSON(k)
				}
				return c.printPEM(k)
			}
			return fmt.Errorf("the ledger has no event key %s (hint: counterfoil keys list)", plain(args[0]))
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) printPEM(k client.Key) error {
	pub, err := base64.StdEncoding.DecodeString(k.PublicKey)
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return errors.New("the ledger's answer holds no Ed25519 key")
	}
	der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(pub))
	if err != nil {
		return err
	}
	return pem.Encode(c.env.Stdout, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func (c *cli) changeKey(change func(*client.Client) (*client.Answer[client.Key], error)) error {
	a, err := withClient(c, change)
	if err != nil {
		return err
	}
	return c.showKey(a)
}

func (c *cli) showKey(a *client.Answer[client.Key]) error {
	switch {
	case c.json && a.Raw != nil:
		return c.printRaw(a.Raw)
	case c.json:
		return c.printJSON(struct {
			KeyID     string `json:"keyId"`
			PublicKey string `json:"publicKey"`
		}{a.Value.KeyID, a.Value.PublicKey})
	}
	k := a.Value
	from := ""
	if a.Raw != nil {
		from = strconv.FormatUint(k.FromIndex, 10)
	}
	return pairs(c.env.Stdout, "key", k.KeyID, "public key", k.PublicKey, "status", k.Status, "from leaf", from, "to leaf", index(k.ToIndex), "revoked from", index(k.RevokedFromIndex))
}
