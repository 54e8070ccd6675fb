package receipt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
}

// Verify judges the bytes of a bundle by a trust file that came another way; nil
// is no trust file, and then nothing is judged. It uses no key, policy or claim
// that is inside the bundle, and hashes the bytes as they were given. It never
// fails otherwise than by its report.
//
// The cost is about one Ed25519 verification and a proof's hashes an entry, in
// one goroutine.
func Verify(raw []byte, file *trust.File, opts Options) *Report {
	if file == nil {
		return NotJudgedReport(CheckTrust, noTrust)
	}
	if err := file.Validate(); err != nil {
		return NotJudgedReport(CheckTrust, "the trust file cannot be used: "+err.Error())
	}
	v := newVerifier(file, opts)
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
	file *trust.File
	opts Options

	// The checkpoint, if there is one that could be read.
	logged     bool
	checkpoint trust.Checkpoint
	cosigned   int

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

func newVerifier(file *trust.File, opts Options) *verifier {
	v := &verifier{collector: newCollector(), file: file, opts: opts, codes: map[string]bool{}, attempts: map[string]*attempt{},
		seen: map[event.Digest]uint64{}, keys: map[string]int{}}
	v.done(CheckTrust, "log %s (key %08x), event keys: %d, witnesses: %d, quorum: %d", file.Origin(), file.Log.ID, file.EventKeys.Len(), len(file.Witnesses), file.Quorum)
	return v
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
		for _, name := range []string{CheckCheckpoint, CheckLogSignature, CheckWitnessQuorum, CheckLeafIndex, CheckProofLength, CheckInclusion} {
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
		for _, name := range []string{CheckLogSignature, CheckWitnessQuorum, CheckLeafIndex, CheckProofLength, CheckInclusion} {
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
}

func (v *verifier) logSignature(n *trust.Note) {
	k := v.file.Log
	expected := fmt.Sprintf("%s+%08x", k.Name, k.ID)
	got, err := n.VerifyBy(k)
	switch {
	case err != nil:
		v.fail(Check{Name: CheckLogSignature, Detail: "bad log signature: " + err.Error(), Expected: expected})
	case got.Lines == 0:
		v.fail(Check{Name: CheckLogSignature, Detail: "unknown log key: no signature of the checkpoint is by the trusted log key", Expected: expected, Got: signers(n)})
	default:
		v.done(CheckLogSignature, "signed by %s", expected)
	}
}

// signers names the keys that a note says it is signed by.
func signers(n *trust.Note) string {
	var names []string
	for i, s := range n.Signatures {
		if i == 4 {
			names = append(names, fmt.Sprintf("%d more", len(n.Signatures)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s+%08x", clip(s.Name), s.ID))
	}
	return strings.Join(names, ", ")
}

func (v *verifier) quorum(n *trust.Note) {
	total := len(v.file.Witnesses)
	for _, w := range v.file.Witnesses {
		got, err := n.VerifyBy(w)
		if err != nil {
			v.fail(Check{Name: CheckWitnessQuorum, Detail: "bad cosignature: " + err.Error()})
			continue
		}
		// Without a time a cosignature does not say that this is the largest tree
		// that the witness has seen.
		if got.Lines > 0 && got.Timestamp > 0 {
			v.cosigned++
		}
	}
	switch q := v.file.Quorum; {
	case v.failedCheck(CheckWitnessQuorum):
	case q == 0:
		v.skip(CheckWitnessQuorum, fmt.Sprintf("no quorum was asked for; %d of %d trusted witnesses cosigned", v.cosigned, total))
	case v.cosigned < q:
		v.fail(Check{Name: CheckWitnessQuorum, Detail: fmt.Sprintf("%d of %d trusted witnesses cosigned", v.cosigned, total),
			Expected: fmt.Sprintf("at least %d", q), Got: fmt.Sprint(v.cosigned)})
	default:
		v.done(CheckWitnessQuorum, "%d of %d trusted witnesses cosigned, quorum %d", v.cosigned, total, q)
	}
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
		var got trust.Verified
		if got, err = n.VerifyBy(v.file.Log); err == nil && got.Lines == 0 {
			err = errors.New("unknown log key: it is not signed by the trusted log key")
		}
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
		r.Signatures.Keys = append(r.Signatures.Keys, KeySummary{KeyID: id, Fingerprint: "sha256:" + hash, Receipts: n})
	}
	slices.SortFunc(r.Signatures.Keys, func(a, b KeySummary) int { return strings.Compare(a.KeyID, b.KeyID) })
	if v.logged {
		r.TreeSize = v.checkpoint.Size
	}
	switch {
	case v.total > 0:
		r.Status = Failed
	case !v.logged:
		r.Status = NotJudged
	default:
		r.Status = Verified
		r.NotClaimed = notClaimed(v.file.Quorum > 0)
		r.Claims = claimsOf(entries, len(v.attempts), v.partial > 0, v.file.Origin(), v.checkpoint.Size, v.cosigned, len(v.file.Witnesses), v.file.Quorum)
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
