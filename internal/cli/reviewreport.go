package cli

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/internal/reviewer"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

func (c *cli) reviewDueCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "due --policy FILE",
		Short: "Show which contracts a run would review, in which order and why",
		Long: `due plans a run and runs nothing: no evidence is opened and nothing is recorded. Triggers are what
changed since the newest review of each contract: policy, impact, verifiers and their trust
material, retention class, or an incident that names it.`,
		Example: `  counterfoil review due --policy mine.yaml --trusted-root trusted_root.json
  counterfoil review due --policy mine.yaml --due --budget 50 --json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			l := reviewer.Ledger{Client: cl}
			j, err := c.judgeOf(cmd.Context(), &f, l)
			if err != nil {
				return err
			}
			fleet, err := c.loadFleet(cmd.Context(), l, &f.selectionFlags, j, false)
			if err != nil {
				return err
			}
			return c.showDue(fleet.selection.New(fleet.contracts), fleet.selection.Now)
		},
	}
	f.selectionFlags.add(cmd)
	f.trustFlags.add(cmd)
	cmd.Flags().StringVar(&f.policy, "policy", "", "today's policy (YAML); required")
	cmd.Flags().StringVar(&f.trust, "trust", "", "trust file with the keys that sign receipts (default: the ledger's own)")
	c.addClientFlags(cmd)
	return cmd
}

type dueEntry struct {
	Contract   string           `json:"contract"`
	Impact     string           `json:"impact"`
	Receipt    string           `json:"receipt"`
	State      string           `json:"state"` // queued or deferred
	Trigger    review.Trigger   `json:"trigger"`
	Due        []review.Trigger `json:"due,omitempty"`
	ReviewedAt string           `json:"reviewedAt,omitempty"`
}

func (c *cli) showDue(p review.Plan, now time.Time) error {
	list := []dueEntry{}
	add := func(state string, cs []review.Candidate) {
		for _, k := range cs {
			e := dueEntry{k.Name, k.Terms.Impact, k.Terms.Receipt, state, k.Trigger, k.Due, ""}
			if k.Last != nil {
				e.ReviewedAt = event.FormatTime(k.Last.At)
			}
			list = append(list, e)
		}
	}
	add("queued", p.Review)
	add("deferred", p.Deferred)
	if c.json {
		return c.printJSON(struct {
			SchemaVersion string     `json:"schemaVersion"`
			At            string     `json:"at"`
			Contracts     []dueEntry `json:"contracts"`
		}{"counterfoil.review-due.v1", event.FormatTime(now), list})
	}
	rows := [][]string{{"contract", "impact", "state", "trigger", "reviewed", "receipt"}}
	for _, e := range list {
		rows = append(rows, []string{e.Contract, e.Impact, e.State, string(e.Trigger), e.ReviewedAt, e.Receipt})
	}
	if len(list) > 0 {
		if err := table(c.env.Stdout, rows); err != nil {
			return err
		}
	}
	c.say("%d queued, %d deferred", len(p.Review), len(p.Deferred))
	return nil
}

func (c *cli) reviewReportCommand() *cobra.Command {
	var since time.Duration
	var from, to string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "report",
		Short: "What the reviews of a week say together, and what is to be remedied",
		Long: `report answers four questions and not counts alone: the top reason codes, the privileged
contracts that newly need an admission, the oldest quarantines, and the classes of evidence that
repeatedly could not be read; all split by impact class. Then the queue of what is to be remedied.`,
		Example: `  counterfoil review report
  counterfoil review report --since 720h --markdown > report.md
  counterfoil review report --from 2026-11-01 --to 2026-12-01 --json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin, end, err := reportTime(c.env.Now(), since, from, to)
			if err != nil {
				return err
			}
			if markdown && c.json {
				return usagef("leave one out", "--markdown and --json exclude each other")
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			r, err := c.readReport(cmd, reviewer.Ledger{Client: cl}, begin, end)
			if err != nil {
				return err
			}
			switch {
			case c.json:
				return c.printJSON(r)
			case markdown:
				err = r.Markdown(c.env.Stdout)
			default:
				err = r.Text(c.env.Stdout)
			}
			if err != nil {
				return fmt.Errorf("write to stdout: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&since, "since", 7*24*time.Hour, "time before now that the report is about")
	cmd.Flags().StringVar(&from, "from", "", "first time instead, RFC 3339 or a day")
	cmd.Flags().StringVar(&to, "to", "", "end of the time, RFC 3339 or a day (default: now)")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print Markdown")
	c.addClientFlags(cmd)
	return cmd
}

// reportTime reads the time that a report is about.
func reportTime(now time.Time, since time.Duration, from, to string) (begin, end time.Time, err error) {
	end = now.UTC().Add(time.Millisecond).Truncate(time.Millisecond) // now included
	if to != "" {
		if to, err = timeFlag("to", to); err != nil {
			return begin, end, err
		}
		end, _ = event.ParseTime(to)
	}
	begin = end.Add(-since)
	if from != "" {
		if from, err = timeFlag("from", from); err != nil {
			return begin, end, err
		}
		begin, _ = event.ParseTime(from)
	}
	if !begin.Before(end) {
		return begin, end, usagef("a report is about a time before now, such as --since 168h", "from %s to %s is no time", event.FormatTime(begin), event.FormatTime(end))
	}
	return begin, end, nil
}

// readReport reads what a report is made of. Contracts and reviews are two reads:
// a review in between is in one of them.
func (c *cli) readReport(cmd *cobra.Command, l reviewer.Ledger, from, to time.Time) (*review.Report, error) {
	var subjects []review.Subject
	query := url.Values{"limit": {"256"}}
	for {
		a, err := l.Client.Contracts(cmd.Context(), query)
		if err != nil {
			return nil, err
		}
		for _, k := range a.Value.Contracts {
			s := review.Subject{Name: k.Name, Impact: k.Impact, Receipt: k.Receipt}
			if r := standingReview(k); r != nil {
				e := entryOf(r)
				s.Latest = &e
			}
			subjects = append(subjects, s)
		}
		if a.Value.NextPageToken == "" {
			break
		}
		query.Set("pageToken", a.Value.NextPageToken)
	}
	history, err := l.History(cmd.Context(), from, to)
	if err != nil {
		return nil, err
	}
	var entries []review.Entry
	for _, r := range history {
		entries = append(entries, entryOf(r))
	}
	return review.NewReport(subjects, entries, from, to), nil
}

// standingReview is the review by which a contract stands: the enforced one as
// long as it blocks, else the newest about the receipt; nil without one.
func standingReview(k *client.Contract) *client.Review {
	r := k.Latest()
	if k.Call == "refuse" {
		r = k.Enforced
	}
	if r == nil || r.Receipt != k.Receipt {
		return nil
	}
	return r
}

func entryOf(r *client.Review) review.Entry {
	at, _ := event.ParseTime(r.ReviewedAt)
	since, ok := event.ParseTime(r.Since)
	if !ok {
		since = at
	}
	e := review.Entry{Contract: r.Contract, Disposition: r.Disposition, Mode: event.ReviewEnforced, Reasons: r.ReasonCodes, Receipt: r.Receipt,
		Event: r.EventID, At: at, Since: since}
	if r.Run != nil {
		e.Mode, e.Impact, e.Causes = r.Run.Mode, r.Run.Impact, r.Run.Causes
	} else if r.Reviewer != "" {
		e.Mode = event.ReviewEnforced + " by " + strings.TrimSpace(r.Reviewer)
	}
	return e
}
