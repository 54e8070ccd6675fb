package receipt

import (
	"strings"
	"testing"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
)

// TestPRV10_Disclosures: what is not shown is neutral; only the erasure of this very
// attempt, done after the event, makes it unavailable.
func TestPRV10_Disclosures(t *testing.T) {
	key := []byte("key of the attempt, 32 bytes long")
	a := newAttempt(origin, 1)
	salt := commit.DeriveSalt(key, a.AttemptID, commit.SlotBegin, commit.NameInput)
	value := []byte(`{"secret":1}`)
	a.Commitments = map[string]string{commit.NameInput: commit.FormatDigest(commit.Commitment(commit.NameInput, salt, value))}
	of := Logged{4, a}
	opening := func(change func(*commit.Opening)) *commit.Opening {
		o := &commit.Opening{Name: commit.NameInput, Encoding: commit.JCS, Salt: salt, Value: value}
		if change != nil {
			change(o)
		}
		return o
	}
	proof := func(change func(notice, done *event.Event)) []Logged {
		n := newAttempt(origin, 9)
		n.Subject = event.Subject{Kind: event.Ledger, ID: origin}
		n.ClaimBoundary = event.ClaimBoundaryFor(event.Attempt, event.Ledger)
		n.Statement = event.Erasure{State: event.PrivacyPurged, Attempts: []string{a.AttemptID}}.Value()
		done := follow(n, event.Outcome, event.StatusSucceeded)
		if change != nil {
			change(n, done)
		}
		done.Previous = event.DigestOf(n.Append(nil)).String()
		return []Logged{{7, n}, {8, done}}
	}
	early := proof(nil)
	early[0].Index = 4
	broken := proof(nil)
	broken[1].Event.Previous = "sha256:" + strings.Repeat("0", 64)
	for what, tc := range map[string]struct {
		opening *commit.Opening
		erasure []Logged
		name    string
		want    Disclosure
	}{
		"nothing":                    {want: DisclosureMissing},
		"nothing, of no commitment":  {name: "result", want: DisclosureMissing},
		"the opening":                {opening: opening(nil), want: DisclosureOpened},
		"the opening after all":      {opening: opening(nil), erasure: proof(nil), want: DisclosureOpened},
		"another value":              {opening: opening(func(o *commit.Opening) { o.Value = []byte("2") }), want: DisclosureMismatch},
		"another salt":               {opening: opening(func(o *commit.Opening) { o.Salt[0]++ }), want: DisclosureMismatch},
		"another name":               {opening: opening(func(o *commit.Opening) { o.Name = "result" }), want: DisclosureMismatch},
		"another encoding":           {opening: opening(func(o *commit.Opening) { o.Encoding = "x" }), want: DisclosureMismatch},
		"of no commitment":           {opening: opening(func(o *commit.Opening) { o.Name = "result" }), name: "result", want: DisclosureMismatch},
		"a wrong one and an erasure": {opening: opening(func(o *commit.Opening) { o.Value = nil }), erasure: proof(nil), want: DisclosureMismatch},
		"the erasure":                {erasure: proof(nil), want: DisclosureErased},
		"the erasure, of no value":   {erasure: proof(nil), name: "result", want: DisclosureMismatch},
		"a redaction": {erasure: proof(func(n, _ *event.Event) {
			n.Statement = event.Erasure{State: event.PrivacyRedacted, Attempts: []string{a.AttemptID}}.Value()
		}), want: DisclosureErased},
		"of another attempt": {erasure: proof(func(n, _ *event.Event) {
			n.Statement = event.Erasure{State: event.PrivacyPurged, Attempts: []string{"att_" + strings.Repeat("0", 32)}}.Value()
		}), want: DisclosureMismatch},
		"not done":                     {erasure: proof(nil)[:1], want: DisclosureMismatch},
		"done without success":         {erasure: proof(func(_, o *event.Event) { o.Status = event.StatusFailed }), want: DisclosureMismatch},
		"another notice":               {erasure: proof(func(n, _ *event.Event) { n.Statement = event.Gap{From: 1, To: 1, Count: 1}.Value() }), want: DisclosureMismatch},
		"of another ledger":            {erasure: proof(func(n, _ *event.Event) { n.Ledger = "other.example/log" }), want: DisclosureMismatch},
		"of another tenant":            {erasure: proof(func(n, _ *event.Event) { n.Tenant = "other" }), want: DisclosureMismatch},
		"an attempt of a tool":         {erasure: []Logged{{7, newAttempt(origin, 3)}}, want: DisclosureMismatch},
		"before the event":             {erasure: early, want: DisclosureMismatch},
		"an outcome of something else": {erasure: broken, want: DisclosureMismatch},
		"only the outcome":             {erasure: proof(nil)[1:], want: DisclosureMismatch},
	} {
		name := tc.name
		if name == "" {
			name = commit.NameInput
		}
		got, detail := Disclose(of, name, tc.opening, tc.erasure)
		if got != tc.want || (detail == "") != (got == DisclosureOpened) {
			t.Errorf("%s: %s (%s), want %s", what, got, detail, tc.want)
		}
		if strings.Contains(detail, "secret") {
			t.Errorf("%s: %q shows the value", what, detail)
		}
	}
}
