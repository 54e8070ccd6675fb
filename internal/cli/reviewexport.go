package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
)

func (c *cli) reviewExportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export EVENT_ID|CONTRACT",
		Short: "Export a review as a SLSA verification summary, in a Sigstore bundle",
		Long: `export writes a review for the tools of others: a SLSA Verification Summary Attestation v1 in a
DSSE envelope with one signature by the ledger's event key, in a Sigstore bundle v0.3. A review that
continues has PASSED, every other FAILED; the reason codes are in an extension. It is a review's
opinion, and says nothing that the review in the log does not say.

Name the review by its event id, or a contract for the newest review of it. There is none of a review
by a person, nor of a contract without an artifact's bytes.`,
		Example: `  counterfoil review export mcp/airtable --vsa review.json
  counterfoil keys export KEY_ID > event.pem
  cosign verify-blob-attestation --bundle review.json --key event.pem \
      --type https://slsa.dev/verification_summary/v1 --insecure-ignore-tlog server.tgz`,
		Args: want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			id := args[0]
			if !strings.HasPrefix(id, "evt_") {
				a, err := cl.Contract(cmd.Context(), id)
				if err != nil {
					return err
				}
				if id, err = newestReview(a.Value.Contracts[0]); err != nil {
					return err
				}
			}
			b, err := cl.ReviewSummary(cmd.Context(), id)
			if err != nil {
				return err
			}
			return c.deliver(b, out)
		},
	}
	cmd.Flags().StringVar(&out, "vsa", "", "file to write instead of stdout")
	c.addClientFlags(cmd)
	return cmd
}

// newestReview is the event id of the newest review of a contract, of either mode.
func newestReview(k *client.Contract) (string, error) {
	r := k.Latest()
	if r == nil {
		return "", usagef("review it first: counterfoil review run", "contract %q has no review", k.Name)
	}
	return r.EventID, nil
}
