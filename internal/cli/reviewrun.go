package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"counterfoil/internal/reviewer"
	"counterfoil/internal/wait"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

var reviewTriggers = event.ReviewTriggers

type runFlags struct {
	selectionFlags
	trustFlags
	policy, trust, run, enforce string
	reportOnly, quiet, progress bool
	workers                     int
}

// runReport is the document of review run --json.
type runReport struct {
	SchemaVersion string              `json:"schemaVersion"` // counterfoil.review-run.v1
	Run           string              `json:"run"`
	AttemptID     string              `json:"attemptId"`
	Policy        admission.PolicyRef `json:"policy"`
	Verifiers     string              `json:"verifiers"`
	Enforce       string              `json:"enforce,omitempty"` // impact from which on reviews are enforced
	ContractsSet  int                 `json:"contractsSet"`
	// States counts outcomes by how far they came, Dispositions what was reviewed.
	States       map[string]int   `json:"states"`
	Dispositions map[string]int   `json:"dispositions"`
	Outcomes     []review.Outcome `json:"outcomes"`
}

func (c *cli) reviewRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --policy FILE",
		Short: "Judge the receipts of contracts under today's policy",
		Long: `run reviews contracts: those in force, or those of --contracts, which it sets first. For each it
reads the receipt and its evidence from the ledger's archive, verifies the evidence again with
the trust material that is given here, judges it by the policy, and appends a review.

Reviews are report-only: nothing is blocked, and each finding is in the queue of the report.
--enforce privileged makes those of privileged contracts count for calls, --enforce standard and
--enforce low those of the others too.

A run that ends early, by a signal or a crash, goes on with the same --run ID: nothing is judged twice.

Exit codes: 0 every contract that was reviewed continues, 1 at least one does not, 2 at least one
could not be judged, or wrong usage. Deferred contracts have not passed: they change no exit code and
are counted apart.`,
		Example: `  counterfoil review run --policy deploy/policies/privileged.yaml --trusted-root trusted_root.json
  counterfoil review run --policy mine.yaml --trusted-root trusted_root.json --contracts contracts/ --budget 500
  counterfoil review run --policy mine.yaml --trusted-root trusted_root.json --enforce privileged --due`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			err := c.reviewRun(ctx, &f)
			var code exitCode
			if err == nil || errors.As(err, &code) {
				return err
			}
			return c.unjudged(err)
		},
	}
	fs := cmd.Flags()
	f.selectionFlags.add(cmd)
	f.trustFlags.add(cmd)
	f.trustFlags.addLive(cmd)
	fs.StringVar(&f.policy, "policy", "", "today's policy (YAML); required")
	fs.StringVar(&f.trust, "trust", "", "trust file with the keys that sign receipts (default: the ledger's own)")
	fs.StringVar(&f.run, "run", "", "id of the run; one that was begun goes on (default: a new one)")
	fs.StringVar(&f.enforce, "enforce", "", "impact from which on reviews are enforced: privileged, standard or low")
	fs.BoolVar(&f.reportOnly, "report-only", false, "enforce nothing; the default")
	fs.IntVar(&f.workers, "workers", 0, "contracts that are verified at the same time (default: one for each processor)")
	fs.BoolVar(&f.progress, "progress", false, "show progress on stderr, also where that is no terminal")
	fs.BoolVar(&f.quiet, "quiet", false, "show no progress")
	complete(cmd, "enforce", event.ImpactPrivileged, event.ImpactStandard, event.ImpactLow)
	c.addClientFlags(cmd)
	return cmd
}

// judgeOf makes the judge of a command.
func (c *cli) judgeOf(ctx context.Context, f *runFlags, l reviewer.Ledger) (*review.Judge, error) {
	if f.policy == "" {
		return nil, usagef("name one, such as --policy deploy/policies/standard.yaml", "--policy is missing")
	}
	p, err := loadPolicy(f.policy)
	if err != nil {
		return nil, err
	}
	stack, err := f.stack(c)
	if err != nil {
		return nil, err
	}
	j := &review.Judge{Archive: l, Policy: p, Verifiers: stack.Verifiers, At: c.env.Now().UTC().Truncate(time.Millisecond), Pause: wait.For}
	if f.live {
		j.Live = reviewer.Registry{Fetch: stack.Fetch}
	}
	if f.trust == "" {
		j.Keys, err = l.Keys(ctx)
		return j, err
	}
	b, err := readNamed(f.trust, maxTrustBytes)
	if err != nil {
		return nil, err
	}
	j.Keys, err = reviewer.KeysOf(b)
	return j, err
}

func infosOf(j *review.Judge) []admission.VerifierInfo {
	var infos []admission.VerifierInfo
	for _, v := range j.Verifiers {
		infos = append(infos, v.Info())
	}
	return infos
}

