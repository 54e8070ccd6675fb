package review

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review/rubric"
)

// Recorder appends reviews to a ledger. It is safe for concurrent use.
type Recorder interface {
	// Reviewed returns what a run has recorded so far, by the attempt that set the
	// contract. It reflects everything that was acknowledged before it was called.
	Reviewed(ctx context.Context, run string) (map[string]Recorded, error)
	// Append records a review, and returns the event id once it is durable. The
	// source event id is the same for a run and a contract, so the ledger takes a
	// second review of both for the first one (equal content) or refuses it:
	// ErrReviewed.
	Append(ctx context.Context, r *Review) (eventID string, err error)
}

// ErrReviewed: the run has recorded a review of this contract before, with other
// content. The first one counts.
var ErrReviewed = errors.New("the run reviewed this contract before")

// Recorded is a review that is in the ledger.
type Recorded struct {
	Event       string
	Disposition string
}

// Review is a review as it is appended to the attempt that set the contract.
type Review struct {
	Attempt       string
	SourceEventID string
	OccurredAt    string
	Status        string // the disposition
	Reasons       []string
	Refs          map[string]string
	Rubric        string
	Run           event.ReviewRun
}

// SourceEventID is the source event id of a run's reviews.
func SourceEventID(run string) string { return "review:" + run }

// MaxRunID bounds a run's id in bytes.
const MaxRunID = 200

// Run is a run over many contracts.
type Run struct {
	// ID names the run, 1 to MaxRunID bytes. The same id goes on where a run of
	// this id ended, however it ended.
	ID string
	// Enforce is the impact from which on reviews are enforced: privileged,
	// standard or low; empty enforces none (OPS-03, OPS-04).
	Enforce string
	Judge   *Judge
	Record  Recorder
	// Workers verify evidence at the same time; 0 is one for each processor.
	Workers int
	// Appends are in flight at the same time; 0 is 64.
	Appends int
	// Observe is told of every outcome, one at a time; nil leaves it out.
	Observe func(Outcome)
}

// Outcome is what became of one candidate.
type Outcome struct {
	Name        string             `json:"contract"`
	Impact      string             `json:"impact"`
	Receipt     string             `json:"receipt"`
	Trigger     Trigger            `json:"trigger"`
	Mode        string             `json:"mode"`
	State       OutcomeState       `json:"state"`
	Disposition rubric.Disposition `json:"disposition,omitempty"`
	Reasons     []string           `json:"reasonCodes,omitempty"`
	Recheck     string             `json:"recheck,omitempty"` // its state
	Causes      []string           `json:"causes,omitempty"`
	Digest      string             `json:"recheckDigest,omitempty"`
	Event       string             `json:"reviewEventId,omitempty"`
	// Error says why it was refused or not judged.
	Error string `json:"error,omitempty"`

	contract string
	policy   string
	trouble  bool // of the archive or the ledger, and not of the evidence
}

// OutcomeState is how far a candidate came.
type OutcomeState string

// States of an outcome. Deferred, refused and not_judged are no results: nothing
// was recorded, and nothing passed.
const (
	StateReviewed  OutcomeState = "reviewed"
	StateBefore    OutcomeState = "reviewed_before" // by this run, before it was interrupted
	StateDeferred  OutcomeState = "deferred"        // beyond the budget
	StateRefused   OutcomeState = "refused"         // the contract names no receipt of an admit
	StateNotJudged OutcomeState = "not_judged"      // trouble; the same run again tries again
)

