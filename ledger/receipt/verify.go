package receipt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// Options say how much is asked of a bundle. The zero value asks for whole
// attempts under any checkpoint.
type Options struct {
	// MinSize fails a bundle whose checkpoint has fewer leaves. Whoever knows how
	// large the log was detects with it that a set was cut together with its
	// checkpoint.
	MinSize uint64
	// Newest is a signed checkpoint that the verifier has from elsewhere, as a
	// note; nil without one. A bundle under an older one fails, and so does one of
	// the same size with another root.
	Newest []byte
	// AllowPartial accepts attempts of which earlier events are not in the
	// bundle. What is there must still link up.
	AllowPartial bool
	// Policy says which logs and witnesses count, in place of the trust file's;
	// nil for those of the trust file. It must not contradict the trust file: see
	// [trust.File.CheckPolicy].
	Policy *trust.Policy
	// MaxAge fails a checkpoint that was not cosigned lately: the newest time T
	// such that cosignatures of T or later meet the quorum must not be before
	// Now − MaxAge. 0 asks for nothing. Times over Now + FutureTolerance do not
	// count. Without a quorum this cannot be judged, and then nothing is.
	MaxAge time.Duration
	// Now is the verifier's clock for MaxAge.
	Now time.Time
}

// Verify judges the bytes of a bundle by a trust file that came another way; nil
// is no trust file, and then nothing is judged. It uses no key, policy or claim
// that is inside the bundle, and hashes the bytes as they were given. It never
// fails otherwise than by its report.
//
// The cost is about one Ed25519 verification and a proof's hashes an entry, in
// one goroutine.
func Verify(raw []byte, file *trust.File, opts Options) *Report {
	v, none := newVerifier(file, opts)
	if none != nil {
		return none
	}
	if len(raw) == 0 {
		return v.nothing("the input is empty: nothing to verify")
	}
	d, err := parse(raw)
	if err != nil {
		var schema *schemaError
		if errors.As(err, &schema) {
			v.fail(Check{Name: CheckSchema, Detail: err.Error(), Expected: Schema, Got: clip(schema.got)})
		} else {
			v.fail(Check{Name: CheckFormat, Detail: "not a bundle in canonical form: " + err.Error()})
		}
		return v.finish("the bundle could not be read", 0)
	}
	if len(d.entries) == 0 {
		return v.nothing("the bundle holds no entry: nothing to verify")
	}
	v.openCheckpoint(d.checkpoint)
	for i := range d.entries {
		v.entry(&d.entries[i])
	}
	v.claims(d.boundaries)
	v.completeness()
	return v.finish("no entry came as far as this check", len(d.entries))
}

const noTrust = "no trust file: keys that stand beside what they sign prove nothing; pass the trust file that you have from elsewhere"

// verifier is one verification.
type verifier struct {
	*collector
	file   *trust.File
	policy *trust.Policy // that of the options, or of the trust file
	opts   Options
	// unjudged: a check that was asked for cannot be made, so there is no verdict
	// unless another one fails.
	unjudged bool

	// The checkpoint, if there is one that could be read.
	logged     bool
	checkpoint trust.Checkpoint
	tally      *trust.Tally

	// Over the entries so far.
	haveLast   bool
	last       uint64 // leaf index of the entry before
	bad        bool   // the entry in hand has failed
	failed     int
	codes      map[string]bool // claim boundary codes in use
	unread     bool            // an event could not be read, so its code is unknown
	attempts   map[string]*attempt
	seen       map[event.Digest]uint64 // event → its first leaf
	partial    int                     // events whose predecessor is missing, as allowed
	keys       map[string]int
	summary    SignatureSummary
	leafBuffer []byte
	proof      [MaxProofHashes]Hash
}

