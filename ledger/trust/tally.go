package trust

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CosignatureStatus is what a note shows of a witness.
type CosignatureStatus string

const (
	// Cosigned: a line of the witness verifies and states a time.
	Cosigned CosignatureStatus = "cosigned"
	// Missing: there is no line of the witness, or one without a time, which
	// does not say that this is the largest tree that the witness has seen.
	Missing CosignatureStatus = "missing"
	// Bad: a line of the witness does not verify. Then the whole note is to be
	// refused, whoever else signed it.
	Bad CosignatureStatus = "bad"
)

// Cosignature is what a note shows of one witness of a policy.
type Cosignature struct {
	Witness PolicyWitness
	Status  CosignatureStatus
	// Time is the largest time that the witness states, in seconds since 1970;
	// not 0 if and only if Status is Cosigned.
	Time uint64
	// Detail says why a witness is bad, or missing although it has a line; "" for
	// others.
	Detail string
}

// Tally says how the cosignatures of a note count under a policy: who cosigned
// and when, who is missing, and which part of the quorum is short of what. Make
// one with [Policy.Tally].
type Tally struct {
	// Witnesses are all witnesses of the policy in their order, asked or not.
	Witnesses []Cosignature
	// Quorum is what the policy asks for; nil for QuorumNone.
	Quorum *Part
}

// Part is a witness or group of a quorum.
type Part struct {
	Name string
	// Cosignature is that of a witness, in Tally.Witnesses; nil for a group.
	Cosignature *Cosignature
	// Needed is how many members must be met; 1 for a witness.
	Needed  int
	Members []*Part // none for a witness
}

// Tally counts the cosignatures of a note. The policy is one that ParsePolicy
// or Validate accepts; what an invalid one leaves open is not met. A witness
// counts once, however many lines it has. The cost is one verification a line
// of a known witness.
func (p *Policy) Tally(n *Note) *Tally {
	t := &Tally{Witnesses: make([]Cosignature, len(p.Witnesses))}
	parts := make(map[string]*Part, len(p.Witnesses)+len(p.Groups))
	for i, w := range p.Witnesses {
		c := &t.Witnesses[i]
		c.Witness, c.Status = w, Missing
		switch got, err := n.VerifyBy(w.Key); {
		case err != nil:
			c.Status, c.Detail = Bad, err.Error()
		case got.Lines > 0 && got.Timestamp == 0:
			c.Detail = "its cosignature states no time"
		case got.Lines > 0:
			c.Status, c.Time = Cosigned, got.Timestamp
		}
		parts[w.Name] = &Part{Name: w.Name, Cosignature: c, Needed: 1}
	}
	for _, g := range p.Groups { // members stand before their group
		part := &Part{Name: g.Name, Needed: g.K}
		for _, m := range g.Members {
			if member := parts[m]; member != nil {
				part.Members = append(part.Members, member)
			}
		}
		parts[g.Name] = part
	}
	if p.Quorum != QuorumNone {
		if t.Quorum = parts[p.Quorum]; t.Quorum == nil {
			t.Quorum = &Part{Name: p.Quorum, Needed: 1}
		}
	}
	return t
}

// Met reports whether the quorum is met; a policy that asks for none always is.
// A bad line does not take a quorum away: see [Tally.Bad].
func (t *Tally) Met() bool { return t.Quorum == nil || t.Quorum.Met() }

// Bad are the witnesses with a line that does not verify. If there are any, the
// note is to be refused.
func (t *Tally) Bad() []Cosignature { return t.with(Bad) }

// Cosigned are the witnesses that cosigned, asked or not.
func (t *Tally) Cosigned() []Cosignature { return t.with(Cosigned) }

func (t *Tally) with(s CosignatureStatus) []Cosignature {
	var out []Cosignature
	for _, c := range t.Witnesses {
		if c.Status == s {
			out = append(out, c)
		}
	}
	return out
}

// Time is the largest time T, in seconds since 1970, such that cosignatures
// that state T or later meet the quorum; 0 if it is not met or none is asked
// for.
func (t *Tally) Time() uint64 { return t.TimeUpTo(math.MaxUint64) }

// TimeUpTo is Time over cosignatures that state at most the time limit.
func (t *Tally) TimeUpTo(limit uint64) uint64 {
	if t.Quorum == nil {
		return 0
	}
	return t.Quorum.TimeUpTo(limit)
}

// TimeUpTo is the largest time T such that cosignatures that state a time from
// T up to the limit meet this part; 0 if they do not. For a group that needs k
// members it is the k-th largest of its members' times.
func (p *Part) TimeUpTo(limit uint64) uint64 {
	if p.Cosignature != nil {
		if p.Cosignature.Time > limit {
			return 0
		}
		return p.Cosignature.Time
	}
	if p.Needed < 1 || p.Needed > len(p.Members) {
		return 0
	}
	times := make([]uint64, len(p.Members))
	for i, m := range p.Members {
		times[i] = m.TimeUpTo(limit)
	}
	slices.Sort(times)
	return times[len(times)-p.Needed]
}

// Time is TimeUpTo without a limit.
func (p *Part) Time() uint64 { return p.TimeUpTo(math.MaxUint64) }

// Met reports whether this part of the quorum is met.
func (p *Part) Met() bool { return p.Time() > 0 }

