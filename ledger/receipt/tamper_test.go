package receipt

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// Each kind of tampering fails under its own names, and a failure of a leaf says
// which one, which event, what was expected and what is there.
func TestBND02_EachTamperingHasItsName(t *testing.T) {
	w := story(t)
	cp := w.checkpoint(7)
	good := w.bundle()
	digest := func(i int) event.Digest { return w.records[i].Digest() }
	edit := func(old, replacement string) []byte { t.Helper(); return replace(t, good, old, replacement) }
	with := func(change func([]Entry)) []byte {
		e := w.entries(7)
		change(e)
		return forge(e, cp)
	}
	fresh := *w
	fresh.logKey = "fresh"
	other := newWorld(t)
	other.name = "other.example/log"
	other.log(newAttempt(other.name, 1))
	again := story(t)
	again.logRecord(again.records[3])
	const firstReference = `"lifecycle":"attempt","revision":1}`

	for _, c := range []struct {
		name   string
		bundle []byte
		checks []string
	}{
		{"truncated", good[:len(good)/2], []string{CheckFormat}},
		{"truncated by a byte", good[:len(good)-1], []string{CheckFormat}},
		{"truncated after an entry", good[:bytes.Index(good, []byte(","+litArtifact))], []string{CheckFormat}},
		{"entries reordered", with(func(e []Entry) { e[3], e[4] = e[4], e[3] }), []string{CheckEntryOrder}},
		{"entries of an attempt reordered", with(func(e []Entry) { e[0], e[1] = e[1], e[0] }), []string{CheckEntryOrder, CheckChain}},
		{"two entries with one index", edit(`"leafIndex":4`, `"leafIndex":3`), []string{CheckEntryOrder, CheckInclusion}},
		{"an entry twice", forge(slices.Insert(w.entries(7), 4, w.entries(7)[3]), cp), []string{CheckEntryOrder, CheckLifecycle}},
		{"an event twice in the log", again.bundle(), []string{CheckLifecycle}},

		{"checkpoint is no note", forge(w.entries(7), []byte("7")), []string{CheckCheckpoint}},
		{"note is no checkpoint", forge(w.entries(7), w.signNote("hello\n", noteSigner(t, origin, "log"))), []string{CheckCheckpoint}},
		{"size with a leading zero", forge(w.entries(7), w.signNote("x\n07\n", noteSigner(t, origin, "log"))), []string{CheckCheckpoint}},
		{"checkpoint re-signed by a fresh key of the same name", forge(w.entries(7), fresh.checkpoint(7)), []string{CheckLogSignature}},
		{"log signature flipped", forge(w.entries(7), flipSignature(t, cp, 0)), []string{CheckLogSignature}},
		{"good log signature after a flipped one", forge(w.entries(7), append(flipSignature(t, cp, 0), lastLine(cp)...)), []string{CheckLogSignature}},
		{"checkpoint of another log", forge(w.entries(7), other.checkpoint(1)), []string{CheckOrigin, CheckLogSignature, CheckLeafIndex, CheckProofLength}},
		{"another log by the same key", other.bundle(), []string{CheckOrigin, CheckLogSignature}},
		{"root changed under the signature", forge(w.entries(7), bytes.Replace(cp, cp[len(origin)+3:len(origin)+7], []byte("AAAA"), 1)), []string{CheckLogSignature, CheckInclusion}},
		{"signed checkpoint of another size", forge(w.entries(7), w.checkpoint(6)), []string{CheckLeafIndex, CheckProofLength, CheckInclusion}},
		{"signed checkpoint of another size, proof of the same length", forge(w.entries(7, 3), w.checkpoint(6)), []string{CheckInclusion}},

		{"entry of another log", edit(`"origin":"`+origin+`"`, `"origin":"other.example/log"`), []string{CheckOrigin}},
		{"wrong index out of range", edit(`"leafIndex":6`, `"leafIndex":7`), []string{CheckLeafIndex}},
		{"wrong index in range", replace(t, w.bundle(3), `"leafIndex":3`, `"leafIndex":2`), []string{CheckInclusion}},
		{"wrong index in range, other depth", replace(t, w.bundle(6), `"leafIndex":6`, `"leafIndex":5`), []string{CheckProofLength}},
		{"one hash too many", with(func(e []Entry) { e[3].Proof = append(e[3].Proof, e[3].Proof[0]) }), []string{CheckProofLength}},
		{"one hash too few", with(func(e []Entry) { e[3].Proof = e[3].Proof[1:] }), []string{CheckProofLength}},
		{"no hashes", with(func(e []Entry) { e[3].Proof = nil }), []string{CheckProofLength}},
		{"no proof", edit(proofText(w.proof(3, 7)), ""), []string{CheckProofLength}},
		{"sibling flipped", with(func(e []Entry) { e[3].Proof = slices.Concat([][]byte{flip(e[3].Proof[0])}, e[3].Proof[1:]) }), []string{CheckInclusion}},
		{"siblings swapped", with(func(e []Entry) { e[3].Proof = [][]byte{e[3].Proof[1], e[3].Proof[0], e[3].Proof[2]} }), []string{CheckInclusion}},

		{"bit flipped in an event", edit("external-agent-runtime", "external-agent-runtimf"), []string{CheckCommitmentDigest, CheckEventSignature, CheckInclusion}},
		{"bit flipped in a signature", edit(sigText(w.records[3]), base64.StdEncoding.EncodeToString(flip(w.records[3].Signatures[0].Sig))), []string{CheckEventSignature, CheckInclusion}},
		{"event re-signed by a fresh key", with(func(e []Entry) { e[3].Record = resign(e[3].Record, "fresh") }), []string{CheckEventSignature, CheckInclusion}},
		{"signature by a fresh key added", with(func(e []Entry) { e[3].Record = resign(e[3].Record, "event", "fresh") }), []string{CheckInclusion}},
		{"signatures swapped", swap(t, good, sigText(w.records[0]), sigText(w.records[3])), []string{CheckEventSignature, CheckInclusion}},
		{"events swapped", swap(t, good, string(w.records[3].EventBytes), string(w.records[6].EventBytes)), []string{CheckCommitmentDigest, CheckReference, CheckEventSignature, CheckInclusion}},
		{"other commitment digest", edit(`"digest":"`+digest(0).String(), `"digest":"`+digest(3).String()), []string{CheckCommitmentDigest}},
		{"commitment digest in upper case", edit(`"digest":"`+digest(0).String(), `"digest":"`+strings.ToUpper(digest(0).String())), []string{CheckCommitmentDigest}},
		{"other payload type", edit(`"payloadType":"`+event.PayloadType, `"payloadType":"application/json`), []string{CheckPayloadType}},
		{"reference to another event", edit(`"eventId":"`+digest(0).EventID(), `"eventId":"`+digest(3).EventID()), []string{CheckReference}},
		{"reference to another attempt", edit(`"reference":{"attemptId":"`+w.records[0].Event.AttemptID, `"reference":{"attemptId":"`+w.records[3].Event.AttemptID), []string{CheckReference}},
		{"reference to another lifecycle", edit(firstReference, `"lifecycle":"outcome","revision":1}`), []string{CheckReference}},
		{"reference to another revision", edit(firstReference, `"lifecycle":"attempt","revision":2}`), []string{CheckReference}},
		{"reference with a previous", edit(firstReference, `"lifecycle":"attempt","previous":"`+digest(3).String()+`","revision":1}`), []string{CheckReference}},

		{"claim boundary missing", dropBoundary(t, good, "review_opinion_v1"), []string{CheckClaims}},
		{"claim boundary strengthened", edit("This does not show that the action was authorised", "This shows that the action was authorised"), []string{CheckClaims}},
		{"claim boundary of nobody", edit(`"claimBoundaries":{`, `"claimBoundaries":{"a_v1":"x",`), []string{CheckClaims}},
		{"registered claim boundary of no entry", bytes.Replace(w.bundle(3), head(t, w.bundle(3)), head(t, good), 1), []string{CheckClaims}},
	} {
		r := Verify(c.bundle, w.trusts("event"), Options{})
		wantFailed(t, c.name, r, c.checks...)
		for _, f := range r.Checks {
			if f.Status != Fail || f.Name == CheckFormat || f.Name == CheckCheckpoint || f.Name == CheckLogSignature || f.Name == CheckClaims ||
				(f.Name == CheckOrigin && f.LeafIndex == nil) {
				continue
			}
			if f.LeafIndex == nil || f.EventID == "" {
				t.Errorf("%s: %s does not say which leaf and event: %+v", c.name, f.Name, f)
			}
			if (f.Expected == "" || (f.Got == "" && f.Name != CheckReference)) && f.Name != CheckLifecycle && !(c.name == "reference with a previous") {
				t.Errorf("%s: %s does not say expected and got: %+v", c.name, f.Name, f)
			}
		}
	}
	// The same bytes, untouched, pass: the table does not fail for another reason.
	wantVerified(t, "untouched", Verify(with(func([]Entry) {}), w.trusts("event"), Options{}))
}

