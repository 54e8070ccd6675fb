package receipt

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/trust"
)

// KEY IN RECEIPT: a valid bundle, re-signed with a fresh key under the same
// name, is not judged without a trust file and fails with one.
func TestATT09_KeyInReceipt(t *testing.T) {
	attacker := newWorld(t)
	attacker.logKey, attacker.signers = "fresh", []string{"fresh"}
	attacker.attempts(2)
	b := attacker.bundle()
	r := Verify(b, nil, Options{})
	if c, _ := r.Find(CheckTrust); r.Status != NotJudged || r.ExitCode() != 2 || c.Status == Pass || len(r.Claims) != 0 {
		t.Errorf("without trust: %s", text(r))
	}
	r = Verify(b, attacker.trusts("event"), Options{})
	wantFailed(t, "with trust", r, CheckLogSignature, CheckEventSignature)
	if f := r.Failures(CheckLogSignature)[0]; !strings.Contains(f.Detail, "unknown log key") || f.Expected == f.Got || f.Got == "" {
		t.Errorf("got %+v", f)
	}
	wantVerified(t, "under the attacker's own trust file", Verify(b, func() *trust.File {
		f := attacker.trusts("fresh")
		f.Log, _ = trust.NewVerifierKey(origin, trust.TypeEd25519, public("fresh"))
		return f
	}(), Options{}))
	// A trust file that trusts nobody is none.
	r = Verify(b, &trust.File{Log: attacker.trusts("event").Log}, Options{})
	if r.Status != NotJudged {
		t.Errorf("no event keys: %s", text(r))
	}
}

// EMPTY OR CUT: nothing verified is not verified, and a set that was cut
// together with its checkpoint says that completeness was not checked, unless
// the size is known.
func TestBND02_EmptyOrCut(t *testing.T) {
	w := newWorld(t)
	w.attempts(5)
	for name, b := range map[string][]byte{
		"no bytes":                  nil,
		"no entries":                w.build(nil, w.checkpoint(10)),
		"no entries, no checkpoint": w.build(nil, nil),
		"entries taken out of it":   append(append(bytes.Clone(head(t, w.bundle())), litEntries...), tail...),
	} {
		r := Verify(b, w.trusts("event"), Options{})
		if c, _ := r.Find(CheckFormat); r.Status != NotJudged || r.ExitCode() != 2 || !strings.Contains(c.Detail, "nothing to verify") {
			t.Errorf("%s: %s %+v", name, text(r), c)
		}
	}
	cut := newWorld(t)
	for i := range 10 {
		cut.log(newAttempt(origin, i))
	}
	seven := cut.build(cut.entries(7), cut.checkpoint(7))
	r := Verify(seven, cut.trusts("event"), Options{})
	wantVerified(t, "cut", r)
	if c, _ := r.Find(CheckCompleteness); c.Status != NotChecked || c.Detail != "consistent at size 7, completeness not checked" {
		t.Errorf("cut: %+v", c)
	}
	if !slices.ContainsFunc(r.NotClaimed, func(s string) bool { return strings.HasPrefix(s, "Completeness") }) {
		t.Errorf("completeness is claimed: %q", r.NotClaimed)
	}
	wantVerified(t, "size reached", Verify(seven, cut.trusts("event"), Options{MinSize: 7}))
	wantFailed(t, "min size", Verify(seven, cut.trusts("event"), Options{MinSize: 10}), CheckCompleteness)
	wantVerified(t, "same checkpoint", Verify(seven, cut.trusts("event"), Options{Newest: cut.checkpoint(7)}))
	wantVerified(t, "older checkpoint", Verify(seven, cut.trusts("event"), Options{Newest: cut.checkpoint(3)}))
	wantFailed(t, "newer checkpoint", Verify(seven, cut.trusts("event"), Options{Newest: cut.checkpoint(10)}), CheckCompleteness)

	fork := newWorld(t)
	for i := range 7 {
		fork.log(newAttempt(origin, 100+i))
	}
	r = Verify(seven, cut.trusts("event"), Options{Newest: fork.checkpoint(7)})
	wantFailed(t, "other tree of the same size", r, CheckCompleteness)
	if f := r.Failures(CheckCompleteness)[0]; !strings.Contains(f.Detail, "two trees") || f.Expected == f.Got {
		t.Errorf("fork: %+v", f)
	}
	fork.logKey = "fresh"
	wantFailed(t, "newer checkpoint of a stranger", Verify(seven, cut.trusts("event"), Options{Newest: fork.checkpoint(7)}), CheckCompleteness)
	wantFailed(t, "newer checkpoint is no note", Verify(seven, cut.trusts("event"), Options{Newest: []byte("x")}), CheckCompleteness)
}

