package review

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/event"
)

// ReportSchema is the schema of a [Report].
const ReportSchema = "counterfoil.review-report.v1"

// Report is what the reviews of a time say together: what to do, and not counts
// alone (OPS-07). Everything is split by impact class, privileged first (OPS-08).
type Report struct {
	SchemaVersion string `json:"schemaVersion"`
	From          string `json:"from"` // event.TimeLayout; included
	To            string `json:"to"`   // not included
	// Contracts and Reviews are what the report is made of; Unreviewed are the
	// contracts whose receipt nobody reviewed yet.
	Contracts  int `json:"contracts"`
	Reviews    int `json:"reviews"`
	Unreviewed int `json:"unreviewed"`
	// Reasons are the reason codes of the reviews, the most frequent first.
	Reasons []ReasonCount `json:"reasons"`
	// Readmissions are privileged contracts that came to need a new admission
	// within the time.
	Readmissions []Standing `json:"readmissions"`
	// Quarantines are the contracts in quarantine, the oldest first.
	Quarantines []Standing `json:"quarantines"`
	// Unavailable are classes of evidence that could not be read, the most often
	// first; Repeated ones count.
	Unavailable []Class `json:"unavailable"`
	// Impacts are the measures by impact class.
	Impacts []Measure `json:"impacts"`
	// Queue is what is to be remedied, the weightiest first (OPS-03).
	Queue []Standing `json:"queue"`
}

// ReasonCount counts a code among the reviews of an impact.
type ReasonCount struct {
	Code   string         `json:"code"`
	Count  int            `json:"count"`
	Impact map[string]int `json:"impact"`
}

// Standing is where a contract stands.
type Standing struct {
	Contract    string   `json:"contract"`
	Impact      string   `json:"impact"`
	Disposition string   `json:"disposition"`
	Mode        string   `json:"mode"`
	Since       string   `json:"since"`
	Reasons     []string `json:"reasonCodes,omitempty"`
	Causes      []string `json:"causes,omitempty"`
	Receipt     string   `json:"receipt"`
	Event       string   `json:"reviewEventId"`
}

// Class is a class of evidence that could not be read.
type Class struct {
	Class string `json:"class"` // role in the archive: receipt, evidence, evidence_bundle, …
	State string `json:"state"` // expired, erased, compacted, absent, damaged, unreadable
	Count int    `json:"count"` // reviews that named it
	// Contracts are how many contracts it was; Repeated of them more than once.
	Contracts int            `json:"contracts"`
	Repeated  int            `json:"repeated"`
	Impact    map[string]int `json:"impact"`
}

// Measure counts the latest reviews of the contracts of an impact.
type Measure struct {
	Impact       string         `json:"impact"`
	Contracts    int            `json:"contracts"`
	Unreviewed   int            `json:"unreviewed"`
	Dispositions map[string]int `json:"dispositions"`
	// Gaps counts the causes of what is not continue, by type of gap.
	Gaps map[string]int `json:"gaps"`
}

// Entry is a review as a report reads it.
type Entry struct {
	Contract    string
	Disposition string
	Mode        string
	Impact      string // at the time of the review
	Reasons     []string
	Causes      []string
	Receipt     string
	Event       string
	At          time.Time
	// Since is the first of the unbroken series with this disposition; of the
	// latest review of a contract only.
	Since time.Time
}

// Subject is a contract as a report reads it.
type Subject struct {
	Name    string
	Impact  string
	Receipt string
	// Latest is the review about the receipt by which the contract stands: the
	// enforced one while it blocks, else the newest of any mode; nil without one.
	Latest *Entry
}

