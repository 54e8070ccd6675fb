package verifycmd

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

// EvidenceReportSchema is the schemaVersion of the answer to an equivocation
// document. It is not that of a bundle's report, so that nobody who looks for
// "verified" takes a proof against the log for a good receipt.
const EvidenceReportSchema = "counterfoil.equivocation-verification.v1"

// The verdicts over an equivocation document, and their exit codes.
const (
	proven    = "proven"     // 0: the log signed two histories
	notProven = "not_proven" // 1: the document does not show that
	unjudged  = "not_judged" // 2
)

// The checks of an equivocation document, in the order of a report.
const (
	checkTrust         = "trust"         // a trusted key is of the log that the document is about
	checkFormat        = "format"        // the one accepted spelling, within bounds
	checkOrigin        = "origin"        // it is about the trusted log
	checkLogSignature  = "log_signature" // the trusted log key signed every checkpoint
	checkContradiction = "contradiction" // they are what the kind says
	checkConclusive    = "conclusive"    // the kind convicts by itself
)

var evidenceChecks = []string{checkTrust, checkFormat, checkOrigin, checkLogSignature, checkContradiction, checkConclusive}

// evidenceReport is the answer to an equivocation document.
type evidenceReport struct {
	SchemaVersion string          `json:"schemaVersion"`
	Status        string          `json:"status"`
	Kind          string          `json:"kind,omitempty"`
	Origin        string          `json:"origin,omitempty"`
	Trees         []tree          `json:"trees,omitempty"`
	ObservedAt    string          `json:"observedAt,omitempty"` // the witness's word
	Witness       string          `json:"witness,omitempty"`    // the document's word
	Checks        []receipt.Check `json:"checks"`
	Claims        []string        `json:"claims"`
	NotClaimed    []string        `json:"notClaimed"`
}

// tree is a checkpoint of the document.
type tree struct {
	Member string `json:"member"` // cosigned or offered
	Size   uint64 `json:"size"`
	Root   string `json:"root"` // hex
}

func (r *evidenceReport) ExitCode() int {
	switch r.Status {
	case proven:
		return 0
	case notProven:
		return 1
	}
	return notJudged
}

func (r *evidenceReport) JSON() ([]byte, error) {
	b, err := json.Marshal(r, jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return append(b, '\n'), nil
}

// looksLikeEvidence reports whether an input is to be judged as an equivocation
// document. The bytes with which every bundle begins are asked first: a large
// bundle is not read to its end for this.
func looksLikeEvidence(raw []byte) bool {
	for _, begin := range []string{`{"checkpoint":`, `{"claimBoundaries":`} {
		if strings.HasPrefix(string(raw[:min(len(raw), len(begin))]), begin) {
			return false
		}
	}
	schema, _ := receipt.SchemaVersion(raw)
	return schema == rule.EvidenceSchema
}

// judgeEvidence judges an equivocation document by the logs of a policy, which
// came another way.
func judgeEvidence(raw []byte, policy *trust.Policy) *evidenceReport {
	r := &evidenceReport{SchemaVersion: EvidenceReportSchema, Status: notProven, Claims: []string{}, NotClaimed: []string{
		"Truth: which of the histories is the true one, or which came first. Time and witness in the document are the word of whoever reports.",
		"Blame: who signed. A stolen key signs like its owner.",
		"Receipts: that a receipt under either checkpoint is false, or true.",
	}}
	for _, name := range evidenceChecks {
		r.Checks = append(r.Checks, receipt.Check{Name: name, Status: receipt.NotChecked, Detail: receipt.NotReached})
	}
	r.set(checkTrust, receipt.Pass, logs(policy))
	e, err := rule.ParseEvidence(raw)
	if err != nil {
		r.Status = unjudged
		r.set(checkFormat, receipt.NotChecked, err.Error())
		return r
	}
	r.set(checkFormat, receipt.Pass, "canonical form of "+rule.EvidenceSchema)
	r.Kind, r.Origin, r.ObservedAt, r.Witness = string(e.Kind), e.Origin, e.ObservedAt, e.Witness
	keys := policy.LogsOf(e.Origin)
	if len(keys) == 0 {
		r.set(checkOrigin, receipt.Fail, fmt.Sprintf("the document is about the log %s, and no trusted key is of that log", e.Origin))
		return r
	}
	r.set(checkOrigin, receipt.Pass, e.Origin)
	signer, err := r.signed(e, policy)
	if err != nil {
		r.set(checkLogSignature, receipt.Fail, err.Error())
		return r
	}
	r.set(checkLogSignature, receipt.Pass, "signed by "+signer)
	if err := e.Verify(keys); err != nil {
		r.set(checkContradiction, receipt.Fail, err.Error())
		return r
	}
	if !e.Kind.Conclusive() {
		r.set(checkContradiction, receipt.Pass, "the proof that was offered connects the two trees in neither way")
		r.set(checkConclusive, receipt.Fail, "anyone can offer a bad proof: only the log can owe a good one")
		return r
	}
	r.set(checkContradiction, receipt.Pass, r.broken())
	r.set(checkConclusive, receipt.Pass, string(e.Kind)+" convicts by itself")
	r.Status = proven
	r.Claims = []string{fmt.Sprintf("Two histories: the holder of the log key %s signed %s.", signer, r.broken())}
	return r
}

func (r *evidenceReport) set(name string, status receipt.CheckStatus, detail string) {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			r.Checks[i].Status, r.Checks[i].Detail = status, detail
		}
	}
}

