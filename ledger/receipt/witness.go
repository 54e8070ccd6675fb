package receipt

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"counterfoil/ledger/trust"
)

// FutureTolerance is how far a cosignature's time may be ahead of the verifier's
// clock before it counts for nothing in the check freshness: clocks that are kept
// differ by seconds, and five minutes are the usual bound for those that are not.
const FutureTolerance = 5 * time.Minute

// Witness is what the checkpoint of a report shows of one witness.
type Witness struct {
	// Name is the witness's name in the policy; without one, the name of its key.
	Name   string                  `json:"name"`
	VKey   string                  `json:"vkey"`
	Status trust.CosignatureStatus `json:"status"`
	// Time is what the witness states, by [trust.TimeText]; "" unless it cosigned.
	Time string `json:"time,omitempty"`
	// Detail says why it is bad, or missing although it has a line.
	Detail string `json:"detail,omitempty"`
}

// QuorumPart is a witness or a group of the quorum, with what it has and needs.
type QuorumPart struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // "witness" or "group"
	Met    bool   `json:"met"`
	Have   int    `json:"have"`
	Needed int    `json:"needed"`
	Of     int    `json:"of"`
	// Time is the largest time T such that cosignatures of T or later meet this
	// part; "" if it is not met.
	Time    string       `json:"time,omitempty"`
	Members []QuorumPart `json:"members,omitempty"`
}

func witnesses(t *trust.Tally) []Witness {
	var out []Witness
	for _, c := range t.Witnesses {
		w := Witness{Name: c.Witness.Name, VKey: c.Witness.Key.String(), Status: c.Status, Detail: c.Detail}
		if c.Status == trust.Cosigned {
			w.Time = trust.TimeText(c.Time)
		}
		out = append(out, w)
	}
	return out
}

func quorumPart(p *trust.Part) *QuorumPart {
	q := &QuorumPart{Name: p.Name, Kind: "group", Met: p.Met(), Have: p.Have(), Needed: p.Needed, Of: p.Of()}
	if p.Cosignature != nil {
		q.Kind = "witness"
	}
	if q.Met {
		q.Time = trust.TimeText(p.Time())
	}
	for _, m := range p.Members {
		q.Members = append(q.Members, *quorumPart(m))
	}
	return q
}

// trustDetail says what is trusted, and by which file.
func trustDetail(file *trust.File, policy *trust.Policy) string {
	log := fmt.Sprintf("log %s (key %08x), event keys: %d", file.Origin(), file.Log.ID, file.EventKeys.Len())
	if policy == nil {
		return fmt.Sprintf("%s, witnesses: %d, quorum: %d", log, len(file.Witnesses), file.Quorum)
	}
	s := fmt.Sprintf("%s; by the policy, log keys: %d, witnesses: %d, quorum: %s", log, len(policy.LogsOf(file.Origin())), len(policy.Witnesses), clip(policy.Quorum))
	if file.Quorum > 0 {
		s += fmt.Sprintf("; the trust file's own quorum, %d of %d, is not asked", file.Quorum, len(file.Witnesses))
	}
	return s
}

func (v *verifier) logSignature(n *trust.Note) {
	var expected []string
	for _, k := range v.policy.LogsOf(v.file.Origin()) {
		expected = append(expected, fmt.Sprintf("%s+%08x", clip(k.Name), k.ID))
	}
	anyOf := strings.Join(expected, " or ")
	k, err := v.policy.LogSignature(n, v.file.Origin())
	switch {
	case errors.Is(err, trust.ErrUnknownLog):
		v.fail(Check{Name: CheckLogSignature, Detail: "unknown log key: no signature of the checkpoint is by the trusted log key", Expected: anyOf, Got: signers(n)})
	case err != nil:
		v.fail(Check{Name: CheckLogSignature, Detail: "bad log signature: " + err.Error(), Expected: anyOf})
	default:
		v.done(CheckLogSignature, "signed by %s+%08x", k.Name, k.ID)
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

// quorum counts the cosignatures by the policy, and explains the count.
func (v *verifier) quorum(n *trust.Note) {
	v.tally = v.policy.Tally(n)
	bad := v.tally.Bad()
	for _, c := range bad {
		v.fail(Check{Name: CheckWitnessQuorum, Detail: "bad cosignature: " + c.Detail})
	}
	switch q := v.tally.Quorum; {
	case q != nil && !q.Met():
		v.fail(Check{Name: CheckWitnessQuorum, Detail: v.tally.String(), Expected: fmt.Sprintf("at least %d", q.Needed), Got: fmt.Sprint(q.Have())})
	case len(bad) > 0:
		v.fail(Check{Name: CheckWitnessQuorum, Detail: v.tally.String() + ": a checkpoint with a bad line of a known key is refused, whoever else signed it"})
	case q == nil:
		v.skip(CheckWitnessQuorum, v.tally.String())
	default:
		v.done(CheckWitnessQuorum, "%s", v.tally)
	}
}

// freshness compares the time since which the quorum is met with the clock that
// was given.
func (v *verifier) freshness() {
	o := &v.opts
	since := v.tally.Time()
	switch {
	case o.MaxAge <= 0:
		detail := "not asked for"
		if since > 0 {
			detail += "; the quorum is met by cosignatures since " + trust.TimeText(since)
		}
		v.skip(CheckFreshness, detail)
		return
	case v.tally.Quorum == nil:
		v.cannot(CheckFreshness, "no quorum is asked for, and a log's own signature states no time that anyone else vouches for")
		return
	case o.Now.Unix() <= 0:
		v.cannot(CheckFreshness, "no time was given to judge it by")
		return
	case v.failedCheck(CheckWitnessQuorum):
		v.skip(CheckFreshness, "the witness quorum is not met")
		return
	}
	now := o.Now.UTC().Format(time.RFC3339)
	limit := uint64(o.Now.Add(FutureTolerance).Unix())
	ahead := v.ahead(limit)
	if since = v.tally.TimeUpTo(limit); since == 0 {
		v.fail(Check{Name: CheckFreshness, Detail: "the quorum is not met without cosignatures that state a time in the future: " + ahead,
			Expected: fmt.Sprintf("times up to %s", trust.TimeText(limit)), Got: trust.TimeText(v.tally.Time())})
		return
	}
	age := max(o.Now.Sub(time.Unix(int64(since), 0)), 0)
	detail := fmt.Sprintf("the quorum is met by cosignatures since %s, %s before %s", trust.TimeText(since), rounded(age), now)
	if ahead != "" {
		detail += "; not counted, because they state a time in the future: " + ahead
	}
	if age > o.MaxAge {
		v.fail(Check{Name: CheckFreshness, Detail: detail, Expected: fmt.Sprintf("at most %s old", o.MaxAge), Got: rounded(age).String()})
		return
	}
	v.done(CheckFreshness, "%s; allowed are %s", detail, o.MaxAge)
}

// rounded rounds an age up to seconds, so that what is too old never reads like
// what is allowed.
func rounded(age time.Duration) time.Duration {
	if r := age.Truncate(time.Second); r < age && r <= math.MaxInt64-time.Second {
		return r + time.Second
	}
	return age
}

// ahead names the witnesses that state a time beyond the limit.
func (v *verifier) ahead(limit uint64) string {
	var names []string
	for _, c := range v.tally.Cosigned() {
		if c.Time > limit {
			names = append(names, c.Name()+" at "+trust.TimeText(c.Time))
		}
	}
	return shorten(names)
}

// shorten joins names, at most eight of them.
func shorten(names []string) string {
	if more := len(names) - 8; more > 0 {
		names = append(names[:8:8], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