// head is everything before the entries.
func head(t testing.TB, b []byte) []byte {
	t.Helper()
	before, _, ok := bytes.Cut(b, []byte(litEntries))
	if !ok {
		t.Fatal("no entries")
	}
	return before
}

// flipSignature flips a bit of a signature of a note.
func flipSignature(t testing.TB, b []byte, i int) []byte {
	t.Helper()
	n, err := trust.ParseNote(b)
	if err != nil {
		t.Fatal(err)
	}
	n.Signatures[i].Sig = flip(n.Signatures[i].Sig)
	return n.Append(nil)
}

func lastLine(note []byte) []byte {
	return note[bytes.LastIndexByte(note[:len(note)-1], '\n')+1:]
}

// A good signature over bytes that are not the canonical bytes of an event
// makes them no event: the report says both.
func TestATT05_GoodSignatureOverOtherBytesIsNotAccepted(t *testing.T) {
	a := newAttempt(origin, 1)
	canonical := a.Append(nil)
	for name, c := range map[string]struct {
		payload []byte
		check   string
	}{
		"space":                     {replace(t, canonical, `,"assurance"`, `, "assurance"`), CheckFormat},
		"escape":                    {replace(t, canonical, "external_tool_call", `\u0065xternal_tool_call`), CheckFormat},
		"other order":               {append([]byte(`{"zzz":1,`), canonical[1:]...), CheckFormat},
		"duplicate member":          {replace(t, canonical, `"tenant":"default"`, `"tenant":"default","tenant":"default"`), CheckFormat},
		"number with an exponent":   {replace(t, canonical, `"revision":1`, `"revision":1e0`), CheckFormat},
		"number beyond 2^53":        {replace(t, canonical, `"revision":1`, `"revision":9007199254740993`), CheckFormat},
		"noncharacter":              {replace(t, canonical, "trace-001", "trace-\uffff"), CheckFormat},
		"time with an offset":       {replace(t, canonical, "00.000Z", "00.000+00:00"), CheckSchema},
		"time without fraction":     {replace(t, canonical, "00.000Z", "00Z"), CheckSchema},
		"member of tomorrow":        {append(bytes.TrimSuffix(bytes.Clone(canonical), []byte("}")), `,"zzz":1}`...), CheckSchema},
		"schema of tomorrow":        {replace(t, canonical, "counterfoil.event.v1", "counterfoil.event.v2"), CheckSchema},
		"claim boundary of its own": {replace(t, canonical, "attempt_self_asserted_v1", "everything_is_true_v1"), CheckSchema},
		"private value planted":     {replace(t, canonical, `,"revision"`, `,"privateInput":"canary","revision"`), CheckSchema},
	} {
		w := newWorld(t)
		w.logRecord(forged(a, c.payload, "event"))
		r := Verify(w.bundleOf(c.payload), w.trusts("event"), Options{})
		wantFailed(t, name, r, c.check)
		if s := r.Signatures; s.SignatureValid != 1 || s.CanonicalPayload != 0 || s.ChainValid != 0 {
			t.Errorf("%s: want a valid signature over a payload that is not canonical, got %+v", name, s)
		}
		if c, _ := r.Find(CheckEventSignature); c.Status != Pass {
			t.Errorf("%s: event_signature is %s", name, c.Status)
		}
	}
}

