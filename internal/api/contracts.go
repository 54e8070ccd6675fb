package api

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/projections/contracts"
	"counterfoil/projections/query"
)

// Schemas of contracts and reviews.
const (
	ContractsSchema   = "counterfoil.contract-list.v1"
	DispositionSchema = "counterfoil.disposition.v1"
	ReviewsSchema     = "counterfoil.reviews.v1"
)

// Contract is a contract in force with its latest reviews.
type Contract struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	event.ContractTerms
	EventID   string `json:"eventId"` // of the attempt that set it
	AttemptID string `json:"attemptId"`
	LeafIndex uint64 `json:"leafIndex"`
	SetAt     string `json:"setAt"`
	// Call is allow, queue or refuse; Reason says why it is not allow.
	Call   contracts.Call `json:"call"`
	Reason string         `json:"reason,omitempty"`
	// Enforced and Reported are the latest reviews of each mode.
	Enforced *Review `json:"enforced,omitempty"`
	Reported *Review `json:"reported,omitempty"`
}

// Contracts is a page of contracts.
type Contracts struct {
	SchemaVersion string      `json:"schemaVersion"`
	TreeSize      uint64      `json:"treeSize"` // that the page reflects
	Contracts     []*Contract `json:"contracts"`
	NextPageToken string      `json:"nextPageToken,omitempty"`
}

// Review is a review of a contract (REV-21, REV-22).
type Review struct {
	Contract       string           `json:"contract"` // its name
	EventID        string           `json:"eventId"`
	AttemptID      string           `json:"attemptId"`
	LeafIndex      uint64           `json:"leafIndex"`
	ReviewedAt     string           `json:"reviewedAt"`
	Since          string           `json:"since,omitempty"` // first of the unbroken series with this disposition
	Disposition    string           `json:"disposition"`
	ReasonCodes    []string         `json:"reasonCodes,omitempty"`
	Reviewer       string           `json:"reviewer,omitempty"`
	Rubric         string           `json:"rubric,omitempty"`
	Run            *event.ReviewRun `json:"run,omitempty"`
	Receipt        string           `json:"receipt,omitempty"`
	Policy         string           `json:"policy,omitempty"`
	ContractDigest string           `json:"contractDigest,omitempty"` // as it was then
	Recheck        string           `json:"recheck,omitempty"`
	Evidence       string           `json:"evidence,omitempty"` // what the receipt binds
	Verifiers      string           `json:"verifiers,omitempty"`
}

// Reviews is a page of reviews.
type Reviews struct {
	SchemaVersion string    `json:"schemaVersion"`
	TreeSize      uint64    `json:"treeSize"` // that the page reflects
	Reviews       []*Review `json:"reviews"`
	NextPageToken string    `json:"nextPageToken,omitempty"`
}

// Disposition says whether tools may be called under a contract now. docs/spec/
// review.md says what a caller has to do with it.
type Disposition struct {
	SchemaVersion string         `json:"schemaVersion"`
	TreeSize      uint64         `json:"treeSize"` // that the answer reflects
	Contract      string         `json:"contract"`
	Known         bool           `json:"known"`
	Call          contracts.Call `json:"call"`
	Reason        string         `json:"reason,omitempty"`
	// Message names the review, for the error that a blocked task gets (REV-30).
	Message string `json:"message,omitempty"`
	// The contract in force.
	ContractDigest string `json:"contractDigest,omitempty"`
	Impact         string `json:"impact,omitempty"`
	Receipt        string `json:"receipt,omitempty"`
	Artifact       string `json:"artifact,omitempty"`
	Tools          string `json:"tools,omitempty"`
	// The review that decides; absent if there is none.
	Disposition   string   `json:"disposition,omitempty"`
	Mode          string   `json:"mode,omitempty"`
	ReasonCodes   []string `json:"reasonCodes,omitempty"`
	ReviewEventID string   `json:"reviewEventId,omitempty"`
	ReviewedAt    string   `json:"reviewedAt,omitempty"`
}

