package receipt

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ReportSchema is the schemaVersion of a report.
const ReportSchema = "counterfoil.verification.v1"

// Status is the verdict over a bundle.
type Status string

// The three verdicts, and the exit codes of the commands that give them.
const (
	Verified  Status = "verified"   // 0: every check that applies passed
	Failed    Status = "failed"     // 1: at least one check failed
	NotJudged Status = "not_judged" // 2: no trust file, nothing to verify, not logged, or a check that was asked for cannot be made
)

// Stage is how far a verified receipt is shown to have come.
type Stage string

// The stages that a verification can show. A bundle without a checkpoint shows
// none; a receipt under a checkpoint is logged as well.
const (
	Published Stage = "published" // under a checkpoint that the log signed
	Witnessed Stage = "witnessed" // under one whose cosignatures meet the quorum
)

// CheckStatus is the result of one check.
type CheckStatus string

// The three results.
const (
	Pass       CheckStatus = "pass"
	Fail       CheckStatus = "fail"
	NotChecked CheckStatus = "not_checked"
)

// The names of the checks, in the order of a report. They are part of the
// public contract.
const (
	CheckTrust            = "trust"             // a trust file was given
	CheckFormat           = "format"            // the one accepted spelling, within bounds
	CheckSchema           = "schema"            // bundle and events are of known versions, with valid members
	CheckCheckpoint       = "checkpoint"        // there is one, a signed note of a well-formed checkpoint
	CheckOrigin           = "origin"            // checkpoint, entries and events are of the trusted log
	CheckLogSignature     = "log_signature"     // the trusted log key signed the checkpoint
	CheckWitnessQuorum    = "witness_quorum"    // enough trusted witnesses cosigned it
	CheckFreshness        = "freshness"         // they did so lately
	CheckEntryOrder       = "entry_order"       // leaf indexes rise
	CheckCommitmentDigest = "commitment_digest" // the digest is that of the event's bytes
	CheckReference        = "reference"         // the reference says what the event says
	CheckPayloadType      = "payload_type"      // the signed type is that of events
	CheckEventSignature   = "event_signature"   // a trusted event key signed the event
	CheckKeyValidity      = "key_validity"      // the key may sign that leaf
	CheckLeafIndex        = "leaf_index"        // the leaf is under the checkpoint
	CheckProofLength      = "proof_length"      // exactly as many hashes as the place needs
	CheckInclusion        = "inclusion"         // leaf and proof give the checkpoint's root
	CheckChain            = "chain"             // revisions and links of an attempt, none missing
	CheckLifecycle        = "lifecycle"         // every event was lawful when it came
	CheckClaims           = "claims"            // each claim boundary is there with its registered text
	CheckCompleteness     = "completeness"      // the checkpoint is as large as was asked for
)

// CheckNames are all names, in the order of a report.
func CheckNames() []string {
	return []string{CheckTrust, CheckFormat, CheckSchema, CheckCheckpoint, CheckOrigin, CheckLogSignature, CheckWitnessQuorum,
		CheckFreshness, CheckEntryOrder, CheckCommitmentDigest, CheckReference, CheckPayloadType, CheckEventSignature, CheckKeyValidity,
		CheckLeafIndex, CheckProofLength, CheckInclusion, CheckChain, CheckLifecycle, CheckClaims, CheckCompleteness}
}

// MaxFailures bounds the failures that a report lists one by one. The first one
// of each name is always among them, and all are counted.
const MaxFailures = 1000

// Report is the answer of a verification. It is no receipt (BND-03). As JSON it
// has the members below in their order.
type Report struct {
	SchemaVersion string `json:"schemaVersion"`
	Status        Status `json:"status"`
	// Origin is the log that the trust file names; "" without one.
	Origin string `json:"origin,omitempty"`
	// TreeSize is the size of the bundle's checkpoint; 0 without one.
	TreeSize uint64 `json:"treeSize,omitzero"`
	// Stage is empty unless Status is Verified.
	Stage Stage `json:"stage,omitempty"`
	// Checks has every name at least once: one passed or not_checked line, or a
	// line for each failure.
	Checks []Check `json:"checks"`
	// Claims is what the verification shows; it is empty unless Status is
	// Verified. NotClaimed is what it does not show, never empty.
	Claims     []string         `json:"claims"`
	NotClaimed []string         `json:"notClaimed"`
	Counts     Counts           `json:"counts"`
	Signatures SignatureSummary `json:"signatures"`
	// Witnesses are all trusted witnesses, with what the checkpoint shows of them;
	// empty without a checkpoint.
	Witnesses []Witness `json:"witnesses,omitempty"`
	// Quorum is the quorum that was asked for, with what it has and needs; nil if
	// none was, or without a checkpoint.
	Quorum *QuorumPart `json:"quorum,omitempty"`
}

// Check is one line of a report.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	// Detail is a sentence for people.
	Detail string `json:"detail"`
	// LeafIndex is the leaf that failed, if the failure is that of a leaf.
	LeafIndex *uint64 `json:"leafIndex,omitempty"`
	// EventID is the event of the leaf, as far as it could be read.
	EventID string `json:"eventId,omitempty"`
	// Expected and Got are what was compared, where two values were.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
}

// Counts are the sizes of what was verified.
type Counts struct {
	Entries  int `json:"entries"`
	Failed   int `json:"failed"`   // entries with at least one failure
	Attempts int `json:"attempts"` // different attempt ids
	Failures int `json:"failures"` // failures of all checks, listed or not
}

