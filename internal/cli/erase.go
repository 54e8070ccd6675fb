package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

func (c *cli) eraseCommand() *cobra.Command {
	var attempts []string
	var subject string
	var redact, confirm bool
	cmd := &cobra.Command{
		Use:   "erase --attempt ID|--subject KIND:ID --confirm",
		Short: "Destroy the private values of attempts; their receipts stay good",
		Long: `erase destroys the keys and bodies of attempts in the ledger's vault. What stays in the log
are commitments that nobody can open any more; receipts and bundles verify as before. It is
an event of the log, and nothing brings it back.

With --redact the bodies go and the key stays: a repeat of a call still gets its receipt. A
purge, which is what erase does otherwise, answers a repeat with content_erased.

A legal hold refuses the whole call. The answer says what an erasure cannot reach: backups,
exports, and the systems that sent the values. See docs/erasure.md.`,
		Example: `  counterfoil erase --attempt att_… --confirm
  counterfoil erase --subject tool_action:invoice-17 --confirm --json
  counterfoil erase --attempt att_… --redact --confirm`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := client.EraseRequest{Attempts: attempts, State: event.PrivacyPurged, Confirm: confirm}
			if redact {
				r.State = event.PrivacyRedacted
			}
			var err error
			if r.Subject, err = eitherOf(attempts, subject); err != nil {
				return err
			}
			return c.eraseAll(cmd, r)
		},
	}
	cmd.Flags().StringArrayVar(&attempts, "attempt", nil, "attempt to erase; may be given again")
	cmd.Flags().StringVar(&subject, "subject", "", "erase all attempts about a subject, as KIND:ID")
	cmd.Flags().BoolVar(&redact, "redact", false, "destroy the bodies only, keep the key")
	cmd.Flags().BoolVar(&confirm, "confirm", false, "say that this is meant; without it nothing is erased")
	c.addClientFlags(cmd)
	return cmd
}

// eraseAll repeats the call while the subject has more attempts.
func (c *cli) eraseAll(cmd *cobra.Command, r client.EraseRequest) error {
	for {
		a, err := withClient(c, func(cl *client.Client) (*client.Answer[client.Erasure], error) { return cl.Erase(cmd.Context(), r) })
		if err != nil {
			return err
		}
		if c.json {
			err = c.printRaw(a.Raw) // one document a call
		} else {
			err = c.showErasure(&a.Value)
		}
		if err != nil || !a.Value.More {
			return err
		}
	}
}

func (c *cli) showErasure(e *client.Erasure) error {
	var b strings.Builder
	attempts := "attempts"
	if e.Affected == 1 {
		attempts = "attempt"
	}
	fmt.Fprintf(&b, "%d %s %s, %d were before; verdict %s\n", e.Affected, attempts, plain(e.State), e.Already, plain(e.Verdict))
	for _, n := range e.Notices {
		fmt.Fprintf(&b, "announced at leaf %d, done at leaf %d: %s\n", n.LeafIndex, n.DoneIndex, plain(n.AttemptID))
	}
	if e.Open > 0 {
		fmt.Fprintf(&b, "%d of them had no outcome and get none any more\n", e.Open)
	}
	remarks(&b, "kept", e.Kept)
	remarks(&b, "not covered", e.NotCovered)
	_, err := fmt.Fprint(c.env.Stdout, b.String())
	return err
}

func remarks(b *strings.Builder, title string, list []client.Remark) {
	for _, r := range list {
		fmt.Fprintf(b, "%s: %s: %s\n", title, plain(r.Code), plain(r.Text))
	}
}

// eitherOf reads --subject, which excludes --attempt; one of the two is needed.
func eitherOf(attempts []string, subject string) (*client.Subject, error) {
	if (len(attempts) == 0) == (subject == "") {
		return nil, usagef("--attempt ID or --subject KIND:ID", "give one of the two")
	}
	if subject == "" {
		return nil, nil
	}
	kind, id, ok := strings.Cut(subject, ":")
	if !ok || id == "" || !event.KnownKind(event.SubjectKind(kind)) {
		return nil, usagef("KIND:ID, such as tool_action:refund", "--subject %s", plain(subject))
	}
	return &client.Subject{Kind: kind, ID: id}, nil
}