// WHERE: a flipped bit in one leaf of ten thousand is found, named and counted.
func TestBND02_WhereInTenThousand(t *testing.T) {
	const leaves, where = 10_000, 4213
	w := newWorld(t)
	for i := range leaves {
		w.log(newAttempt(origin, i))
	}
	wantWhere(t, w, where, "external-agent", 0, CheckCommitmentDigest, CheckEventSignature, CheckInclusion)
}

func TestBND02_WhereWhateverBitIsFlipped(t *testing.T) {
	w := newWorld(t)
	for i := range 40 {
		w.log(newAttempt(origin, i))
	}
	wantWhere(t, w, 13, `{"action"`, 0, CheckFormat, CheckCommitmentDigest, CheckEventSignature, CheckInclusion) // a brace
	wantWhere(t, w, 13, `"status"`, 0, CheckFormat, CheckCommitmentDigest, CheckEventSignature, CheckInclusion)  // a quote
	wantWhere(t, w, 13, `"status"`, 1, CheckSchema, CheckCommitmentDigest, CheckEventSignature, CheckInclusion)  // a name
	wantWhere(t, w, 0, `"revision":1`, 11, CheckSchema, CheckCommitmentDigest, CheckEventSignature, CheckInclusion)
	wantWhere(t, w, 39, `"tenant"`, 8, CheckFormat, CheckCommitmentDigest, CheckEventSignature, CheckInclusion) // the colon of the last leaf

	b := w.bundle()
	for _, i := range []int{0, 17, 39} {
		b[bytes.Index(b, w.records[i].EventBytes)+40] ^= 1
	}
	if r := Verify(b, w.trusts("event"), Options{}); r.Counts.Failed != 3 {
		t.Errorf("three leaves: got %+v", r.Counts)
	}
}

// wantWhere flips the lowest bit of a byte of an event and requires that all
// failures name that leaf, with what was expected and what is there.
func wantWhere(t *testing.T, w *world, where int, near string, offset int, checks ...string) {
	t.Helper()
	b := w.bundle()
	rec := w.records[where]
	b[bytes.Index(b, rec.EventBytes)+bytes.Index(rec.EventBytes, []byte(near))+offset] ^= 1
	r := Verify(b, w.trusts("event"), Options{})
	wantFailed(t, near, r, checks...)
	if r.Counts.Failed != 1 || r.Counts.Entries != len(w.records) {
		t.Errorf("%s: got %+v, want 1 failed of %d", near, r.Counts, len(w.records))
	}
	for _, f := range r.Checks {
		if f.Status == Fail && (f.LeafIndex == nil || *f.LeafIndex != uint64(where) || f.EventID != rec.Digest().EventID()) {
			t.Errorf("%s: %s does not name leaf %d and its event: %+v", near, f.Name, where, f)
		}
	}
	digest, inclusion := r.Failures(CheckCommitmentDigest)[0], r.Failures(CheckInclusion)[0]
	if digest.Expected != rec.Digest().String() || !strings.HasPrefix(digest.Got, "sha256:") || digest.Got == digest.Expected {
		t.Errorf("%s: %+v", near, digest)
	}
	if inclusion.Expected != fmt.Sprintf("root %x", w.tree.Hash()) || inclusion.Got == inclusion.Expected || !strings.HasPrefix(inclusion.Got, "root ") {
		t.Errorf("%s: %+v", near, inclusion)
	}
	if ok, _ := r.Find(CheckEntryOrder); ok.Detail != fmt.Sprintf("%d entries", len(w.records)) {
		t.Errorf("%s: the rest passed as %q", near, ok.Detail)
	}
}