func (c *cli) reviewRun(ctx context.Context, f *runFlags) error {
	if f.reportOnly && f.enforce != "" {
		return usagef("leave one out", "--report-only and --enforce exclude each other")
	}
	cl, err := c.connectWith(false, client.Config{})
	if err != nil {
		return err
	}
	defer cl.Close()
	l := reviewer.Ledger{Client: cl}
	j, err := c.judgeOf(ctx, f, l)
	if err != nil {
		return err
	}
	if f.run == "" {
		if f.run, err = c.newRunID(); err != nil {
			return err
		}
	}
	// What is missing is said before anything is recorded.
	run := &review.Run{ID: f.run, Enforce: f.enforce, Judge: j, Record: l, Workers: f.workers}
	if err := run.Check(); err != nil {
		return &usageError{err, "counterfoil review run --help"}
	}
	fleet, err := c.loadFleet(ctx, l, &f.selectionFlags, j, true)
	if err != nil {
		return err
	}
	if len(fleet.contracts) == 0 {
		return &hinted{errNoContracts, "set one: counterfoil contract set FILE"}
	}
	attempt, err := l.BeginRun(ctx, reviewer.RunInfo{ID: f.run, Policy: j.Policy.Ref().ID, Trigger: f.trigger, Enforce: f.enforce, Who: whoReviews(), At: j.At})
	if err != nil {
		return err
	}
	plan := fleet.selection.New(fleet.contracts)
	bar := newReviewBar(c.env.Stderr, (isTerminal(c.env.Stderr) || f.progress) && !f.quiet, c.env.Now, len(plan.Review))
	run.Observe = bar.show
	outcomes, err := run.Do(ctx, plan)
	bar.end()
	if outcomes == nil {
		return err
	}
	report := newRunReport(f.run, attempt, j, f.enforce, fleet.set, outcomes)
	if err == nil && review.AllJudged(outcomes) {
		if err := c.endRun(ctx, l, report); err != nil {
			return err
		}
	}
	return c.showRun(report, err)
}

// newRunID names a run.
func (c *cli) newRunID() (string, error) {
	var b [16]byte
	random := c.env.Random
	if random == nil {
		random = rand.Reader
	}
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("make a run id: %w", err)
	}
	return "run_" + hex.EncodeToString(b[:]), nil
}

func newRunReport(run, attempt string, j *review.Judge, enforce string, set int, outcomes []review.Outcome) *runReport {
	r := &runReport{SchemaVersion: "counterfoil.review-run.v1", Run: run, AttemptID: attempt, Policy: j.Policy.Ref(),
		Verifiers: review.VerifiersDigest(infosOf(j)), Enforce: enforce, ContractsSet: set,
		States: map[string]int{}, Dispositions: map[string]int{}, Outcomes: outcomes}
	for _, o := range outcomes {
		r.States[string(o.State)]++
		if o.Disposition != "" {
			r.Dispositions[string(o.Disposition)]++
		}
	}
	return r
}

// endRun records the end of a run that left nothing unjudged.
func (c *cli) endRun(ctx context.Context, l reviewer.Ledger, r *runReport) error {
	summary, err := json.Marshal(map[string]any{"run": r.Run, "states": r.States, "dispositions": r.Dispositions}, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the summary: %w", err)
	}
	refs := map[string]string{event.RefPolicy: r.Policy.Digest, event.RefVerifiers: r.Verifiers}
	return l.EndRun(ctx, r.AttemptID, c.env.Now(), refs, summary)
}

// showRun prints a run and gives its exit code. ended is why it ended early.
func (c *cli) showRun(r *runReport, ended error) error {
	if c.json {
		if err := c.printJSON(r); err != nil {
			return err
		}
	} else if err := c.showTickets(r); err != nil {
		return err
	}
	again := "counterfoil review run --run " + r.Run + " …, with the same files, goes on"
	notJudged := r.States[string(review.StateNotJudged)] + r.States[string(review.StateRefused)]
	switch {
	case ended != nil:
		c.say("counterfoil: the run was interrupted")
		c.say("hint: %s", again)
		return exitCode(exitUsage)
	case notJudged > 0:
		c.say("hint: %s", again)
		return exitCode(exitUsage)
	case r.Dispositions["retire"]+r.Dispositions["quarantine"]+r.Dispositions["re_admit"] > 0:
		return exitCode(exitFailed)
	}
	return nil
}

// showTickets prints what is to be remedied as tickets (REV-27), then counts.
func (c *cli) showTickets(r *runReport) error {
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		switch {
		case o.Error != "":
			c.say("%s: %s: %s", plain(o.Name), o.State, plain(o.Error))
		case o.Disposition == "continue":
		default:
			for _, line := range o.Ticket() {
				if _, err := fmt.Fprintln(c.env.Stdout, plain(line)); err != nil {
					return fmt.Errorf("write to stdout: %w", err)
				}
			}
			if o.Event != "" && o.State == review.StateReviewed {
				if _, err := fmt.Fprintf(c.env.Stdout, "review: %s (%s)\n\n", o.Event, o.Mode); err != nil {
					return fmt.Errorf("write to stdout: %w", err)
				}
			}
		}
	}
	c.say("run %s under policy %s %s: %s", plain(r.Run), plain(r.Policy.ID), r.Policy.Digest, countWords(r.States, "reviewed", "reviewed_before", "deferred", "refused", "not_judged"))
	if words := countWords(r.Dispositions, "continue", "re_admit", "quarantine", "retire"); words != "" {
		c.say("dispositions: %s", words)
	}
	return nil
}