// Do reviews what the plan says. It judges nothing twice: what the run recorded
// before is left out, and a review that was recorded after that was looked up is
// found by its id. The error is that of ctx or of the recorder before the start;
// trouble with one contract is its outcome's. Outcomes are in the order of the
// plan, the deferred behind.
func (r *Run) Do(ctx context.Context, p Plan) ([]Outcome, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	done, err := r.Record.Reviewed(ctx, r.ID)
	if err != nil {
		return nil, fmt.Errorf("what run %s has recorded: %w", r.ID, err)
	}
	out := make([]Outcome, len(p.Review), len(p.Review)+len(p.Deferred))
	var todo []int
	for i := range p.Review {
		c := &p.Review[i]
		out[i] = r.outcome(c, StateNotJudged)
		if before, ok := done[c.Attempt]; ok {
			out[i].State, out[i].Event, out[i].Disposition = StateBefore, before.Event, rubric.Disposition(before.Disposition)
			r.observe(out[i])
			continue
		}
		todo = append(todo, i)
	}
	for i := range p.Deferred {
		out = append(out, r.outcome(&p.Deferred[i], StateDeferred))
		r.observe(out[len(out)-1])
	}
	r.work(ctx, p.Review, todo, out)
	return out, context.Cause(ctx)
}

// Check says what is missing or unknown.
func (r *Run) Check() error {
	if err := event.CheckID("run", r.ID); err != nil || len(r.ID) > MaxRunID {
		return fmt.Errorf("run id %.40q of %d bytes: want 1 to %d bytes of text", r.ID, len(r.ID), MaxRunID)
	}
	if r.Enforce != "" && !slices.Contains(event.Impacts, r.Enforce) {
		return fmt.Errorf("enforce %q: want one of %v", r.Enforce, event.Impacts)
	}
	return r.Judge.Check()
}

// maxInARow is how many contracts in a row may meet trouble of the archive or the
// ledger before a run stops trying: an archive that is down shall not put
// everything into quarantine, nor keep a run waiting for hours.
const maxInARow = 16

// errNotTried is why what a run did not come to was not judged.
var errNotTried = fmt.Errorf("not tried, since the archive or the ledger failed for %d contracts in a row", maxInARow)

// judged is a contract on its way from the verifiers to the ledger.
type judged struct {
	at      int
	verdict *Verdict
}

// work verifies on Workers and appends on Appends goroutines, so that processors
// do not wait for the log. It returns when all of them have ended.
func (r *Run) work(ctx context.Context, all []Candidate, todo []int, out []Outcome) {
	workers, appends := r.Workers, r.Appends
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	if appends <= 0 {
		appends = 64
	}
	next, verdicts := make(chan int), make(chan judged)
	var verify, record sync.WaitGroup
	var mu sync.Mutex // guards Observe, inARow and stopped; every outcome has one owner at a time
	inARow, stopped, stop := 0, false, make(chan struct{})
	finish := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		if inARow++; !out[i].trouble {
			inARow = 0
		}
		if inARow == maxInARow && !stopped {
			stopped = true
			close(stop)
		}
		r.observe(out[i])
	}
	for range workers {
		verify.Go(func() {
			for i := range next {
				v, err := r.Judge.Judge(ctx, &all[i].Contract)
				if err != nil {
					out[i].fail(err)
					finish(i)
					continue
				}
				verdicts <- judged{i, v}
			}
		})
	}
	for range appends {
		record.Go(func() {
			for d := range verdicts {
				if err := r.record(ctx, &all[d.at], d.verdict, &out[d.at]); err != nil {
					out[d.at].fail(err)
				}
				finish(d.at)
			}
		})
	}
	fed := 0
feed:
	for _, i := range todo {
		select {
		case <-stop: // before a worker that happens to be free
			break feed
		default:
		}
		select {
		case next <- i:
			fed++
		case <-ctx.Done():
			break feed
		case <-stop:
			break feed
		}
	}
	close(next)
	verify.Wait()
	close(verdicts)
	record.Wait()
	for _, i := range todo[fed:] {
		err := errNotTried
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		out[i].fail(err)
		finish(i)
	}
}

