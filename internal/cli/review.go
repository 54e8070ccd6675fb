package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"counterfoil/internal/reviewer"
	"counterfoil/ledger/review"
)

func (c *cli) reviewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "review",
		Short: "Re-read old admissions under today's policy: run, due, report, export",
		Long: `review judges the receipts of old admissions anew: their evidence is taken from the archive
and verified again, under today's policy and trust material. The result is a review event for
each contract; the receipt never changes (docs/review.md).`,
		Args: c.groupArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(c.reviewRunCommand(), c.reviewDueCommand(), c.reviewReportCommand(), c.reviewExportCommand())
	return cmd
}

// whoReviews is the source of what review runs and contract commands record.
func whoReviews() reviewer.Source {
	return reviewer.Source{RuntimeID: "counterfoil-review", AgentID: "counterfoil", Implementation: "counterfoil/" + readVersion().Version}
}

// selectionFlags say which contracts a run is about.
type selectionFlags struct {
	contracts string
	receipts  []string
	incident  []string
	trigger   string
	budget    int
	onlyDue   bool
}

func (f *selectionFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.contracts, "contracts", "", "file or folder of contracts: they are set first, and the run is about them alone")
	fs.StringSliceVar(&f.receipts, "receipts", nil, "digests of receipts: the run is about contracts on them alone")
	fs.StringSliceVar(&f.incident, "incident", nil, "receipts, contracts or admissions that an incident is about")
	fs.StringVar(&f.trigger, "trigger", "auto", "why: auto finds out for each contract; or manual, schedule, policy_change, …")
	fs.IntVar(&f.budget, "budget", 0, "most contracts that are reviewed; the others are deferred")
	fs.BoolVar(&f.onlyDue, "due", false, "leave out contracts that nothing but a schedule asks for")
	complete(cmd, "trigger", append([]string{"auto"}, reviewTriggers...)...)
}

// fleet is what a run is about.
type fleet struct {
	contracts []review.Contract
	selection review.Selection
	set       int // contracts that were set by the command
}

// load sets the contracts that are given and reads those in force.
func (c *cli) loadFleet(ctx context.Context, l reviewer.Ledger, f *selectionFlags, j *review.Judge, set bool) (*fleet, error) {
	out := &fleet{selection: review.Selection{Receipts: f.receipts, OnlyDue: f.onlyDue, Budget: f.budget, Now: j.At}}
	if f.budget < 0 {
		return nil, usagef("leave it out for no limit", "--budget %d is negative", f.budget)
	}
	if f.trigger != "auto" {
		if !slices.Contains(reviewTriggers, f.trigger) {
			return nil, usagef("--trigger auto, or one of "+strings.Join(reviewTriggers, ", "), "unknown trigger %q", f.trigger)
		}
		out.selection.Trigger = review.Trigger(f.trigger)
	}
	var names map[string]review.Document
	if f.contracts != "" {
		docs, err := readContracts(f.contracts)
		if err != nil {
			return nil, err
		}
		names = make(map[string]review.Document, len(docs))
		for _, d := range docs {
			names[d.Name] = d
		}
		if err := checkReceipts(ctx, l, docs); err != nil {
			return nil, err
		}
		if set {
			if out.set, err = setContracts(ctx, l, docs, j.At); err != nil {
				return nil, err
			}
		}
	}
	all, err := l.Contracts(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if d, ok := names[k.Name]; names == nil || ok {
			if ok && !set {
				k.Terms = d.ContractTerms // as the run would set it
				delete(names, k.Name)
			}
			out.contracts = append(out.contracts, k)
		}
	}
	if !set {
		for _, d := range names { // not in force yet; the plan sorts them
			out.contracts = append(out.contracts, review.Contract{Name: d.Name, Terms: d.ContractTerms, SetAt: j.At})
		}
	}
	retention, err := l.RetentionChanges(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	out.selection.State = review.State{Policy: j.Policy.Ref().Digest, Verifiers: review.VerifiersDigest(infosOf(j)), Retention: retention, Incident: f.incident}
	return out, nil
}

// readContracts reads contracts from a file, or from the .json files of a folder.
func readContracts(name string) ([]review.Document, error) {
	files := []string{name}
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		if files, err = filepath.Glob(filepath.Join(name, "*.json")); err != nil || len(files) == 0 {
			return nil, usagef("name a file or folder of contracts (docs/spec/review.md)", "no .json file in %s", name)
		}
	}
	var docs []review.Document
	for _, file := range files {
		b, err := readNamed(file, review.MaxContractsBytes)
		if err != nil {
			return nil, err
		}
		got, err := review.ParseContracts(b)
		if err != nil {
			return nil, &usageError{fmt.Errorf("%s: %w", file, err), "the members of a contract are in docs/spec/review.md"}
		}
		docs = append(docs, got...)
	}
	if err := review.CheckContracts(docs); err != nil {
		return nil, &usageError{err, "each contract stands in one file, once"}
	}
	return docs, nil
}

// checkReceipts refuses contracts on receipts that nobody kept, or that are no
// admits: nothing may be called on them.
func checkReceipts(ctx context.Context, l reviewer.Ledger, docs []review.Document) error {
	checked := map[string]bool{}
	for _, d := range docs {
		if checked[d.Receipt] {
			continue
		}
		checked[d.Receipt] = true
		err := l.CheckReceipt(ctx, d.Receipt)
		var unknown *review.UnknownReceipt
		var not *review.NotAdmitted
		if errors.As(err, &unknown) || errors.As(err, &not) {
			return &hinted{fmt.Errorf("contract %q: %w", d.Name, err), "take the receipt of an admit: counterfoil admit, or counterfoil list --kind admission"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setContracts makes contracts the ones in force, many at a time, and returns how
// many were not so before.
func setContracts(ctx context.Context, l reviewer.Ledger, docs []review.Document, at time.Time) (set int, err error) {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	next := make(chan *review.Document)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(32, len(docs)) {
		wg.Go(func() {
			for d := range next {
				_, now, err := l.SetContract(ctx, d, whoReviews(), at)
				mu.Lock()
				if now {
					set++
				}
				if err != nil {
					errs = append(errs, err)
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for i := range docs {
		next <- &docs[i]
	}
	close(next)
	wg.Wait()
	if len(errs) > 0 {
		return set, errs[0]
	}
	return set, context.Cause(ctx)
}

var errNoContracts = errors.New("no contract is in force that the run could be about")