// newVerifier begins a verification, or says why there is nothing to judge by.
func newVerifier(file *trust.File, opts Options) (*verifier, *Report) {
	if file == nil {
		return nil, NotJudgedReport(CheckTrust, noTrust)
	}
	if err := file.Validate(); err != nil {
		return nil, NotJudgedReport(CheckTrust, "the trust file cannot be used: "+err.Error())
	}
	policy := opts.Policy
	if policy == nil {
		policy = file.Policy()
	} else if err := policy.Validate(); err != nil {
		return nil, NotJudgedReport(CheckTrust, "the policy cannot be used: "+err.Error())
	} else if err := file.CheckPolicy(policy); err != nil {
		return nil, NotJudgedReport(CheckTrust, "trust file and policy contradict each other: "+err.Error())
	}
	v := &verifier{collector: newCollector(), file: file, policy: policy, opts: opts, codes: map[string]bool{}, attempts: map[string]*attempt{},
		seen: map[event.Digest]uint64{}, keys: map[string]int{}}
	v.done(CheckTrust, "%s", trustDetail(file, opts.Policy))
	return v, nil
}

// cannot says why a check that was asked for cannot be made.
func (v *verifier) cannot(name, detail string) {
	v.unjudged = true
	v.skip(name, "cannot be judged: "+detail)
}

func (v *verifier) nothing(detail string) *Report {
	v.skip(CheckFormat, detail)
	r := v.finish("nothing to verify", 0)
	r.Status = NotJudged
	return r
}

// openCheckpoint makes the checks of the checkpoint itself.
func (v *verifier) openCheckpoint(note []byte) {
	const unread = "the checkpoint could not be read"
	if note == nil {
		const detail = "not logged: the bundle has no checkpoint, so nothing shows that its receipts are in the log"
		for _, name := range []string{CheckCheckpoint, CheckLogSignature, CheckWitnessQuorum, CheckFreshness, CheckLeafIndex, CheckProofLength, CheckInclusion} {
			v.skip(name, detail)
		}
		return
	}
	n, err := trust.ParseNote(note)
	if err == nil {
		v.checkpoint, err = trust.ParseCheckpoint(n.Text)
	}
	if err != nil {
		v.fail(Check{Name: CheckCheckpoint, Detail: err.Error()})
		for _, name := range []string{CheckLogSignature, CheckWitnessQuorum, CheckFreshness, CheckLeafIndex, CheckProofLength, CheckInclusion} {
			v.skip(name, unread)
		}
		return
	}
	v.logged = true
	v.done(CheckCheckpoint, "size %d", v.checkpoint.Size)
	if v.checkpoint.Origin != v.file.Origin() {
		v.fail(Check{Name: CheckOrigin, Detail: "the checkpoint is of another log", Expected: v.file.Origin(), Got: clip(v.checkpoint.Origin)})
	}
	v.logSignature(n)
	v.quorum(n)
	v.freshness()
}

// claims compares the claim boundaries with the registered texts of the codes
// in use (CLM-01).
func (v *verifier) claims(given map[string]string) {
	for code := range v.codes {
		want, _ := event.ClaimBoundaryText(code) // an event that was read has a registered code
		switch got, ok := given[code]; {
		case !ok:
			v.fail(Check{Name: CheckClaims, Detail: fmt.Sprintf("the claim boundary %s is missing", code), Expected: want})
		case got != want:
			v.fail(Check{Name: CheckClaims, Detail: fmt.Sprintf("the claim boundary %s has another text than the registered one", code), Expected: want, Got: clip(got)})
		default:
			v.pass(CheckClaims)
		}
	}
	for code, text := range given {
		if v.codes[code] {
			continue
		}
		registered, ok := event.ClaimBoundaryText(code)
		if v.unread && ok && text == registered {
			continue // it may be that of an event that could not be read
		}
		v.fail(Check{Name: CheckClaims, Detail: fmt.Sprintf("the claim boundary %q is that of no entry", clip(code))})
	}
	res := v.results[CheckClaims]
	slices.SortFunc(res.fails, func(a, b Check) int { return strings.Compare(a.Detail, b.Detail) })
	res.detail = fmt.Sprintf("%d registered texts", res.passed)
}

// completeness says what is known about leaves that are not in the bundle.
func (v *verifier) completeness() {
	if !v.logged {
		v.skip(CheckCompleteness, "without a checkpoint nothing is known about the size of the log")
		return
	}
	size := v.checkpoint.Size
	failed := false
	if size < v.opts.MinSize {
		failed = true
		v.fail(Check{Name: CheckCompleteness, Detail: "the checkpoint is older than what was asked for: the set may have been cut",
			Expected: fmt.Sprintf("at least %d leaves", v.opts.MinSize), Got: fmt.Sprintf("%d leaves", size)})
	}
	if v.opts.Newest != nil && !v.newest() {
		failed = true
	}
	if !failed {
		v.skip(CheckCompleteness, fmt.Sprintf("consistent at size %d, completeness not checked", size))
	}
}