// NewReport makes the report of a time from the contracts in force and the
// reviews of that time. It is pure.
func NewReport(contracts []Subject, reviews []Entry, from, to time.Time) *Report {
	r := &Report{SchemaVersion: ReportSchema, From: event.FormatTime(from), To: event.FormatTime(to), Contracts: len(contracts),
		Reasons: []ReasonCount{}, Readmissions: []Standing{}, Quarantines: []Standing{}, Unavailable: []Class{}, Queue: []Standing{}}
	within := func(t time.Time) bool { return !t.Before(from) && t.Before(to) }
	reviews = slices.DeleteFunc(slices.Clone(reviews), func(e Entry) bool { return !within(e.At) })
	r.Reviews = len(reviews)
	r.Reasons = countReasons(reviews)
	r.Unavailable = countClasses(reviews)
	measures := map[string]*Measure{}
	for _, i := range event.Impacts {
		measures[i] = &Measure{Impact: i, Dispositions: map[string]int{}, Gaps: map[string]int{}}
	}
	for i := range contracts {
		c := &contracts[i]
		m := measures[c.Impact]
		if m == nil {
			continue // no contract in force has another impact
		}
		m.Contracts++
		l := c.Latest
		if l == nil {
			m.Unreviewed++
			r.Unreviewed++
			continue
		}
		m.Dispositions[l.Disposition]++
		if l.Disposition == "continue" {
			continue
		}
		for _, cause := range l.Causes {
			m.Gaps[cause]++
		}
		s := c.standing()
		r.Queue = append(r.Queue, s)
		if l.Disposition == "quarantine" {
			r.Quarantines = append(r.Quarantines, s)
		}
		if l.Disposition == "re_admit" && c.Impact == event.ImpactPrivileged && within(l.Since) {
			r.Readmissions = append(r.Readmissions, s)
		}
	}
	for _, i := range []string{event.ImpactPrivileged, event.ImpactStandard, event.ImpactLow} {
		r.Impacts = append(r.Impacts, *measures[i])
	}
	byAge := func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(weightOfImpact[a.Impact], weightOfImpact[b.Impact]), cmp.Compare(a.Contract, b.Contract))
	}
	slices.SortFunc(r.Quarantines, byAge)
	slices.SortFunc(r.Readmissions, byAge)
	slices.SortFunc(r.Queue, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(weightOfImpact[a.Impact], weightOfImpact[b.Impact]),
			cmp.Compare(weightOfDisposition[a.Disposition], weightOfDisposition[b.Disposition]), byAge(a, b))
	})
	return r
}

var weightOfDisposition = map[string]int{"retire": 0, "quarantine": 1, "re_admit": 2}

func (c *Subject) standing() Standing {
	l := c.Latest
	return Standing{Contract: c.Name, Impact: c.Impact, Disposition: l.Disposition, Mode: l.Mode, Since: event.FormatTime(l.Since),
		Reasons: l.Reasons, Causes: l.Causes, Receipt: c.Receipt, Event: l.Event}
}

func countReasons(reviews []Entry) []ReasonCount {
	counts := map[string]*ReasonCount{}
	for _, e := range reviews {
		for _, code := range slices.Concat(e.Reasons, e.Causes) {
			c := counts[code]
			if c == nil {
				c = &ReasonCount{Code: code, Impact: map[string]int{}}
				counts[code] = c
			}
			c.Count++
			c.Impact[e.Impact]++
		}
	}
	out := []ReasonCount{}
	for _, c := range counts {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b ReasonCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code)) })
	return out
}

// gapStates are the states with which the cause of a gap ends.
var gapStates = []string{"expired", "erased", "compacted", "absent", GapDamaged, GapUnreadable}

// ParseCause takes the cause of a gap apart; ok is false for any other cause.
func ParseCause(cause string) (role, state string, ok bool) {
	i := strings.LastIndexByte(cause, '_')
	if i <= 0 || !slices.Contains(gapStates, cause[i+1:]) {
		return "", "", false
	}
	role = cause[:i]
	return role, cause[i+1:], slices.Contains(gapRoles, role)
}

var gapRoles = []string{RoleReceipt, RoleSnapshot, RoleBinding, RoleBundle, RoleDecision, RoleEvidence, "spanning_set"}

func countClasses(reviews []Entry) []Class {
	type key struct{ role, state string }
	counts, times := map[key]*Class{}, map[key]map[string]int{}
	for _, e := range reviews {
		for _, cause := range e.Causes {
			role, state, ok := ParseCause(cause)
			if !ok {
				continue
			}
			k := key{role, state}
			if counts[k] == nil {
				counts[k], times[k] = &Class{Class: role, State: state, Impact: map[string]int{}}, map[string]int{}
			}
			counts[k].Count++
			counts[k].Impact[e.Impact]++
			times[k][e.Contract]++
		}
	}
	out := []Class{}
	for k, c := range counts {
		c.Contracts = len(times[k])
		for _, n := range times[k] {
			if n > 1 {
				c.Repeated++
			}
		}
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Repeated, a.Repeated), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class), cmp.Compare(a.State, b.State))
	})
	return out
}

// splitBy words counts by impact, privileged first.
func splitBy(counts map[string]int) string {
	var parts []string
	for _, i := range []string{event.ImpactPrivileged, event.ImpactStandard, event.ImpactLow} {
		if n := counts[i]; n > 0 {
			parts = append(parts, i+" "+itoa(n))
		}
	}
	return strings.Join(parts, ", ")
}

func sortedCounts(m map[string]int) []string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	for i, k := range keys {
		keys[i] = k + " " + itoa(m[k])
	}
	return keys
}