// More failures than a report lists are counted all the same, and each name is
// there.
func TestBND02_FailuresAreBoundedAndCounted(t *testing.T) {
	w := newWorld(t)
	w.attempts(MaxFailures/2 + 10)
	smaller := forge(w.entries(w.size()), w.checkpoint(3))
	i := bytes.LastIndex(smaller, []byte(event.PayloadType)) // the last entry fails in a way of its own
	smaller[i] ^= 1
	r := Verify(smaller, w.trusts("other"), Options{})
	n := len(w.records)
	if r.Counts.Failed != n || r.Counts.Failures < 2*n || len(r.Checks) > MaxFailures+2*len(CheckNames()) {
		t.Errorf("%d lines, %+v", len(r.Checks), r.Counts)
	}
	for _, name := range []string{CheckEventSignature, CheckLeafIndex, CheckProofLength, CheckPayloadType} {
		if len(r.Failures(name)) == 0 {
			t.Errorf("no line of %s", name)
		}
	}
}

// KEY ROTATION at size 100.
func TestATT09_ATT28_KeyRotationByLeafIndex(t *testing.T) {
	w := newWorld(t)
	w.signers = []string{"old"}
	for i := range 200 {
		switch i {
		case 90:
			w.signers = []string{"old", "new"} // the overlap
		case 110:
			w.signers = []string{"new"}
		case 151:
			w.signers = []string{"old"}
		case 152:
			w.signers = []string{"new"}
		}
		w.log(newAttempt(origin, i))
	}
	at := func(i uint64) *uint64 { return &i }
	file := w.trustsKeys(
		trust.EventKey{KeyID: keyID("old"), PublicKey: public("old"), ToIndex: at(100)},
		trust.EventKey{KeyID: keyID("new"), PublicKey: public("new"), FromIndex: 100})
	wantVerified(t, "before, overlap and after", Verify(w.bundle(50, 95, 99, 100, 105, 150), file, Options{}))
	r := Verify(w.bundle(50, 150, 151), file, Options{})
	wantFailed(t, "retired", r, CheckKeyValidity)
	if f := r.Failures(CheckKeyValidity)[0]; *f.LeafIndex != 151 || !strings.Contains(f.Detail, "key retired") || f.Expected != "leaf under 100" || f.Got != "leaf 151" {
		t.Errorf("got %+v", f)
	}
	revoked := w.trustsKeys(
		trust.EventKey{KeyID: keyID("old"), PublicKey: public("old"), ToIndex: at(100), RevokedFromIndex: at(60)},
		trust.EventKey{KeyID: keyID("new"), PublicKey: public("new"), FromIndex: 120})
	wantVerified(t, "before the revocation", Verify(w.bundle(59, 150), revoked, Options{}))
	r = Verify(w.bundle(60, 95, 115), revoked, Options{})
	wantFailed(t, "revoked", r, CheckKeyValidity)
	for i, want := range []string{"key revoked", "key revoked", "key not yet valid"} {
		if f := r.Failures(CheckKeyValidity)[i]; !strings.Contains(f.Detail, want) {
			t.Errorf("got %+v, want %s", f, want)
		}
	}
}