// signed reads the checkpoints of the document and looks for the log's signature
// on each.
func (r *evidenceReport) signed(e *rule.Evidence, policy *trust.Policy) (signer string, err error) {
	notes := []struct{ member, text string }{{"cosigned", e.Cosigned}, {"offered", e.Offered}}
	if e.Kind == rule.KindEmptyRoot { // one checkpoint says it all
		notes = notes[1:]
	}
	for _, m := range notes {
		n, err := trust.ParseNote([]byte(m.text))
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.member, err)
		}
		c, err := trust.ParseCheckpoint(n.Text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.member, err)
		}
		r.Trees = append(r.Trees, tree{m.member, c.Size, fmt.Sprintf("%x", c.Root)})
		k, err := policy.LogSignature(n, e.Origin)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.member, err)
		}
		if id := fmt.Sprintf("%s+%08x", k.Name, k.ID); !strings.Contains(signer, id) {
			if signer != "" {
				signer += " and "
			}
			signer += id
		}
	}
	return signer, nil
}

// broken says what the trees of a conclusive document are.
func (r *evidenceReport) broken() string {
	switch rule.Kind(r.Kind) {
	case rule.KindSameSize:
		return fmt.Sprintf("two different trees of size %d", r.Trees[0].Size)
	case rule.KindRewritten:
		return fmt.Sprintf("a tree of size %d, and one of size %d that does not continue it", r.Trees[0].Size, r.Trees[1].Size)
	default:
		return "a tree without leaves, with a root that such a tree does not have"
	}
}

// logs names the trusted log keys.
func logs(p *trust.Policy) string {
	var names []string
	for _, l := range p.Logs {
		names = append(names, fmt.Sprintf("%s+%08x", l.Key.Name, l.Key.ID))
	}
	return "log keys: " + strings.Join(names, ", ")
}

// evidenceHeadline is the verdict in one line.
func (c *command) evidenceHeadline(r *evidenceReport) string {
	file := clean(c.opts.file)
	switch r.Status {
	case proven:
		return fmt.Sprintf("PROVEN: the log %s signed two histories: %s", clean(r.Origin), file)
	case notProven:
		return fmt.Sprintf("not proven that a log signed two histories: %s", file)
	}
	return "not judged: " + file
}

// evidenceText is the report for people.
func (c *command) evidenceText(r *evidenceReport) []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", c.evidenceHeadline(r))
	for _, t := range r.Trees {
		line("  %s: size %d, root %s", t.Member, t.Size, t.Root)
	}
	for _, check := range r.Checks {
		if check.Status == receipt.Fail {
			line("  %s: %s", check.Name, clean(check.Detail))
		}
	}
	if r.Status != proven {
		return []byte(b.String())
	}
	by := clean(r.Witness)
	if by == "" {
		by = "an auditor"
	}
	line("  observed at %s by %s, as the document says", clean(r.ObservedAt), by)
	line("this shows")
	for _, s := range r.Claims {
		line("  %s", clean(s))
	}
	line("this does not show")
	for _, s := range r.NotClaimed {
		line("  %s", clean(s))
	}
	return []byte(b.String())
}

// evidenceTalk says on stderr why nothing was proven, and what to do next.
func (c *command) evidenceTalk(r *evidenceReport) {
	say := func(format string, args ...any) { fmt.Fprintf(c.stderr, format+"\n", args...) }
	for _, check := range r.Checks {
		switch {
		case check.Status == receipt.NotChecked && check.Detail != receipt.NotReached:
			say("error: not judged: %s", clean(check.Detail))
			say("hint: verify the document as the witness exported it")
		case check.Status != receipt.Fail:
		case check.Name == checkOrigin || check.Name == checkLogSignature:
			say("hint: %s: compare the trust file with the log's operator, and ask another verifier of the log", check.Name)
		case check.Name == checkConclusive:
			say("hint: %s: ask the log for a consistency proof between the two sizes", check.Name)
		}
	}
	if c.opts.json {
		say("%s", c.evidenceHeadline(r))
	}
}
