package cli

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// maxPage is the ledger's bound on a page.
const maxPage = 256

type listFlags struct {
	tool, agent, status, state, lifecycle, kind string
	from, to, pageToken                         string
	limit                                       int
	olderThan                                   time.Duration
	open, unknown, newest                       bool
}

func (c *cli) listCommand() *cobra.Command {
	var f listFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List attempts, or events by status and lifecycle",
		Long: `list shows attempts with the state they are in now. With --status, --lifecycle or
--kind it shows the receipts of single events instead. Contracts, keys and notices of the
ledger about itself are attempts too; without a filter they are left out of the table.

An attempt without an outcome is open, which proves nothing; an unknown outcome is not
a failed one; both have an age, by the ledger's clock. Every answer says which tree size it reflects.`,
		Example: `  counterfoil list --state failed
  counterfoil list --open --tool write_file
  counterfoil list --lifecycle outcome --status failed --from 2026-07-01 --json
  counterfoil list --unknown --older-than 15m
  counterfoil list --open --limit 256`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, receipts, err := f.query(c.env.Now())
			if err != nil {
				return err
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			if receipts {
				a, err := cl.Receipts(cmd.Context(), query)
				return show(c, a, err, c.showReceipts)
			}
			a, err := cl.Attempts(cmd.Context(), query)
			return show(c, a, err, func(p *client.Attempts) error { return c.showAttempts(p, all || f.words() != "") })
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&all, "all", false, "also contracts, keys and notices of the ledger, which are no calls")
	fl.StringVar(&f.tool, "tool", "", "name of the action")
	fl.StringVar(&f.agent, "agent", "", "agent id")
	fl.StringVar(&f.state, "state", "", "state of the attempt: open, unknown, succeeded, failed, …")
	fl.BoolVar(&f.open, "open", false, "short for --state open")
	fl.BoolVar(&f.unknown, "unknown", false, "short for --state unknown")
	fl.DurationVar(&f.olderThan, "older-than", 0, "attempts that occurred at least so long ago, like 15m")
	fl.StringVar(&f.status, "status", "", "status of the event: requested, succeeded, failed, …")
	fl.StringVar(&f.lifecycle, "lifecycle", "", "attempt, outcome, reversal, reconciliation or review")
	fl.StringVar(&f.kind, "kind", "", "subject kind, such as tool_action")
	fl.StringVar(&f.from, "from", "", "first time at which it occurred, RFC 3339 or a day")
	fl.StringVar(&f.to, "to", "", "end of the time in which it occurred, RFC 3339 or a day")
	fl.IntVar(&f.limit, "limit", 50, "rows of a page, 1 to "+strconv.Itoa(maxPage))
	fl.BoolVar(&f.newest, "newest", false, "newest first")
	fl.StringVar(&f.pageToken, "page-token", "", "go on where a page ended")
	complete(cmd, "lifecycle", "attempt", "outcome", "reversal", "reconciliation", "review")
	complete(cmd, "state", "open", "unknown", "succeeded", "failed", "not_started", "reversed", "confirmed_committed", "confirmed_absent", "contradicted")
	c.addClientFlags(cmd)
	return cmd
}

// query words the flags for the API, and says whether they are about events.
func (f *listFlags) query(now time.Time) (query url.Values, receipts bool, err error) {
	receipts = f.status != "" || f.lifecycle != "" || f.kind != ""
	states := 0
	for word, set := range map[string]bool{f.state: f.state != "", "open": f.open, "unknown": f.unknown} {
		if set {
			f.state = word
			states++
		}
	}
	if states > 1 {
		return nil, false, usagef("leave one out", "--state, --open and --unknown exclude each other")
	}
	if receipts && states > 0 {
		return nil, false, usagef("leave one out", "a state belongs to an attempt; --status, --lifecycle and --kind to an event")
	}
	if f.olderThan < 0 || f.olderThan > 0 && f.to != "" {
		return nil, false, usagef("give one of them, like --older-than 15m", "--older-than is negative, or stands beside --to")
	}
	if f.olderThan > 0 {
		f.to = now.Add(-f.olderThan).UTC().Format(time.RFC3339Nano)
	}
	if f.limit < 1 || f.limit > maxPage {
		return nil, false, usagef("go on with --page-token", "--limit %d is not within 1 to %d", f.limit, maxPage)
	}
	for name, t := range map[string]*string{"from": &f.from, "to": &f.to} {
		if *t != "" {
			if *t, err = timeFlag(name, *t); err != nil {
				return nil, false, err
			}
		}
	}
	query = url.Values{"limit": {strconv.Itoa(f.limit)}}
	if f.newest {
		query.Set("order", "newest")
	}
	for name, v := range map[string]string{"tool": f.tool, "agent": f.agent, "status": f.status, "state": f.state, "lifecycle": f.lifecycle,
		"kind": f.kind, "from": f.from, "to": f.to, "pageToken": f.pageToken} {
		if v != "" {
			query.Set(name, v)
		}
	}
	return query, receipts, nil
}