// A bundle without a checkpoint is judged for what it holds, and is not logged.
func TestBND05_ATT27_WithoutCheckpointNotLogged(t *testing.T) {
	w := story(t)
	entries := w.entries(7)
	for i := range entries {
		entries[i].Proof = nil
	}
	bare := w.build(entries, nil)
	taken := bytes.Replace(w.bundle(), bytes.TrimSuffix(head(t, w.bundle()), head(t, bare)[1:]), []byte("{"), 1)
	for name, b := range map[string][]byte{"never published": bare, "checkpoint taken out": taken} {
		r := Verify(b, w.trusts("event"), Options{MinSize: 3})
		if c, _ := r.Find(CheckCheckpoint); r.Status != NotJudged || r.ExitCode() != 2 || c.Status != NotChecked || !strings.HasPrefix(c.Detail, "not logged") {
			t.Errorf("%s: %s %+v", name, text(r), c)
		}
		for _, n := range []string{CheckEventSignature, CheckChain, CheckLifecycle, CheckCommitmentDigest, CheckClaims} {
			if c, _ := r.Find(n); c.Status != Pass {
				t.Errorf("%s: %s is %s", name, n, c.Status)
			}
		}
		for _, n := range []string{CheckLogSignature, CheckInclusion, CheckLeafIndex, CheckProofLength, CheckWitnessQuorum, CheckCompleteness} {
			if c, _ := r.Find(n); c.Status != NotChecked {
				t.Errorf("%s: %s is %s", name, n, c.Status)
			}
		}
		if len(r.Claims) != 0 {
			t.Errorf("%s: claims %q", name, r.Claims)
		}
	}
	wantFailed(t, "and tampered", Verify(replace(t, bare, "external-agent-runtime", "external-agent-runtimf"), w.trusts("event"), Options{}), CheckCommitmentDigest, CheckEventSignature)
}

func TestBND08_ATT25_MissingLinkTargetIsReported(t *testing.T) {
	w := story(t)
	for name, leaves := range map[string][]uint64{
		"the beginning": {1, 2, 4, 5},
		"one between":   {0, 2, 4, 5},
		"all before":    {5},
	} {
		b := w.bundle(leaves...)
		r := Verify(b, w.trusts("event"), Options{})
		wantFailed(t, name, r, CheckChain)
		if f := r.Failures(CheckChain); len(f) != 1 || !strings.Contains(f[0].Detail, "is not in the bundle") || !strings.Contains(f[0].Detail, "sha256:") {
			t.Errorf("%s: %+v", name, f)
		}
		r = Verify(b, w.trusts("event"), Options{AllowPartial: true})
		wantVerified(t, name+", as allowed", r)
		if c, _ := r.Find(CheckChain); c.Status != NotChecked {
			t.Errorf("%s: chain is %s", name, c.Status)
		}
		if c, _ := r.Find(CheckLifecycle); c.Status != NotChecked {
			t.Errorf("%s: lifecycle is %s", name, c.Status)
		}
		if !slices.ContainsFunc(r.Claims, func(s string) bool { return strings.Contains(s, "missing") }) {
			t.Errorf("%s: claims whole attempts: %q", name, r.Claims)
		}
	}
	wantVerified(t, "cut at the end", Verify(w.bundle(0, 1, 2), w.trusts("event"), Options{}))
}