// Contracts returns a page of contracts, or the one that is named.
func (s *Server) Contracts(ctx context.Context, q url.Values) (*Contracts, error) {
	if err := known(q, "name", "limit", "pageToken"); err != nil {
		return nil, err
	}
	if !q.Has("pageToken") {
		// Who sets a contract reads what is in force first.
		wait, cancel := context.WithTimeout(ctx, viewWait)
		s.cfg.Ledger.CatchUp(wait)
		cancel()
	}
	out := &Contracts{SchemaVersion: ContractsSchema, Contracts: []*Contract{}}
	if name := q.Get("name"); name != "" {
		if q.Has("limit") || q.Has("pageToken") {
			return nil, invalid("", "leave limit and pageToken out", "a name is no list")
		}
		ans, err := s.cfg.Views.Contract(ctx, name)
		if errors.Is(err, query.ErrNotFound) {
			return nil, notFound("no such contract", "set it first: counterfoil contract set")
		}
		if err != nil {
			return nil, viewError(err)
		}
		out.TreeSize, out.Contracts = ans.TreeSize, append(out.Contracts, newContract(ans.Contract))
		return out, nil
	}
	p, err := page(q)
	if err != nil {
		return nil, err
	}
	ans, err := s.cfg.Views.Contracts(ctx, p)
	if err != nil {
		return nil, viewError(err)
	}
	out.TreeSize, out.NextPageToken = ans.TreeSize, ans.Next
	for _, row := range ans.Contracts {
		out.Contracts = append(out.Contracts, newContract(row))
	}
	return out, nil
}

// contract looks a contract up. One that is not in the views yet may have been
// acknowledged a moment ago.
func (s *Server) contract(ctx context.Context, name string) (*query.ContractAnswer, error) {
	ans, err := s.cfg.Views.Contract(ctx, name)
	if !errors.Is(err, query.ErrNotFound) {
		return ans, err
	}
	wait, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	s.cfg.Ledger.CatchUp(wait)
	return s.cfg.Views.Contract(ctx, name)
}

// Disposition answers whether tools may be called under a contract. A contract
// that the log does not have is an answer and no error: it refuses.
func (s *Server) Disposition(ctx context.Context, q url.Values) (*Disposition, error) {
	if err := known(q, "contract"); err != nil {
		return nil, err
	}
	name := q.Get("contract")
	if name == "" {
		return nil, invalid("", "name the contract: ?contract=NAME", "contract is missing")
	}
	ans, err := s.contract(ctx, name)
	if errors.Is(err, query.ErrNotFound) {
		return &Disposition{SchemaVersion: DispositionSchema, TreeSize: ans.TreeSize, Contract: name, Call: contracts.Refuse,
			Reason: contracts.ReasonUnknown, Message: "the log has no contract of this name; set one first"}, nil
	}
	if err != nil {
		return nil, viewError(err)
	}
	row := ans.Contract
	st := row.Standing()
	out := &Disposition{
		SchemaVersion: DispositionSchema, TreeSize: ans.TreeSize, Contract: name, Known: true, Call: st.Call, Reason: st.Reason,
		ContractDigest: row.Digest(), Impact: row.Terms.Impact, Receipt: row.Terms.Receipt, Artifact: row.Terms.Artifact, Tools: row.Terms.Tools,
	}
	if rev := st.Review; rev != nil {
		out.Disposition, out.Mode, out.ReasonCodes = rev.Disposition, modeOf(rev), rev.Reasons
		out.ReviewEventID, out.ReviewedAt = rev.Event, timeAt(rev.At)
	}
	out.Message = message(name, st)
	return out, nil
}

// message names the review and never the agent (REV-30).
func message(name string, st contracts.Standing) string {
	if st.Review == nil || st.Call == contracts.Allow {
		return ""
	}
	what := map[string]string{
		contracts.ReasonQuarantined: "is in quarantine until its evidence is restored or its receipt replaced",
		contracts.ReasonRetired:     "is retired: remove it or replace its receipt",
		contracts.ReasonReadmission: "needs a new admission before privileged use",
		contracts.ReasonReportOnly:  "was reported (" + st.Review.Disposition + "); calls are let through",
	}[st.Reason]
	msg := "contract " + name + " " + what + ", by review " + st.Review.Event
	if len(st.Review.Reasons) > 0 {
		msg += ": " + strings.Join(st.Review.Reasons, ", ")
	}
	return msg
}