// bundleOf is the bundle of the only leaf, with the digest of its bytes.
func (w *world) bundleOf([]byte) []byte {
	w.t.Helper()
	return forge(w.entries(1), w.checkpoint(1))
}

// An unknown schema version is named, not passed over.
func TestBND02_UnknownVersionsAreNamed(t *testing.T) {
	w := story(t)
	for name, c := range map[string]struct {
		bundle   []byte
		expected string
	}{
		"bundle":                  {replace(t, w.bundle(), Schema, "counterfoil.bundle.v2"), Schema},
		"bundle of another shape": {[]byte(`{"schemaVersion":"counterfoil.bundle.v2","receipts":[]}`), Schema},
		"a trust file":            {w.trusts("event").Append(nil), Schema},
	} {
		r := Verify(c.bundle, w.trusts("event"), Options{})
		wantFailed(t, name, r, CheckSchema)
		if f := r.Failures(CheckSchema)[0]; f.Expected != c.expected || f.Got == "" {
			t.Errorf("%s: got %+v", name, f)
		}
	}
	rec := w.records[3]
	later := replace(t, rec.EventBytes, "counterfoil.event.v1", "counterfoil.event.v2")
	one := newWorld(t)
	one.logRecord(forged(rec.Event, later, "event"))
	r := Verify(one.bundleOf(later), one.trusts("event"), Options{})
	wantFailed(t, "event", r, CheckSchema)
	if f := r.Failures(CheckSchema)[0]; f.Expected != event.Schema || f.Got != "counterfoil.event.v2" || *f.LeafIndex != 0 {
		t.Errorf("event: got %+v", f)
	}
}

