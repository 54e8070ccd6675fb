package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/internal/backup"
	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// errAhead: a witness knows of more than the copy has.
var errAhead = errors.New("a witness has seen more of this log than the copy has: what was signed since then is not in it")

func (c *cli) restoreCommand() *cobra.Command {
	var dir, passphraseFile, policyFile string
	var verify bool
	cmd := &cobra.Command{
		Use:   "restore BACKUP [CONTINUATION ...]",
		Short: "Make a data directory from backups",
		Long: `restore makes a data directory, which must be missing or empty, from a whole backup and
those that continue it, in order. Every digest, every leaf, the root and the log's
signature are checked before the directory appears.

With --witness-policy the witnesses are asked first which checkpoint of the log they have.
If one has seen more than the copy, nothing is restored (exit code 1): the ledger would sign
a second history. --verify checks, asks, and writes nothing.`,
		Example: `  counterfoil restore monday.backup tuesday.backup --data restored
  counterfoil restore whole.backup --passphrase-file passphrase --data restored
  counterfoil restore whole.backup --verify --witness-policy witnesses.policy`,
		Args: want(1, 1000),
		RunE: func(cmd *cobra.Command, args []string) error {
			logger, err := c.logger("warn")
			if err != nil {
				return err
			}
			passphrase, err := readPassphrase(passphraseFile)
			if err != nil {
				return err
			}
			opts := backup.Options{Passphrase: passphrase, VerifyOnly: verify, Logger: logger}
			var seen []seenBy
			if policyFile != "" {
				if seen, err = c.askWitnesses(cmd, args[len(args)-1], policyFile); err != nil {
					return err
				}
				for _, s := range seen {
					opts.VerifyOnly = opts.VerifyOnly || s.Ahead
				}
			}
			r, err := backup.Restore(cmd.Context(), dir, args, opts)
			if err != nil {
				return err
			}
			doc := documentOf(r.Manifest)
			doc.Missing, doc.Witnesses = r.Missing, seen
			if err := c.showBackup(doc); err != nil {
				return err
			}
			if opts.VerifyOnly && !verify {
				return fmt.Errorf("%w; nothing was restored (hint: find a newer copy; docs/runbooks/backup.md)", errAhead)
			}
			for _, s := range seen {
				if s.Ahead {
					return errAhead
				}
			}
			if !verify {
				c.say("restored %s", dir)
			}
			return nil
		},
	}
	addData(cmd, &dir)
	cmd.Flags().BoolVar(&verify, "verify", false, "check the backups and write nothing")
	cmd.Flags().StringVar(&passphraseFile, "passphrase-file", "", "file with the passphrase of the keys")
	cmd.Flags().StringVar(&policyFile, "witness-policy", "", "tlog-policy file: ask its witnesses whether they have seen more")
	c.addJSONFlag(cmd)
	return cmd
}

// askWitnesses asks which checkpoint of the log in a backup they have.
func (c *cli) askWitnesses(cmd *cobra.Command, last, policyFile string) ([]seenBy, error) {
	text, err := durable.ReadFile(policyFile, trust.MaxPolicyBytes)
	if err != nil {
		return nil, err
	}
	policy, err := trust.ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", policyFile, err)
	}
	m, err := readBackup(last)
	if err != nil {
		return nil, err
	}
	seen, err := backup.Ask(cmd.Context(), policy, m, tiles.HTTPConfig{Timeout: 10 * time.Second, Attempts: 2})
	if err != nil {
		return nil, err
	}
	var out []seenBy
	for _, s := range seen {
		d := seenBy{Witness: s.Witness, Size: s.Size, Ahead: s.Err == nil && s.Size > m.To.Size}
		if s.Err != nil {
			d.Error = s.Err.Error()
		}
		out = append(out, d)
	}
	return out, nil
}