// newest compares the bundle's checkpoint with one from elsewhere.
func (v *verifier) newest() bool {
	var c trust.Checkpoint
	n, err := trust.ParseNote(v.opts.Newest)
	if err == nil {
		c, err = trust.ParseCheckpoint(n.Text)
	}
	if err == nil && c.Origin != v.file.Origin() {
		err = fmt.Errorf("it is of log %q", clip(c.Origin))
	}
	if err == nil {
		_, err = v.policy.LogSignature(n, c.Origin)
	}
	switch {
	case err != nil:
		v.fail(Check{Name: CheckCompleteness, Detail: "the checkpoint to compare with cannot be used: " + err.Error()})
	case v.checkpoint.Size < c.Size:
		v.fail(Check{Name: CheckCompleteness, Detail: "a newer checkpoint is known: the set may have been cut",
			Expected: fmt.Sprintf("at least %d leaves", c.Size), Got: fmt.Sprintf("%d leaves", v.checkpoint.Size)})
	case v.checkpoint.Size == c.Size && v.checkpoint.Root != c.Root:
		v.fail(Check{Name: CheckCompleteness, Detail: fmt.Sprintf("the log signed two trees of size %d: keep both checkpoints as evidence", c.Size),
			Expected: fmt.Sprintf("root %x", c.Root), Got: fmt.Sprintf("root %x", v.checkpoint.Root)})
	default:
		return true
	}
	return false
}

// finish turns what was gathered into the report.
func (v *verifier) finish(unreached string, entries int) *Report {
	v.finishChains()
	if v.total == 0 && v.logged {
		v.everyEntry(entries)
	}
	r := v.report(unreached)
	r.Origin = v.file.Origin()
	r.Counts.Entries, r.Counts.Failed, r.Counts.Attempts = entries, v.failed, len(v.attempts)
	r.Signatures = v.summary
	r.Signatures.Keys = []KeySummary{}
	for id, n := range v.keys {
		_, hash, _ := strings.Cut(id, ":")
		k := KeySummary{KeyID: id, Fingerprint: "sha256:" + hash, Receipts: n}
		if key, ok := v.file.EventKeys.Key(id); ok {
			k.RetiredFrom, k.RevokedFrom = key.ToIndex, key.RevokedFromIndex
		}
		r.Signatures.Keys = append(r.Signatures.Keys, k)
	}
	slices.SortFunc(r.Signatures.Keys, func(a, b KeySummary) int { return strings.Compare(a.KeyID, b.KeyID) })
	if v.logged {
		r.TreeSize = v.checkpoint.Size
		r.Witnesses = witnesses(v.tally)
		if q := v.tally.Quorum; q != nil {
			r.Quorum = quorumPart(q)
		}
	}
	switch {
	case v.total > 0:
		r.Status = Failed
	case !v.logged || v.unjudged:
		r.Status = NotJudged
	default:
		r.Status, r.Stage = Verified, Published
		if v.tally.Quorum != nil {
			r.Stage = Witnessed
		}
		r.Claims, r.NotClaimed = v.shown(entries), notClaimed(v.tally)
	}
	return r
}

// everyEntry holds the verifier to its own rule: nothing is verified unless
// every entry passed every check that is made per entry. It adds nothing unless
// a check was passed over in silence.
func (v *verifier) everyEntry(entries int) {
	for _, name := range []string{CheckFormat, CheckSchema, CheckOrigin, CheckEntryOrder, CheckCommitmentDigest, CheckReference,
		CheckPayloadType, CheckEventSignature, CheckKeyValidity, CheckLeafIndex, CheckProofLength, CheckInclusion} {
		if got := v.results[name].passed; got != entries {
			v.fail(Check{Name: name, Detail: "not every entry was checked", Expected: fmt.Sprint(entries), Got: fmt.Sprint(got)})
		}
	}
}