// SignatureSummary counts the entries for which each part of the signature
// check held (ATT-13).
type SignatureSummary struct {
	// SignatureValid: a trusted event key, valid at that leaf, signed the bytes.
	SignatureValid int `json:"signatureValid"`
	// CanonicalPayload: the bytes are one event in its one spelling.
	CanonicalPayload int `json:"canonicalPayload"`
	// ReceiptBindingValid: digest, payload type and reference are those of the
	// event.
	ReceiptBindingValid int `json:"receiptBindingValid"`
	// ChainValid: the event continues the chain of its attempt.
	ChainValid int `json:"chainValid"`
	// Keys are the keys whose signatures counted, sorted by id.
	Keys []KeySummary `json:"keys"`
}

// KeySummary says how many receipts a key stands for.
type KeySummary struct {
	KeyID       string `json:"keyId"`
	Fingerprint string `json:"fingerprint"` // "sha256:" and the hex SHA-256 of the public key
	Receipts    int    `json:"receipts"`
	// RetiredFrom and RevokedFrom are the leaves from which the key signs no more
	// and counts no more, if the trust file says so: a warning about the key, and
	// no fault of these receipts, which come before (ATT-20, ATT-21).
	RetiredFrom *uint64 `json:"retiredFrom,omitempty"`
	RevokedFrom *uint64 `json:"revokedFrom,omitempty"`
}

// ExitCode is 0 for verified, 1 for failed, 2 for not judged.
func (r *Report) ExitCode() int {
	switch r.Status {
	case Verified:
		return 0
	case Failed:
		return 1
	}
	return 2
}

// JSON returns the report as one JSON document, indented, with a newline at its
// end.
func (r *Report) JSON() ([]byte, error) {
	// What is quoted of a malformed input may be cut inside a character.
	b, err := json.Marshal(r, jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return append(b, '\n'), nil
}

// Failures returns the listed failures of a check.
func (r *Report) Failures(name string) []Check {
	var out []Check
	for _, c := range r.Checks {
		if c.Name == name && c.Status == Fail {
			out = append(out, c)
		}
	}
	return out
}

// Find returns the first line of a check.
func (r *Report) Find(name string) (Check, bool) {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		return Check{}, false
	}
	return r.Checks[i], true
}

// NotReached is the detail of checks that a report of NotJudgedReport did not come
// to.
const NotReached = "not reached"

// NotJudgedReport is the report of an input that never came to be judged: no
// trust file, or nothing that could be read. name is the check that says why.
func NotJudgedReport(name, detail string) *Report {
	c := newCollector()
	c.skip(name, detail)
	r := c.report(NotReached)
	r.Status = NotJudged
	return r
}

// collector gathers results by check name.
type collector struct {
	results map[string]*result
	listed  int
	total   int
}

type result struct {
	passed int    // entries or attempts that passed
	detail string // of a pass or of not_checked
	skip   bool   // not_checked, unless a failure says otherwise
	fails  []Check
	more   int // failures that are not listed
}

func newCollector() *collector {
	c := &collector{results: map[string]*result{}}
	for _, n := range CheckNames() {
		c.results[n] = &result{}
	}
	return c
}

// pass counts what passed; the detail is made when the report is.
func (c *collector) pass(name string) { c.results[name].passed++ }

// done passes a check that is made once.
func (c *collector) done(name, format string, args ...any) {
	c.results[name].passed++
	c.results[name].detail = fmt.Sprintf(format, args...)
}

// skip says why a check was not made, wholly or in part.
func (c *collector) skip(name, detail string) {
	c.results[name].skip = true
	c.results[name].detail = detail
}

func (c *collector) fail(f Check) {
	r := c.results[f.Name]
	f.Status = Fail
	c.total++
	if c.listed >= MaxFailures && len(r.fails) > 0 {
		r.more++
		return
	}
	c.listed++
	r.fails = append(r.fails, f)
}

func (c *collector) failedCheck(name string) bool { return len(c.results[name].fails) > 0 }

// units are what a check that passes many times counts.
var units = map[string]string{CheckChain: "attempts", CheckLifecycle: "attempts"}

// report lists the results in the order of the names. unreached is the detail
// of checks that were not made.
func (c *collector) report(unreached string) *Report {
	r := &Report{SchemaVersion: ReportSchema, Claims: []string{}, NotClaimed: notClaimed(nil),
		Counts: Counts{Failures: c.total}, Signatures: SignatureSummary{Keys: []KeySummary{}}}
	for _, name := range CheckNames() {
		res := c.results[name]
		switch {
		case len(res.fails) > 0:
			r.Checks = append(r.Checks, res.fails...)
			if res.more > 0 {
				r.Checks = append(r.Checks, Check{Name: name, Status: Fail, Detail: fmt.Sprintf("%d more failures of this check are counted and not listed", res.more)})
			}
		case res.skip || res.passed == 0:
			detail := res.detail
			if detail == "" {
				detail = unreached
			}
			r.Checks = append(r.Checks, Check{Name: name, Status: NotChecked, Detail: detail})
		default:
			detail := res.detail
			if detail == "" {
				unit := "entries"
				if u := units[name]; u != "" {
					unit = u
				}
				detail = fmt.Sprintf("%d %s", res.passed, unit)
			}
			r.Checks = append(r.Checks, Check{Name: name, Status: Pass, Detail: detail})
		}
	}
	return r
}
