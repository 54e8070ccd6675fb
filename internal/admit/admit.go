package admit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/namespace"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// Ledger is the running ledger; *client.Client is one.
type Ledger interface {
	Begin(ctx context.Context, b *client.Begin, wait client.Stage) (*client.Answer[client.Receipt], error)
	Append(ctx context.Context, a *client.Append, wait client.Stage) (*client.Answer[client.Receipt], error)
	KeepBody(ctx context.Context, role string, body []byte, r client.Retained) (*client.Answer[client.ArchiveEntry], error)
	SealReceipt(ctx context.Context, attemptID string, req *client.ReceiptRequest) (*client.Answer[client.AdmissionReceipt], error)
	Contract(ctx context.Context, name string) (*client.Answer[client.Contracts], error)
	ArchiveBody(ctx context.Context, digest string, limit int64) ([]byte, error)
}

// Config is what admissions are made with. All members but Registry and Wait are
// required.
type Config struct {
	Ledger Ledger
	Policy *policy.Policy
	Stack  *Stack
	// Registry is the base URL of the MCP registry that names are looked up in.
	Registry string
	// Wait is the stage that the decision must reach; "" is the ledger's own.
	Wait client.Stage
	// Random makes ids.
	Random io.Reader
	// Pause waits between two tries; it returns early with the error of ctx.
	Pause func(ctx context.Context, d time.Duration) error
}

// Stack is the resolvers and verifiers, and the material that the verifiers
// believe, which is kept beside the evidence.
type Stack struct {
	Fetch     *fetch.Fetcher
	Resolvers []admission.Resolver
	Verifiers []admission.Verifier
	Trust     []sigstore.File
	LookupTXT namespace.LookupTXT
}

// Request is one admission.
type Request struct {
	// Entry is a file with a server.json, or the name of a server in the
	// registry, NAME or NAME@VERSION.
	Entry string
	// Class is the risk class of the policy.
	Class string
	// Package chooses the path: a package type, or TYPE:IDENTIFIER where an entry
	// has several of one type. Empty if there is only one way.
	Package string
	// Artifact is where the artifact is read instead; Evidence names files, URLs
	// and folders of evidence beside what the source has.
	Artifact string
	Evidence []string
	// CheckNamespace asks the domain of the server's name whether it publishes a key.
	CheckNamespace bool
	// Expected are digests that the artifact must have.
	Expected admission.DigestSet
	// Repin takes the artifact as it is, whatever an earlier admission of the same
	// version pinned.
	Repin bool
	// Contract is the name of the contract that an admit sets; "" is the server's
	// name. NoContract sets none.
	Contract   string
	NoContract bool
	// Backfill names the old admission that is recorded by reference.
	Backfill string
}

// Result is the answer (schemaVersion counterfoil.admission.v1).
type Result struct {
	SchemaVersion     string              `json:"schemaVersion"`
	Decision          admission.Decision  `json:"decision"`
	ReasonCodes       []admission.Code    `json:"reasonCodes"`
	Missing           []admission.Missing `json:"missing"`
	Receipt           string              `json:"receipt"`           // digest of the sealed receipt; "" without one
	SpanningSetDigest string              `json:"spanningSetDigest"` // "" without a receipt
	VSA               string              `json:"vsa,omitempty"`     // digest of the SLSA verification summary
	Answers           admission.Answers   `json:"answers"`
	Class             string              `json:"class"`
	Policy            admission.PolicyRef `json:"policy"`
	Server            string              `json:"server,omitempty"`
	Version           string              `json:"version,omitempty"`
	Artifact          string              `json:"artifact,omitempty"` // sha256:…
	Binding           string              `json:"binding,omitempty"`  // kind
	Failed            []admission.Verdict `json:"failed,omitempty"`   // the questions that were not passed
	AttemptID         string              `json:"attemptId"`
	EventID           string              `json:"eventId"` // of the decision
	TraceID           string              `json:"traceId"`
	// Earlier are decisions of this admission that a later one corrected.
	Earlier  []Earlier `json:"earlier,omitempty"`
	Contract *Contract `json:"contract,omitempty"`
}

// ResultSchema is the schemaVersion of a Result.
const ResultSchema = "counterfoil.admission.v1"

// Earlier is a decision that was corrected.
type Earlier struct {
	EventID     string             `json:"eventId"`
	Decision    admission.Decision `json:"decision"`
	ReasonCodes []admission.Code   `json:"reasonCodes"`
}

// Contract is the contract that an admit set.
type Contract struct {
	Name      string `json:"name"`
	Digest    string `json:"digest"`
	EventID   string `json:"eventId"`
	AttemptID string `json:"attemptId"`
}

// run is one admission in the making.
type run struct {
	cfg Config
	req Request

	found    *found
	selected *admission.Selection
	earlier  *earlier
	judged   *admission.Judgement
	files    []admission.Evidence

	events recorder
}

// Run makes an admission. An error says that nothing could be judged, or that the
// ledger took no events; the attempt may then be open. All else is a Result, with
// its events recorded.
func Run(ctx context.Context, cfg Config, req Request) (*Result, error) {
	if err := req.check(cfg.Policy); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, req: req}
	var err error
	if r.found, err = readLocal(req.Entry); err != nil {
		return nil, err
	}
	if f := r.found; f != nil && f.d.Entry != nil {
		if _, err := choose(f.d.Entry, req.Package); err != nil {
			return nil, &Usage{err.Error()} // before anything is recorded
		}
	}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	res, err := r.phases(ctx)
	if err != nil && len(r.events.verdicts) == 0 {
		err = fmt.Errorf("admission %s stays open: %w", r.events.attempt, err)
	}
	return res, err
}

