package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"counterfoil/internal/reviewer"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
	"counterfoil/ledger/review"
)

func (c *cli) contractCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "contract",
		Short: "Tool contracts: set, list, show",
		Long: `A contract says on which archive receipt the tools of a server are used, and how much harm they can
do. Setting one is an event of the log; the newest of a name is in force (docs/review.md).`,
		Args: c.groupArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(c.contractSetCommand(), c.contractListCommand(), c.contractShowCommand())
	return cmd
}

func (c *cli) contractSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set FILE…",
		Short: "Make contracts the ones in force",
		Long: `set reads contracts from files, or from the .json files of folders. One that is in force as it
is stays: nothing is recorded.`,
		Example: `  counterfoil contract set contracts/
  counterfoil contract set airtable.json --json`,
		Args: want(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var docs []review.Document
			for _, name := range args {
				got, err := readContracts(name)
				if err != nil {
					return err
				}
				docs = append(docs, got...)
			}
			if err := review.CheckContracts(docs); err != nil {
				return &usageError{err, "each contract stands in one file, once"}
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			if err := checkReceipts(cmd.Context(), reviewer.Ledger{Client: cl}, docs); err != nil {
				return err
			}
			set, err := setContracts(cmd.Context(), reviewer.Ledger{Client: cl}, docs, c.env.Now())
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(struct {
					SchemaVersion string `json:"schemaVersion"`
					Contracts     int    `json:"contracts"`
					Set           int    `json:"set"`
				}{"counterfoil.contract-set.v1", len(docs), set})
			}
			c.say("%d contracts, %d of them set now", len(docs), set)
			return nil
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) contractListCommand() *cobra.Command {
	var pageToken string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The contracts in force, and what their reviews say about calls",
		Example: `  counterfoil contract list
  counterfoil contract list --limit 256 --json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxPage {
				return usagef("go on with --page-token", "--limit %d is not within 1 to %d", limit, maxPage)
			}
			query := url.Values{"limit": {utoa(uint64(limit))}}
			if pageToken != "" {
				query.Set("pageToken", pageToken)
			}
			a, err := withClient(c, func(cl *client.Client) (*client.Answer[client.Contracts], error) {
				return cl.Contracts(cmd.Context(), query)
			})
			return show(c, a, err, func(p *client.Contracts) error {
				rows := [][]string{{"contract", "impact", "call", "disposition", "mode", "since", "receipt"}}
				for _, k := range p.Contracts {
					row := []string{k.Name, k.Impact, k.Call, "", "", "", k.Receipt}
					if r := standingReview(k); r != nil {
						row[3], row[4], row[5] = r.Disposition, modeOf(r), r.Since
					}
					rows = append(rows, row)
				}
				return c.showPage(rows, "contract", p.TreeSize, p.NextPageToken)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 64, "rows of a page, 1 to 256")
	cmd.Flags().StringVar(&pageToken, "page-token", "", "go on where a page ended")
	c.addClientFlags(cmd)
	return cmd
}

func modeOf(r *client.Review) string {
	if r.Run != nil {
		return r.Run.Mode
	}
	return "enforced"
}

// contractView is the document of contract show --json: what was decided then,
// and what is found now, side by side (REV-29).
type contractView struct {
	SchemaVersion string         `json:"schemaVersion"` // counterfoil.contract-view.v1
	TreeSize      uint64         `json:"treeSize"`
	Contract      jsontext.Value `json:"contract"` // as GET /v1/contracts has it
	// Then is the decision that the receipt binds; absent if it cannot be read,
	// with ThenUnavailable.
	Then            *thenView       `json:"then,omitempty"`
	ThenUnavailable string          `json:"thenUnavailable,omitempty"`
	Recheck         *review.Recheck `json:"recheck,omitempty"` // of the newest review, if it can be read
	ClaimBoundary   string          `json:"claimBoundary"`
}

type thenView struct {
	Kind        string              `json:"kind"`
	Decision    admission.Decision  `json:"decision"`
	ReasonCodes []admission.Code    `json:"reasonCodes"`
	Policy      admission.PolicyRef `json:"policy"`
	Class       string              `json:"class"`
	DecidedAt   string              `json:"decidedAt"`
	Evidence    string              `json:"evidenceBundle"`
}

func (c *cli) contractShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Both truths about a contract: what was decided then, and what its reviews find now",
		Example: `  counterfoil contract show mcp/airtable
  counterfoil contract show mcp/airtable --json`,
		Args: want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			return c.showContract(cmd.Context(), reviewer.Ledger{Client: cl}, args[0])
		},
	}
	c.addClientFlags(cmd)
	return cmd
}

func (c *cli) showContract(ctx context.Context, l reviewer.Ledger, name string) error {
	a, err := l.Contract(ctx, name)
	if err != nil {
		return err
	}
	var raw struct {
		Contracts []jsontext.Value `json:"contracts"`
	}
	if err := parseRaw(a.Raw, &raw); err != nil {
		return err
	}
	k := a.Value.Contracts[0]
	v := &contractView{SchemaVersion: "counterfoil.contract-view.v1", TreeSize: a.Value.TreeSize, Contract: raw.Contracts[0], ClaimBoundary: admission.ClaimBoundary}
	then, err := l.Decision(ctx, k.Receipt)
	switch {
	case errors.Is(err, reviewer.ErrUnreadable):
		v.ThenUnavailable = err.Error()
	case err != nil:
		return err
	default:
		d := then.Decision
		v.Then = &thenView{then.Kind, d.Decision, d.ReasonCodes, d.Policy, d.Class, d.DecidedAt, then.Evidence}
	}
	if r := k.Latest(); r != nil && r.Recheck != "" {
		if v.Recheck, err = l.Recheck(ctx, r.Recheck); err != nil && !errors.Is(err, reviewer.ErrUnreadable) {
			return err
		}
	}
	if c.json {
		return c.printJSON(v)
	}
	return c.printContract(k, v)
}

// printContract shows both truths. Neither replaces the other.
func (c *cli) printContract(k *client.Contract, v *contractView) error {
	call := k.Call
	if k.Reason != "" {
		call += " (" + k.Reason + ")"
	}
	w := c.env.Stdout
	err := pairs(w, "contract", k.Name, "server", k.Server, "impact", k.Impact, "calls", call, "receipt", k.Receipt, "artifact", k.Artifact, "tools", k.Tools,
		"digest", k.Digest, "set", k.SetAt, "event", k.EventID)
	if err != nil {
		return err
	}
	fmt.Fprint(w, "\nthen\n")
	if t := v.Then; t != nil {
		err = pairs(w, "  decision", string(t.Decision), "  reasons", joined(t.ReasonCodes), "  policy", t.Policy.ID+" "+t.Policy.Version+" "+t.Policy.Digest,
			"  class", t.Class, "  decided", t.DecidedAt, "  evidence", t.Evidence)
	} else {
		err = pairs(w, "  decision", "cannot be read: "+v.ThenUnavailable)
	}
	if err != nil {
		return err
	}
	for _, r := range []*client.Review{k.Enforced, k.Reported} {
		if r == nil {
			continue
		}
		fmt.Fprintf(w, "\nnow, %s\n", modeOf(r))
		recheck, causes, trigger := "", "", ""
		if r.Run != nil {
			recheck, causes, trigger = r.Run.Recheck+" "+r.Recheck, joined(r.Run.Causes), r.Run.Trigger
		}
		if r.Receipt != k.Receipt {
			fmt.Fprintln(w, "  of another receipt, which was replaced")
		}
		if err := pairs(w, "  disposition", r.Disposition, "  reasons", joined(r.ReasonCodes), "  recheck", recheck, "  causes", causes, "  policy", r.Policy,
			"  trigger", trigger, "  reviewer", r.Reviewer, "  reviewed", r.ReviewedAt, "  since", r.Since, "  review", r.EventID); err != nil {
			return err
		}
	}
	if k.Enforced == nil && k.Reported == nil {
		fmt.Fprint(w, "\nnow\n  not reviewed\n")
	}
	if _, err := fmt.Fprintf(w, "\n%s\n%s\n", admission.ClaimBoundary, wrap(admission.ClaimBoundaryText, "  ", 96)); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	if k.Enforced != nil || k.Reported != nil {
		return boundaries(w, "review_opinion_v1")
	}
	return nil
}

func joined[T ~string](words []T) string {
	s := ""
	for i, w := range words {
		if i > 0 {
			s += ", "
		}
		s += string(w)
	}
	return s
}