func TestATT11_BadExtraSignaturesDoNotHideAGoodOne(t *testing.T) {
	w := newWorld(t)
	w.signers = []string{"stranger", "event"}
	w.log(newAttempt(origin, 1))
	wantVerified(t, "second signature", Verify(w.bundle(), w.trusts("event"), Options{}))
	r := Verify(w.bundle(), w.trusts("other"), Options{})
	wantFailed(t, "unknown keys", r, CheckEventSignature)
	if d := r.Failures(CheckEventSignature)[0]; !strings.Contains(d.Detail, "unknown key") {
		t.Errorf("got %+v", d)
	}
	rec := sign(newAttempt(origin, 2).Append(nil), "event", "event")
	rec.Event = newAttempt(origin, 2)
	rec.Signatures[0].Sig = flip(rec.Signatures[0].Sig)
	rec.SignatureBytes = event.AppendSignatures(nil, rec.Signatures)
	w = newWorld(t)
	w.logRecord(rec)
	wantVerified(t, "bad one of the same key first", Verify(w.bundle(), w.trusts("event"), Options{}))
}

func TestATT13_SignatureReport(t *testing.T) {
	w := newWorld(t)
	w.attempts(2)
	w.signers = []string{"second"}
	w.log(newAttempt(origin, 9))
	r := Verify(w.bundle(), w.trusts("event", "second"), Options{})
	wantVerified(t, "two keys", r)
	s := r.Signatures
	if s.SignatureValid != 5 || s.CanonicalPayload != 5 || s.ReceiptBindingValid != 5 || s.ChainValid != 5 || len(s.Keys) != 2 {
		t.Fatalf("got %+v", s)
	}
	for _, k := range s.Keys {
		want := map[string]int{keyID("event"): 4, keyID("second"): 1}[k.KeyID]
		if k.Receipts != want || k.Fingerprint != "sha256:"+strings.TrimPrefix(k.KeyID, "ed25519:") {
			t.Errorf("got %+v, want %d receipts", k, want)
		}
	}
	r = Verify(replace(t, w.bundle(), "external-agent-runtime", "external-agent-runtimf"), w.trusts("event", "second"), Options{})
	if s := r.Signatures; s.SignatureValid != 4 || s.CanonicalPayload != 5 || s.ReceiptBindingValid != 4 || s.ChainValid != 4 {
		t.Errorf("one event changed: got %+v", s)
	}
}