// Have is how many members are met; of a witness, 1 if it cosigned.
func (p *Part) Have() int {
	if p.Cosignature != nil {
		return boolInt(p.Met())
	}
	n := 0
	for _, m := range p.Members {
		n += boolInt(m.Met())
	}
	return n
}

// Of is how many members there are; 1 for a witness.
func (p *Part) Of() int {
	if p.Cosignature != nil {
		return 1
	}
	return len(p.Members)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxNamed bounds the names of each list in a line for people.
const maxNamed = 8

// String explains the count in one line: "2 of 3; missing B (b.example);
// cosigned A (a.example) at 2026-07-28T00:00:00Z, …; 2 needed". Groups inside of
// the quorum that lack something are named with what they lack.
func (t *Tally) String() string {
	var s []string
	var cosigned []string
	if t.Quorum == nil {
		s = append(s, "no quorum was asked for")
		if len(t.Witnesses) > 0 {
			s = append(s, fmt.Sprintf("%d of %d witnesses cosigned", len(t.Cosigned()), len(t.Witnesses)))
		}
		for _, c := range t.Cosigned() {
			cosigned = append(cosigned, c.at())
		}
	} else {
		q := t.Quorum
		s = append(s, fmt.Sprintf("%d of %d", q.Have(), q.Of()))
		if lacks := q.lacks(); lacks != "" {
			s = append(s, lacks)
		}
		for _, m := range q.Members {
			s = m.shortages(s)
		}
		cosigned = q.cosigned(nil)
	}
	if bad := t.Bad(); len(bad) > 0 {
		var names []string
		for _, c := range bad {
			names = append(names, c.Name())
		}
		s = append(s, "bad "+list(names))
	}
	if len(cosigned) > 0 {
		s = append(s, "cosigned "+list(cosigned))
	}
	if t.Quorum != nil {
		s = append(s, fmt.Sprintf("%d needed", t.Quorum.Needed))
	}
	return strings.Join(s, "; ")
}

// lacks names the members that are not met and not bad: "missing A, group b".
func (p *Part) lacks() string {
	members := p.Members
	if p.Cosignature != nil {
		members = []*Part{p}
	}
	var names []string
	for _, m := range members {
		switch c := m.Cosignature; {
		case c == nil && !m.Met():
			names = append(names, "group "+clip(m.Name))
		case c != nil && c.Status == Missing && c.Detail != "":
			names = append(names, c.Name()+" ("+c.Detail+")")
		case c != nil && c.Status == Missing:
			names = append(names, c.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "missing " + list(names)
}

// shortages adds a text for each group, from this one down, that lacks a member:
// "group eu: 1 of 3, 2 needed, missing B, C".
func (p *Part) shortages(s []string) []string {
	if p.Cosignature != nil {
		return s
	}
	if p.Have() < p.Of() {
		text := fmt.Sprintf("group %s: %d of %d", clip(p.Name), p.Have(), p.Of())
		if p.Needed < p.Of() {
			text += fmt.Sprintf(", %d needed", p.Needed)
		}
		if lacks := p.lacks(); lacks != "" {
			text += ", " + lacks
		}
		s = append(s, text)
	}
	for _, m := range p.Members {
		s = m.shortages(s)
	}
	return s
}

// cosigned adds the witnesses of this part that cosigned, each with its time.
func (p *Part) cosigned(names []string) []string {
	if c := p.Cosignature; c != nil && c.Status == Cosigned {
		return append(names, c.at())
	}
	for _, m := range p.Members {
		names = m.cosigned(names)
	}
	return names
}

// Name is the witness as people should read it: its policy name, and the name of
// its key where that is another one.
func (c *Cosignature) Name() string {
	if c.Witness.Name == c.Witness.Key.Name {
		return clip(c.Witness.Name)
	}
	return clip(c.Witness.Name) + " (" + clip(c.Witness.Key.Name) + ")"
}

func (c *Cosignature) at() string { return c.Name() + " at " + TimeText(c.Time) }

func list(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed:maxNamed], strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}

// maxTextTime is 9999-12-31T23:59:59Z, the last time that RFC 3339 can write.
const maxTextTime = 253402300799

// TimeText writes the time of a cosignature, seconds since 1970, as RFC 3339 in
// UTC; a time after the year 9999 as "@" and its seconds.
func TimeText(seconds uint64) string {
	if seconds > maxTextTime {
		return "@" + strconv.FormatUint(seconds, 10)
	}
	return time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339)
}

// ErrUnknownLog: no log of a policy with that origin signed the note.
var ErrUnknownLog = errors.New("unknown log key")

// LogSignature looks for a signature of the note by any one of the policy's logs
// whose key is named like the origin, and returns the first key that signed. A
// line by any log of the policy that does not verify is an error that wraps
// ErrNoteSignature; that nobody signed is one that wraps ErrUnknownLog.
func (p *Policy) LogSignature(n *Note, origin string) (VerifierKey, error) {
	var found *VerifierKey
	for i := range p.Logs {
		k := &p.Logs[i].Key
		got, err := n.VerifyBy(*k)
		if err != nil {
			return VerifierKey{}, err
		}
		if found == nil && got.Lines > 0 && k.Name == origin {
			found = k
		}
	}
	if found == nil {
		return VerifierKey{}, fmt.Errorf("%w: no signature is by a trusted key of the log %s", ErrUnknownLog, clip(origin))
	}
	return *found, nil
}