func (r *run) phases(ctx context.Context) (*Result, error) {
	for _, phase := range []struct {
		mark string
		do   func(context.Context) (status, error)
	}{
		{"candidate", r.discover},
		{"policy_input", r.prepare},
		{"dependency", r.verify},
	} {
		if err := r.mark(ctx, phase.mark, phase.do); err != nil {
			return nil, err
		}
	}
	return r.conclude(ctx)
}

// check refuses what can be seen to be wrong before anything is recorded.
func (req *Request) check(p *policy.Policy) error {
	if !className.MatchString(req.Class) {
		return &Usage{fmt.Sprintf("class %q is no name of a class (hint: policy %s has %s)", req.Class, p.Ref().ID, strings.Join(p.Classes(), ", "))}
	}
	if _, ok := p.Retention(retentionOf(p, req.Class)); !ok {
		return &Usage{fmt.Sprintf("policy %s has no retention class to keep evidence under", p.Ref().ID)}
	}
	for _, name := range []struct{ what, value string }{{"contract", req.Contract}, {"reference of the backfill", req.Backfill}} {
		if name.value != "" && event.CheckID("", name.value) != nil {
			return &Usage{fmt.Sprintf("%s %.300q is no identifier (hint: use 1 to %d bytes of text)", name.what, name.value, event.MaxIDBytes)}
		}
	}
	for _, file := range append([]string{req.Artifact}, req.Evidence...) {
		if file == "" || fetch.IsURL(file) {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return &Usage{err.Error()}
		}
	}
	return nil
}

// className is the form of a class, as records demand it.
var className = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// Usage is an error of whoever asked; nothing was recorded.
type Usage struct{ detail string }

func (e *Usage) Error() string { return e.detail }

// conclude keeps the records and says the decision; and again, as often as the
// class allows by itself, while an archive or a source of evidence that does not answer
// is what stands in the way.
func (r *run) conclude(ctx context.Context) (*Result, error) {
	res := r.result()
	retries := 0
	if r.judged.Class != nil {
		retries = r.judged.Class.Quarantine.Retries
	}
	for round := 0; ; round++ {
		kept, err := r.decide(ctx, res)
		if err != nil {
			return nil, err
		}
		archive := kept.Receipt == "" && kept.passing
		evidence := slices.Contains(res.ReasonCodes, admission.EvidenceUnavailable)
		if round == retries || !archive && !evidence {
			break
		}
		if r.cfg.Pause(ctx, firstRound<<min(round, 6)) != nil {
			break // told to stop: the decision is recorded, and stands
		}
		if evidence {
			if err := r.mark(ctx, "dependency", r.verify); err != nil {
				return nil, err
			}
		}
	}
	// A backfill is about what was, so it sets no contract unless one is named.
	if res.Decision == admission.Admit && !r.req.NoContract && (r.req.Backfill == "" || r.req.Contract != "") {
		var err error
		if res.Contract, err = r.setContract(ctx, res); err != nil {
			return nil, errors.Join(fmt.Errorf("admitted by %s, but no contract was set", res.EventID), err)
		}
	}
	return res, nil
}

// firstRound is how long the first round waits for the second; then twice as long.
const firstRound = 2 * time.Second

// decide is one round: records, archive, decision.
func (r *run) decide(ctx context.Context, res *Result) (*kept, error) {
	set, err := admission.NewSet(r.judged, r.cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("records of the admission: %w", err)
	}
	var kept *kept
	if err := r.mark(ctx, "persistence", func(ctx context.Context) (status, error) {
		kept, err = r.keep(ctx, set)
		return kept.status(), err
	}); err != nil {
		return nil, err
	}
	if err := r.mark(ctx, "linkage", func(context.Context) (status, error) { return kept.link(set) }); err != nil {
		return nil, err
	}
	out := admission.Conclude(r.judged, kept.Archived)
	if res.EventID != "" {
		res.Earlier = append(res.Earlier, Earlier{res.EventID, res.Decision, res.ReasonCodes})
	}
	res.take(r.judged, out, kept)
	res.EventID, err = r.verdict(ctx, out, kept)
	return kept, err
}

func (r *run) result() *Result {
	res := &Result{
		SchemaVersion: ResultSchema, Class: r.req.Class, Policy: r.cfg.Policy.Ref(),
		AttemptID: r.events.attempt, TraceID: r.events.trace,
	}
	if s := r.found.snapshot; s != nil {
		res.Server, res.Version = s.ServerName, s.ServerVersion
	}
	return res
}

// take takes over what a round came to.
func (res *Result) take(j *admission.Judgement, o admission.Outcome, k *kept) {
	res.Artifact, res.Binding, res.Failed = "", "", nil
	if b := j.Input.Binding; b != nil {
		res.Artifact, res.Binding = b.SHA256(), string(b.Kind)
	}
	for _, v := range j.Verdicts {
		if v.Result == admission.ResultFail || v.Result == admission.ResultError {
			res.Failed = append(res.Failed, v)
		}
	}
	res.Decision, res.Answers, res.Receipt, res.SpanningSetDigest = o.Decision, o.Answers, o.Receipt, k.span
	res.VSA = k.vsa
	res.ReasonCodes = append([]admission.Code{}, o.ReasonCodes...)
	res.Missing = append([]admission.Missing{}, o.Missing...)
}