// Keys, policies and claims that travel inside are never used; a member that
// brings them makes the bundle malformed.
func TestATT09_EmbeddedKeysAreNotUsed(t *testing.T) {
	w := story(t)
	w.records[3] = resign(w.records[3], "attacker")
	resigned := newWorld(t)
	for _, rec := range w.records {
		resigned.logRecord(rec)
	}
	key := base64.StdEncoding.EncodeToString(public("attacker"))
	for name, b := range map[string][]byte{
		"in the bundle":        replace(t, resigned.bundle(), `],"schemaVersion"`, `],"keys":["`+key+`"],"schemaVersion"`),
		"in the commitment":    replace(t, resigned.bundle(), `,"signatures":[`, `,"publicKey":"`+key+`","signatures":[`),
		"beside the signature": replace(t, resigned.bundle(), `[{"keyId":`, `[{"key":"`+key+`","keyId":`),
	} {
		r := Verify(b, resigned.trusts("event"), Options{})
		if r.Status != Failed || len(r.Failures(CheckFormat)) == 0 {
			t.Errorf("%s: %s", name, text(r))
		}
		if f := r.Failures(CheckEventSignature); len(f) == 0 || !slices.ContainsFunc(f, func(c Check) bool { return *c.LeafIndex == 3 && strings.Contains(c.Detail, "unknown key") }) {
			t.Errorf("%s: the attacker's key was not called unknown: %+v", name, f)
		}
	}
}

func TestATT12_BoundsAreTypedFailures(t *testing.T) {
	w := story(t)
	good := w.bundle()
	listed := append(bytes.Clone(head(t, good)), litEntries...)
	listed = append(listed, bytes.Repeat([]byte(litArtifact+"0,"), MaxEntries)...)
	listed = append(append(listed, litArtifact...), tail...)
	deep := w.entries(7)
	for len(deep[3].Proof) <= MaxProofHashes {
		deep[3].Proof = append(deep[3].Proof, deep[3].Proof[0])
	}
	many := resign(w.records[3], slices.Repeat([]string{"stranger"}, event.MaxSignatures+1)...)
	crowded := w.entries(7)
	crowded[3].Record = many
	for name, c := range map[string]struct {
		bundle []byte
		checks []string
	}{
		"too many entries":    {listed, []string{CheckFormat}},
		"too many hashes":     {forge(deep, w.checkpoint(7)), []string{CheckFormat}},
		"too many signatures": {forge(crowded, w.checkpoint(7)), []string{CheckFormat, CheckInclusion}},
		"too many boundaries": {replace(t, good, `"claimBoundaries":{`, `"claimBoundaries":{`+boundaries(MaxClaimBoundaries)), []string{CheckFormat}},
		"note too long":       {forge(w.entries(7), append(bytes.Repeat([]byte("a"), trust.MaxNoteBytes), "\n\n— a AQIDBAU=\n"...)), []string{CheckCheckpoint}},
		"event too long":      {replace(t, good, "runtime:any", "runtime:"+strings.Repeat("y", event.MaxEventBytes)), []string{CheckFormat, CheckCommitmentDigest, CheckEventSignature, CheckInclusion}},
	} {
		r := Verify(c.bundle, w.trusts("event"), Options{})
		wantFailed(t, name, r, c.checks...)
		if c.checks[0] == CheckFormat && r.Failures(CheckFormat)[0].Detail == "" {
			t.Errorf("%s: %s", name, text(r))
		}
	}
	r := Verify(make([]byte, MaxBundleBytes+1), w.trusts("event"), Options{})
	wantFailed(t, "too large", r, CheckFormat)
}

func boundaries(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"a` + string(rune('A'+i/26)) + string(rune('A'+i%26)) + `":"x",`)
	}
	return b.String()
}