// record keeps the recheck and appends the review. From the append on a crash
// loses nothing; before it the same run judges the contract again.
func (r *Run) record(ctx context.Context, c *Candidate, v *Verdict, o *Outcome) error {
	o.trouble = slices.ContainsFunc(v.Recheck.Gaps, func(g Gap) bool { return g.State == GapUnreadable })
	if err := r.Judge.keep(ctx, &c.Contract, v); err != nil {
		// What cannot be read blocks all the same; but nothing is said to pass
		// whose recheck is not kept.
		if v.Disposition != rubric.Quarantine || ctx.Err() != nil {
			o.trouble = true
			return fmt.Errorf("keep the recheck: %w", err)
		}
	}
	rev := r.review(c, v)
	id, err := r.Record.Append(ctx, rev)
	if errors.Is(err, ErrReviewed) {
		o.State, o.Event = StateBefore, id
		return nil
	}
	if err != nil {
		o.trouble = true
		return fmt.Errorf("append the review: %w", err)
	}
	o.State, o.Event, o.Disposition, o.Reasons = StateReviewed, id, v.Disposition, v.Reasons
	o.Recheck, o.Causes, o.Digest = v.Recheck.State, v.Recheck.Causes, v.Digest
	return nil
}

// review words a verdict.
func (r *Run) review(c *Candidate, v *Verdict) *Review {
	refs := map[string]string{
		"reviews": c.Event, event.RefReceipt: c.Terms.Receipt, event.RefPolicy: v.Recheck.Policy.Digest,
		event.RefContract: v.Recheck.Contract, event.RefRecheck: v.Digest, event.RefVerifiers: VerifiersDigest(v.Recheck.Verifiers),
	}
	if v.Recheck.EvidenceBundle != "" {
		refs[event.RefEvidence] = v.Recheck.EvidenceBundle
	}
	if c.Terms.Admission != "" {
		refs[event.RefAdmission] = c.Terms.Admission
	}
	return &Review{
		Attempt: c.Attempt, SourceEventID: SourceEventID(r.ID), OccurredAt: event.FormatTime(r.Judge.At),
		Status: string(v.Disposition), Reasons: v.Reasons, Refs: refs, Rubric: rubric.Name,
		Run: event.ReviewRun{
			ID: r.ID, Trigger: string(c.Trigger), Mode: r.mode(c.Terms.Impact), Impact: c.Terms.Impact,
			Recheck: v.Recheck.State, Causes: v.Recheck.Causes,
		},
	}
}

// mode says whether reviews of contracts of an impact are enforced: from Enforce
// on upwards, so that privileged contracts are always the first (OPS-04).
func (r *Run) mode(impact string) string {
	if r.Enforce != "" && weightOfImpact[impact] <= weightOfImpact[r.Enforce] {
		return event.ReviewEnforced
	}
	return event.ReviewReportOnly
}

func (r *Run) outcome(c *Candidate, s OutcomeState) Outcome {
	return Outcome{
		Name: c.Name, Impact: c.Terms.Impact, Receipt: c.Terms.Receipt, Trigger: c.Trigger, Mode: r.mode(c.Terms.Impact), State: s,
		contract: c.Digest(), policy: r.Judge.Policy.Ref().Digest,
	}
}

func (r *Run) observe(o Outcome) {
	if r.Observe != nil {
		r.Observe(o)
	}
}

func (o *Outcome) fail(err error) {
	o.State, o.Error = StateNotJudged, err.Error()
	var (
		unknown *UnknownReceipt
		not     *NotAdmitted
	)
	if errors.As(err, &unknown) || errors.As(err, &not) {
		o.State = StateRefused
	}
}

// Ticket is the result of a review on separate lines, for people and tickets
// (REV-27); nil of what was not reviewed.
func (o *Outcome) Ticket() []string {
	if o.State != StateReviewed {
		return nil
	}
	reasons := ""
	for i, c := range o.Reasons {
		if i > 0 {
			reasons += ", "
		}
		reasons += c
	}
	return []string{
		"receipt: " + o.Receipt,
		"contract: " + o.Name + " (" + o.Impact + ") " + o.contract,
		"replay_policy: " + o.policy,
		"evidence_recheck: " + o.Recheck + " " + o.Digest,
		"disposition: " + string(o.Disposition),
		"reasons: " + reasons,
	}
}

// AllJudged reports whether nothing was refused or left unjudged.
func AllJudged(outcomes []Outcome) bool {
	return !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.State == StateNotJudged || o.State == StateRefused })
}

var _ admission.Record = (*Recheck)(nil)