// words are the filters by name or state: who gives one knows what they look for.
func (f *listFlags) words() string { return f.tool + f.agent + f.state }

// showAttempts shows a page. Without all it leaves out what the ledger and its
// operator did, and says how much that is.
func (c *cli) showAttempts(page *client.Attempts, all bool) error {
	rows := [][]string{{"attempt", "state", "age", "tool", "agent", "occurred", "leaves"}}
	hidden := 0
	for i := range page.Attempts {
		a := &page.Attempts[i]
		switch event.SubjectKind(a.Subject.Kind) {
		case event.Contract, event.Key, event.Ledger:
			if !all {
				hidden++
				continue
			}
		}
		leaves := utoa(a.FirstIndex)
		if a.LastIndex > a.FirstIndex {
			leaves += "…" + utoa(a.LastIndex)
		}
		rows = append(rows, []string{a.AttemptID, stateOf(a.State, a.InDoubt, a.Corrected, a.Review), c.age(a), about(a), a.AgentID, a.OccurredAt, leaves})
	}
	if hidden > 0 {
		c.say("hint: %d of this page are contracts, keys or notices of the ledger: --all shows them", hidden)
	}
	return c.showPage(rows, "attempt", page.TreeSize, page.NextPageToken)
}

// age is how long an attempt has been waiting, by the ledger's clock: only where
// nobody knows its end.
func (c *cli) age(a *client.AttemptSummary) string {
	captured, ok := event.ParseTime(a.CapturedAt)
	if !ok || a.State != "open" && a.State != "unknown" {
		return ""
	}
	d := max(0, c.env.Now().Sub(captured))
	if days := d / (24 * time.Hour); days > 0 {
		return fmt.Sprintf("%dd%dh", days, d%(24*time.Hour)/time.Hour)
	}
	if d >= time.Hour {
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.Truncate(time.Second).String()
}

func (c *cli) showReceipts(page *client.Receipts) error {
	rows := [][]string{{"leaf", "lifecycle", "status", "tool", "agent", "occurred", "attempt", "event"}}
	for i := range page.Receipts {
		r := &page.Receipts[i]
		rows = append(rows, []string{utoa(r.LeafIndex), r.Lifecycle, r.Action.Status, r.Action.Name, r.Source.AgentID, r.OccurredAt, r.AttemptID, r.EventID})
	}
	return c.showPage(rows, "event", page.TreeSize, page.NextPageToken)
}

func (c *cli) showPage(rows [][]string, what string, treeSize uint64, next string) error {
	n := len(rows) - 1
	if n > 0 {
		if err := table(c.env.Stdout, rows); err != nil {
			return err
		}
	}
	if n != 1 {
		what += "s"
	}
	c.say("%s at tree size %d", fmt.Sprintf("%d %s", n, what), treeSize)
	if next != "" {
		c.say("hint: there are more: --page-token %s", plain(next))
	}
	return nil
}

// about is the tool of an attempt, and what it is about if that is more.
func about(a *client.AttemptSummary) string {
	if a.Subject.ID == "" || a.Subject.ID == a.Tool {
		return a.Tool
	}
	return a.Tool + " " + a.Subject.ID
}
