package receipt

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/event"
)

func TestCLM03_ClaimsSayWhatASignatureShows(t *testing.T) {
	w := story(t)
	r := Verify(w.bundle(), w.trusts("event"), Options{})
	claims := strings.Join(r.Claims, "\n")
	for _, s := range []string{"Signature: ", "Inclusion: ", "Links: ", "every receipt (7)"} {
		if !strings.Contains(claims, s) {
			t.Errorf("claims lack %q:\n%s", s, claims)
		}
	}
	for _, s := range []string{"true", "truth", "exactly once", "complete"} {
		if strings.Contains(strings.ToLower(claims), s) {
			t.Errorf("claims hold %q:\n%s", s, claims)
		}
	}
}

func TestCLM04_ReportSaysWhatIsOutside(t *testing.T) {
	w := story(t)
	for name, r := range map[string]*Report{
		"verified":   Verify(w.bundle(), w.trusts("event"), Options{}),
		"failed":     Verify([]byte("x"), w.trusts("event"), Options{}),
		"not judged": Verify(nil, nil, Options{}),
	} {
		not := strings.Join(r.NotClaimed, "\n")
		for _, s := range []string{"Truth: ", "Source identity: ", "Completeness: ", "Order and time: ", "Non-equivocation: "} {
			if !strings.Contains(not, s) {
				t.Errorf("%s: not claimed lacks %q", name, s)
			}
		}
	}
}

func TestCLM09_NoExactlyOnceClaim(t *testing.T) {
	w := story(t)
	r := Verify(w.bundle(), w.trusts("event"), Options{})
	if !slices.ContainsFunc(r.NotClaimed, func(s string) bool { return strings.HasPrefix(s, "Exactly once: ") }) {
		t.Errorf("got %q", r.NotClaimed)
	}
}

// Whatever is verified, digests and DSSE encodings are told apart from the formats
// that they look like.
func TestCLM08_DigestsAreNoConformance(t *testing.T) {
	w := story(t)
	for name, r := range map[string]*Report{
		"verified":   Verify(w.bundle(), w.trusts("event"), Options{}),
		"failed":     Verify([]byte("x"), w.trusts("event"), Options{}),
		"not judged": Verify(nil, nil, Options{}),
	} {
		if !slices.ContainsFunc(r.NotClaimed, func(s string) bool {
			return strings.HasPrefix(s, "Conformance: ") && strings.Contains(s, "in-toto") && strings.Contains(s, "SLSA") && strings.Contains(s, "A digest names bytes")
		}) {
			t.Errorf("%s: got %q", name, r.NotClaimed)
		}
		if claims := strings.ToLower(strings.Join(r.Claims, " ")); strings.Contains(claims, "slsa") || strings.Contains(claims, "in-toto") || strings.Contains(claims, "conform") {
			t.Errorf("%s: claims %q", name, r.Claims)
		}
	}
	if payload := event.PayloadType; strings.Contains(payload, "in-toto") {
		t.Errorf("what we sign has the type of an in-toto statement: %s", payload)
	}
}

// A report is its own kind of document; it judges no meaning.
func TestBND03_ReportIsNoReceipt(t *testing.T) {
	w := story(t)
	r := Verify(w.bundle(), w.trusts("event"), Options{})
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(`"schemaVersion": "`+ReportSchema+`"`)) || b[len(b)-1] != '\n' {
		t.Errorf("got %s", b)
	}
	if got := Verify(b, w.trusts("event"), Options{}); got.Status != Failed {
		t.Errorf("a report verifies as a bundle: %s", text(got))
	}
	if !bytes.Contains(b, []byte(`"claims": [`)) || !bytes.Contains(b, []byte(`"notClaimed": [`)) {
		t.Errorf("got %s", b)
	}
}

func TestBND04_MeaningIsNotClassified(t *testing.T) {
	w := story(t)
	r := Verify(w.bundle(), w.trusts("event"), Options{})
	if !slices.ContainsFunc(r.NotClaimed, func(s string) bool { return strings.HasPrefix(s, "Meaning: ") && strings.Contains(s, "separate run") }) {
		t.Errorf("got %q", r.NotClaimed)
	}
}

// The hash and the signatures of an event stand beside it (EVI-16), and nothing
// else does: no value, salt or opening has a place in a bundle, so deleting them
// changes nothing for a verifier.
func TestEVI16_CommitmentStandsBesideTheReceipt(t *testing.T) {
	w := story(t)
	b := w.bundle()
	for i, rec := range w.records {
		want := litArtifact + `"` + rec.Digest().String() + `"` + litPayloadType + `"` + event.PayloadType + `"` + litSignatures + string(rec.SignatureBytes) + litReceipt + string(rec.EventBytes) + litRecord
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("leaf %d: no artifact of commitment and receipt", i)
		}
		for _, s := range []string{"signature", "digest", "leafIndex", "inclusionProof"} {
			if bytes.Contains(rec.EventBytes, []byte(s)) {
				t.Errorf("leaf %d: the event holds %s", i, s)
			}
		}
	}
}

func TestPRV11_VerifiesWithoutAnyDisclosure(t *testing.T) {
	w := story(t)
	if w.records[0].Event.Commitments["input"] == "" {
		t.Fatal("the sample commits to nothing")
	}
	b := w.bundle()
	for _, s := range []string{"salt", "opening", "privateInput", "privateResult"} {
		if bytes.Contains(b, []byte(`"`+s+`"`)) {
			t.Errorf("the bundle holds %q", s)
		}
	}
	wantVerified(t, "commitments alone", Verify(b, w.trusts("event"), Options{}))
}

// A private value that is planted anywhere makes the bundle malformed.
func TestBND07_PlantedPrivateValuesAreRefused(t *testing.T) {
	w := story(t)
	const canary = `"privateInput":"canary-4d1f"`
	for name, b := range map[string][]byte{
		"in the bundle":     replace(t, w.bundle(), `],"schemaVersion"`, `],`+canary+`,"schemaVersion"`),
		"at its end":        replace(t, w.bundle(), Schema+`"}`, Schema+`",`+canary+`}`),
		"in an entry":       replace(t, w.bundle(), `},"record":{`, `},`+canary+`,"record":{`),
		"in a record":       replace(t, w.bundle(), `,"origin":`, `,`+canary+`,"origin":`),
		"in a reference":    replace(t, w.bundle(), `,"revision":1}}`, `,`+canary+`,"revision":1}}`),
		"in an artifact":    replace(t, w.bundle(), `},"receipt":{`, `},`+canary+`,"receipt":{`),
		"in a commitment":   replace(t, w.bundle(), `,"signatures":[`, `,`+canary+`,"signatures":[`),
		"beside boundaries": replace(t, w.bundle(), `"claimBoundaries":{`, `"claimBoundaries":{`+canary+`,`),
	} {
		r := Verify(b, w.trusts("event"), Options{})
		if r.Status != Failed || len(r.Failures(CheckFormat))+len(r.Failures(CheckClaims)) == 0 {
			t.Errorf("%s: %s", name, text(r))
		}
		if _, err := Parse(b); err == nil {
			t.Errorf("%s: parsed", name)
		}
	}
}