func modeOf(r *contracts.Review) string {
	if r.Enforced() {
		return event.ReviewEnforced
	}
	return event.ReviewReportOnly
}

func newContract(row *contracts.Row) *Contract {
	st := row.Standing()
	return &Contract{
		Name: row.Name, Digest: row.Digest(), ContractTerms: row.Terms, EventID: row.Event, AttemptID: row.Attempt, LeafIndex: row.Index,
		SetAt: timeAt(row.At), Call: st.Call, Reason: st.Reason, Enforced: newReview(row.Name, row.Enforced), Reported: newReview(row.Name, row.Reported),
	}
}

func newReview(name string, r *contracts.Review) *Review {
	if r == nil {
		return nil
	}
	return &Review{
		Contract: name, EventID: r.Event, AttemptID: r.Attempt, LeafIndex: r.Index, ReviewedAt: timeAt(r.At), Since: timeAt(r.Since),
		Disposition: r.Disposition, ReasonCodes: r.Reasons, Reviewer: r.Reviewer, Rubric: r.Rubric, Run: r.Run,
		Receipt: r.Receipt, Policy: r.Policy, ContractDigest: r.Contract, Recheck: r.Recheck, Evidence: r.Evidence, Verifiers: r.Verifiers,
	}
}

func timeAt(ms int64) string { return event.FormatTime(time.UnixMilli(ms).UTC()) }

// Reviews returns a page of the reviews of contracts, all or those of a run. The
// first page of a run reflects everything that was acknowledged before, so that a
// run that goes on finds what it did.
func (s *Server) Reviews(ctx context.Context, q url.Values) (*Reviews, error) {
	if err := known(q, "run", "from", "to", "limit", "pageToken", "order"); err != nil {
		return nil, err
	}
	p, from, to, err := span(q)
	if err != nil {
		return nil, err
	}
	out := &Reviews{SchemaVersion: ReviewsSchema, Reviews: []*Review{}}
	if run := q.Get("run"); run != "" {
		if q.Has("from") || q.Has("to") || q.Has("order") {
			return nil, invalid("", "leave from, to and order out", "the reviews of a run are in the order of the log")
		}
		if p.Token == "" {
			s.cfg.Ledger.CatchUp(ctx)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		ans, err := s.cfg.Views.Reviewed(ctx, run, p)
		if err != nil {
			return nil, viewError(err)
		}
		out.TreeSize, out.NextPageToken = ans.TreeSize, ans.Next
		for _, rev := range ans.Reviews {
			rec, _, err := s.cfg.Views.Load(ctx, rev.Receipt, ans.TreeSize)
			if err != nil {
				return nil, viewError(err)
			}
			out.Reviews = append(out.Reviews, reviewOf(rec, rev.Receipt.Index))
		}
		return out, nil
	}
	ans, err := s.cfg.Views.Receipts(ctx, query.ReceiptFilter{Lifecycle: string(event.Review), Kind: string(event.Contract), From: from, To: to}, p)
	if err != nil {
		return nil, viewError(err)
	}
	out.TreeSize, out.NextPageToken = ans.TreeSize, ans.Next
	for _, row := range ans.Receipts {
		rec, _, err := s.cfg.Views.Load(ctx, row, ans.TreeSize)
		if err != nil {
			return nil, viewError(err)
		}
		out.Reviews = append(out.Reviews, reviewOf(rec, row.Index))
	}
	return out, nil
}

func reviewOf(rec *event.Record, index uint64) *Review {
	r := contracts.NewReview(index, rec.Event, rec.Digest())
	out := newReview(rec.Event.Subject.ID, &r)
	out.Since = "" // one review does not know its series
	return out
}