// Two events that follow the same one, and events that the rules refuse, are on
// the log all the same: they fail, at their leaf.
func TestBND02_ATT25_ChainAndLifecycle(t *testing.T) {
	forked := func(t *testing.T) *world {
		w := newWorld(t)
		a := newAttempt(origin, 1)
		w.log(a)
		w.log(outcome(a))
		other := outcome(a)
		other.Source.EventID = "observation-other"
		w.log(other)
		return w
	}
	secondOutcome := func(t *testing.T) *world {
		w := newWorld(t)
		a := newAttempt(origin, 1)
		w.log(a)
		o := outcome(a)
		w.log(o)
		refused := follow(o, event.Outcome, event.StatusFailed)
		w.log(refused)
		lawful := follow(o, event.Review, "noted")
		lawful.Source.EventID = "review-1"
		lawful.Statement = event.Judgement{Rubric: "r1"}.Value()
		lawful.Refs = map[string]string{lifecycle.RefReviews: event.DigestOf(o.Append(nil)).EventID()}
		w.log(lawful)
		return w
	}
	notDerived := func(t *testing.T) *world {
		w := newWorld(t)
		a := newAttempt(origin, 1)
		w.log(a)
		rec := follow(a, event.Reconciliation, event.StatusConfirmedCommitted)
		rec.Statement = event.ReadBack{Source: "crm", Observed: event.ObservedAbsent}.Value()
		w.log(rec)
		return w
	}
	wrongLink := func(t *testing.T) *world {
		w := newWorld(t)
		a := newAttempt(origin, 1)
		w.log(a)
		o := outcome(a)
		o.Previous = event.DigestOf([]byte("x")).String()
		w.log(o)
		return w
	}
	for name, c := range map[string]struct {
		world *world
		check string
		leaf  uint64
		what  string
	}{
		"fork":               {forked(t), CheckChain, 2, "another event of revision 2"},
		"second outcome":     {secondOutcome(t), CheckLifecycle, 2, lifecycle.OutcomeExists},
		"status not derived": {notDerived(t), CheckLifecycle, 1, lifecycle.NotDerived},
		"wrong link":         {wrongLink(t), CheckChain, 1, "names another one"},
	} {
		for _, partial := range []bool{false, true} {
			r := Verify(c.world.bundle(), c.world.trusts("event"), Options{AllowPartial: partial})
			wantFailed(t, name, r, c.check)
			if f := r.Failures(c.check); len(f) != 1 || *f[0].LeafIndex != c.leaf || !strings.Contains(f[0].Detail, c.what) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

func TestCLM05_WitnessQuorum(t *testing.T) {
	w := story(t)
	w1, w2, w3 := newWitness(t, "w1.example"), newWitness(t, "w2.example"), newWitness(t, "w3.example")
	file := w.trusts("event")
	file.Witnesses = []trust.VerifierKey{w1.key, w2.key, w3.key}
	file.Quorum = 2
	stranger := newWitness(t, "stranger.example")
	silent := newWitness(t, "w2.example")
	silent.time = 0 // says nothing about the largest tree seen
	two := w.build(w.entries(7), w.checkpoint(7, stranger, w1, w3))
	r := Verify(two, file, Options{})
	wantVerified(t, "2 of 3", r)
	if c, _ := r.Find(CheckWitnessQuorum); c.Detail != "2 of 3; missing w2.example; cosigned w1.example at 2026-07-28T00:00:00Z, w3.example at 2026-07-28T00:00:00Z; 2 needed" {
		t.Errorf("got %+v", c)
	}
	if !slices.ContainsFunc(r.Claims, func(s string) bool { return strings.Contains(s, "not forked for these witnesses") }) {
		t.Errorf("claims %q", r.Claims)
	}
	for name, cp := range map[string][]byte{
		"none":                      w.checkpoint(7),
		"1 of 3":                    w.checkpoint(7, w1),
		"1 of 3 twice":              append(w.checkpoint(7, w1), lastLine(w.checkpoint(7, w1))...),
		"1 of 3 and a stranger":     w.checkpoint(7, w1, stranger),
		"1 of 3 and one of no time": w.checkpoint(7, w1, silent),
		"cosigned another size":     append(w.checkpoint(7, w1), lastLine(w.checkpoint(6, w2))...),
		"one of three is flipped":   flipSignature(t, w.checkpoint(7, w1, w2, w3), 3),
	} {
		r := Verify(forge(w.entries(7), cp), file, Options{})
		wantFailed(t, name, r, CheckWitnessQuorum)
	}
	// The level of what is claimed follows what was asked for.
	file.Quorum = 0
	r = Verify(two, file, Options{})
	wantVerified(t, "no quorum", r)
	if c, _ := r.Find(CheckWitnessQuorum); c.Status != NotChecked || !strings.Contains(c.Detail, "2 of 3") {
		t.Errorf("no quorum: %+v", c)
	}
	if slices.ContainsFunc(r.Claims, func(s string) bool { return strings.HasPrefix(s, "Witnesses") }) {
		t.Errorf("no quorum: claims %q", r.Claims)
	}
}
