package audit

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// ReportSchema is the schemaVersion of a report.
const ReportSchema = "counterfoil.audit.v1"

// Status is the verdict.
type Status string

// The verdicts.
const (
	Verified    Status = "verified"
	NotVerified Status = "not_verified" // at least one finding that was not accepted
	NotJudged   Status = "not_judged"   // no finding, and something could not be judged
)

// Report is the answer of an audit. As JSON it has the members below in their
// order; members are only ever added.
type Report struct {
	SchemaVersion string `json:"schemaVersion"`
	Status        Status `json:"status"`
	// Error is why something could not be judged.
	Error string `json:"error,omitempty"`
	// Log is the origin, as the trust file names it.
	Log    string `json:"log"`
	Tenant string `json:"tenant,omitempty"`
	// Size and Root are of the signed tree that was audited.
	Size         uint64        `json:"size"`
	Root         string        `json:"root,omitempty"` // hex
	Cosignatures *Cosignatures `json:"cosignatures,omitzero"`
	// Remembered are the checkpoints, seen before, that this tree continues.
	Remembered []Remembered `json:"remembered"`
	Leaves     Leaves       `json:"leaves"`
	// Events are those that count, by lifecycle; Attempts by state word;
	// Dispositions the latest of each contract and admission. They are over all
	// leaves that were folded, in this run and before.
	Events       map[event.Lifecycle]uint64 `json:"events"`
	Attempts     map[string]uint64          `json:"attempts"`
	Dispositions map[string]uint64          `json:"dispositions"`
	Findings     Findings                   `json:"findings"`
	Mirror       *MirrorReport              `json:"mirror,omitzero"`
	Views        *ViewsReport               `json:"views,omitzero"`
	// Notes are sentences on how the audit was made.
	Notes []string `json:"notes,omitempty"`
	// Claims is what the audit shows; it is empty unless Status is Verified.
	// NotClaimed is what no audit shows.
	Claims     []string `json:"claims"`
	NotClaimed []string `json:"notClaimed"`
}

// Remembered is a checkpoint that was seen before.
type Remembered struct {
	Size uint64 `json:"size"`
	Root string `json:"root"`
}

// Leaves counts leaves.
type Leaves struct {
	// From is the first leaf that was judged, in this run or before; Before is how
	// many were judged in earlier runs.
	From   uint64 `json:"from"`
	Before uint64 `json:"before"`
	// Read were read and compared with the tree in this run.
	Read uint64 `json:"read"`
	// Folded are those whose place in their chain was judged, in all runs; Counted
	// of them have an event that counts, Parked do not.
	Folded  uint64 `json:"folded"`
	Counted uint64 `json:"counted"`
	Parked  uint64 `json:"parked"`
	// NotJudged are right by themselves, but their chain could not be judged: it
	// began before From, or they come after a damaged leaf.
	NotJudged uint64 `json:"notJudged"`
	// Damaged leaves were found in this run.
	Damaged uint64 `json:"damaged"`
}

// Findings counts what is wrong and lists the first of it.
type Findings struct {
	Total  uint64          `json:"total"`
	ByKind map[Kind]uint64 `json:"byKind"`
	// Allowed is how many leaves that do not count were accepted.
	Allowed uint64    `json:"allowed,omitzero"`
	Listed  []Finding `json:"listed"` // at most MaxListed
}

// MirrorReport says how the mirror stands.
type MirrorReport struct {
	Dir     string `json:"dir"`
	Size    uint64 `json:"size"`    // leaves that it holds under its checkpoint
	Written uint64 `json:"written"` // files of this run
}

func newReport(t *trust.File) *Report {
	r := &Report{SchemaVersion: ReportSchema, Status: NotJudged, Remembered: []Remembered{}, Claims: []string{},
		Events: map[event.Lifecycle]uint64{}, Attempts: map[string]uint64{}, Dispositions: map[string]uint64{},
		Findings: Findings{ByKind: map[Kind]uint64{}, Listed: []Finding{}}}
	if t != nil {
		r.Log = t.Origin()
	}
	return r
}

// NotJudgedReport is the report where an audit could not even begin.
func NotJudgedReport(t *trust.File, err error) *Report {
	r := newReport(t)
	r.conclude(err, 0)
	return r
}

func (r *Report) count(k Kind) {
	r.Findings.Total++
	r.Findings.ByKind[k]++
}

func (r *Report) remembers(size uint64, root string) {
	for _, m := range r.Remembered {
		if m.Size == size {
			return
		}
	}
	r.Remembered = append(r.Remembered, Remembered{size, root})
}

// take brings in what the fold counted.
func (r *Report) take(p *position) {
	r.Tenant = p.Tenant
	r.Leaves.From, r.Leaves.Folded = p.From, p.Size-p.From
	r.Leaves.Counted, r.Leaves.Parked = p.Counts.Counted, p.Counts.parked()
	r.Leaves.NotJudged += p.Counts.NotJudged
	r.Events, r.Attempts, r.Dispositions = p.Counts.Events, p.Counts.Attempts, p.Counts.Dispositions
	for k, n := range p.Counts.Parked {
		r.Findings.Total += n
		r.Findings.ByKind[k] += n
	}
}

// conclude gives the verdict.
func (r *Report) conclude(err error, allowParked uint64) {
	parked := uint64(0)
	for k, n := range r.Findings.ByKind {
		if k.Parked() {
			parked += n
		}
	}
	if parked <= allowParked {
		r.Findings.Allowed = parked
	}
	switch {
	case r.Findings.Total > r.Findings.Allowed:
		r.Status = NotVerified
	case err != nil:
		r.Status = NotJudged
	default:
		r.Status = Verified
		r.Claims = r.claims()
	}
	if err != nil {
		r.Error = clip(err.Error())
	}
	r.NotClaimed = notClaimed(r.Status == Verified && r.witnessed())
}

// ExitCode is 0 for verified, 1 for not verified, 2 for not judged.
func (r *Report) ExitCode() int {
	switch r.Status {
	case Verified:
		return 0
	case NotVerified:
		return 1
	}
	return 2
}

// JSON is the report as a document counterfoil.audit.v1, with a newline.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("encode the report: %w", err)
	}
	return append(b, '\n'), nil
}

func decodeFinding(row []byte) (f Finding, err error) {
	if err := json.Unmarshal(row, &f); err != nil {
		return f, fmt.Errorf("%w: a row is no finding: %w", errStoreDamaged, err)
	}
	return f, nil
}
