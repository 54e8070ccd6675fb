package review

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// Trigger is why a contract is reviewed: one of event.ReviewTriggers.
type Trigger string

// State is what triggers are found by: today's policy and verifiers against what
// the newest review of each contract was made with.
type State struct {
	Policy    string // digest of today's policy
	Verifiers string // [VerifiersDigest] of today's
	// Retention names the admissions whose retention class was changed, as event
	// ids, receipts or attempt ids, with the time of the change (ARC-16).
	Retention []Change
	// Incident names receipts, contracts or admissions that an incident is about.
	Incident []string
}

// Change is something that happened to what Name names.
type Change struct {
	Name string
	At   int64 // milliseconds since 1970
}

// DueOf returns why a contract is due, the weightiest trigger first; none if
// nothing but a schedule asks for it. It reads metadata only (OPS-06).
func DueOf(c *Contract, s State) []Trigger {
	var due []Trigger
	names := func(name string) bool {
		return name != "" && (name == c.Terms.Receipt || name == c.Name || name == c.Terms.Admission || name == c.Attempt)
	}
	if slices.ContainsFunc(s.Incident, names) {
		due = append(due, event.TriggerIncident)
	}
	l := c.Last
	if l == nil || l.Receipt != c.Terms.Receipt {
		// Nobody reviewed this receipt yet. Whether the policy changed since its
		// admission shows when the receipt is opened.
		return due
	}
	if l.Impact != "" && l.Impact != c.Terms.Impact {
		due = append(due, event.TriggerImpact)
	}
	if l.Policy != "" && s.Policy != "" && l.Policy != s.Policy {
		due = append(due, event.TriggerPolicy)
	}
	if l.Verifiers != "" && s.Verifiers != "" && l.Verifiers != s.Verifiers {
		due = append(due, event.TriggerVerifier)
	}
	if slices.ContainsFunc(s.Retention, func(ch Change) bool { return names(ch.Name) && ch.At > l.At.UnixMilli() }) {
		due = append(due, event.TriggerRetention)
	}
	return due
}

// VerifiersDigest names verifiers with their versions and trust material: a
// change of any of them is a trigger. It is the SHA-256 of the canonical JSON of
// the array that a decision has of them, sorted by id and version, and the trust
// material of each by name and digest. The order of infos does not matter.
func VerifiersDigest(infos []admission.VerifierInfo) string {
	sorted := slices.Clone(infos)
	for i := range sorted {
		sorted[i].Trust = slices.SortedFunc(slices.Values(sorted[i].Trust), func(a, b admission.TrustMaterial) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest))
		})
	}
	slices.SortFunc(sorted, func(a, b admission.VerifierInfo) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Version, b.Version))
	})
	b, err := json.Marshal(sorted)
	v := jsontext.Value(b)
	if err != nil || v.Canonicalize() != nil {
		return "" // no valid text; a record with such a verifier is refused
	}
	return admission.Digest(v)
}
