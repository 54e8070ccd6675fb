package admit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/admit"
	"counterfoil/internal/reviewer"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/admission/vsa"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

// reviewNow reviews all contracts with a trusted root, and returns the one outcome.
func (r *room) reviewNow(run, root string) review.Outcome {
	r.t.Helper()
	l := reviewer.Ledger{Client: r.client}
	contracts, err := l.Contracts(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	stack, err := admit.NewStack(material(r.t, root))
	if err != nil {
		r.t.Fatal(err)
	}
	keys, err := l.Keys(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	out, err := (&review.Run{ID: run, Enforce: "low", Record: l, Judge: &review.Judge{Archive: l, Policy: shipped(r.t, "privileged"), Verifiers: stack.Verifiers,
		Keys: keys, At: now, Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}}).Do(r.t.Context(), review.Selection{Now: now}.New(contracts))
	if err != nil || len(out) != 1 || !review.AllJudged(out) {
		r.t.Fatalf("%+v %v", out, err)
	}
	return out[0]
}

// reader verifies a summary with Sigstore's verifier, under the ledger's event key.
func (r *room) reader(summary []byte) admission.Verifier {
	r.t.Helper()
	keys, err := r.client.Keys(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	public, err := base64.StdEncoding.DecodeString(keys.Value.Keys[0].PublicKey)
	if err != nil {
		r.t.Fatal(err)
	}
	var b struct {
		VerificationMaterial struct{ PublicKey struct{ Hint string } }
	}
	if err := json.Unmarshal(summary, &b); err != nil {
		r.t.Fatal(err)
	}
	v, err := sigstore.New(sigstore.Config{Keys: []sigstore.Key{{ID: b.VerificationMaterial.PublicKey.Hint, Public: ed25519.PublicKey(public), Unlogged: true}}})
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *room) summary(eventID string) []byte {
	r.t.Helper()
	b, err := r.client.ReviewSummary(r.t.Context(), eventID)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

type reviewStatement struct {
	Subject []struct {
		Name   string
		Digest map[string]string
	}
	Predicate struct {
		Verifier           struct{ ID string }
		TimeVerified       string
		VerificationResult string
		VerifiedLevels     []string
		ResourceURI        string `json:"resourceUri"`
		Policy             struct {
			URI    string
			Digest map[string]string
		}
		InputAttestations []struct {
			URI    string
			Digest map[string]string
		}
		Review *vsa.Review `json:"https://counterfoil.example/ext/review/v1"`
	}
}

func payloadOf(t *testing.T, bundle []byte) (payload []byte, st reviewStatement) {
	t.Helper()
	var b struct {
		DSSEEnvelope struct {
			Payload    []byte
			Signatures []struct{ Sig []byte }
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(bundle, &b); err != nil || len(b.DSSEEnvelope.Signatures) != 1 {
		t.Fatalf("%d signatures, %v", len(b.DSSEEnvelope.Signatures), err)
	}
	if err := json.Unmarshal(b.DSSEEnvelope.Payload, &st); err != nil {
		t.Fatal(err)
	}
	return b.DSSEEnvelope.Payload, st
}

// TestREV22_REV24_AReviewIsReadBySigstore has the verifier of others' attestations read
// what a review says: it verifies for the artifact, for no other and not when changed.
func TestREV22_REV24_AReviewIsReadBySigstore(t *testing.T) {
	r := newRoom(t)
	res := r.admit("privileged", publicGood, sigstoreJS(t, "privileged"))
	want(t, res, admission.Admit, res.ReasonCodes...)
	receipt, _, err := admission.Open(r.body(res.Receipt), nil)
	if err != nil {
		t.Fatal(err)
	}
	binding := parsed(t, r.body(receipt.Records.ArtifactBinding), admission.ParseBinding)
	provenance := strings.TrimPrefix(admission.Digest(read(t, evidence("sigstore-2.0.0.provenance.json"))), "sha256:")
	var passed, failed string
	for _, c := range []struct{ root, disposition, result, level string }{
		{publicGood, "continue", "PASSED", "COUNTERFOIL_PRIVILEGED"}, {"trusted_root.scaffolding.json", "retire", "FAILED", "FAILED"},
	} {
		o := r.reviewNow("run-"+c.disposition, c.root)
		bundle := r.summary(o.Event)
		if failed = o.Event; c.result == "PASSED" {
			passed = o.Event
		}
		v, e := r.reader(bundle), admission.Evidence{Locator: "vsa.json", Body: bundle}
		found, err := v.Verify(t.Context(), e, binding)
		if err != nil || len(found) != 1 || found[0].State != admission.FindingVerified || found[0].PredicateType != vsa.PredicateType {
			t.Fatalf("%s: %+v %v", c.result, found, err)
		}
		other := *binding
		other.Bytes = &admission.BytesBinding{Digests: admission.DigestSet{"sha256": strings.Repeat("0", 64)}, Size: 1}
		if found, err := v.Verify(t.Context(), e, &other); err != nil || found[0].Code != admission.ArtifactDigestMismatch {
			t.Errorf("another artifact: %+v %v", found, err)
		}
		payload, st := payloadOf(t, bundle)
		changed := bytes.ReplaceAll(payload, []byte(st.Subject[0].Digest["sha256"]), []byte(other.Bytes.Digests["sha256"]))
		e.Body = bytes.Replace(bundle, []byte(base64.StdEncoding.EncodeToString(payload)), []byte(base64.StdEncoding.EncodeToString(changed)), 1)
		if bytes.Equal(e.Body, bundle) {
			t.Fatal("the subject did not change")
		}
		if found, err := v.Verify(t.Context(), e, &other); err != nil || len(found) == 1 && found[0].State == admission.FindingVerified {
			t.Errorf("a changed subject: %+v %v", found, err)
		}

		p := st.Predicate
		if p.VerificationResult != c.result || !slices.Equal(p.VerifiedLevels, []string{c.level}) || p.ResourceURI != "pkg:npm/sigstore@2.0.0" ||
			"sha256:"+p.Policy.Digest["sha256"] != res.Policy.Digest || p.Policy.URI == "" || p.Verifier.ID != vsa.ReviewerID(r.Ready.Origin) || p.TimeVerified == "" {
			t.Errorf("%s: %+v", c.result, p)
		}
		if len(p.InputAttestations) != 1 || p.InputAttestations[0].Digest["sha256"] != provenance || p.InputAttestations[0].URI == "" {
			t.Errorf("%s: input attestations %+v", c.result, p.InputAttestations)
		}
		x := p.Review
		if x == nil || x.Disposition != c.disposition || !slices.Equal(x.ReasonCodes, o.Reasons) || !slices.Equal(x.Causes, o.Causes) || x.Receipt != res.Receipt ||
			x.RecheckDigest != o.Digest || x.EventID != o.Event || x.Mode != "enforced" || x.Impact != "privileged" || x.ClaimBoundary != "review_opinion_v1" {
			t.Errorf("%s: extension %+v", c.result, x)
		}
		if again := r.summary(o.Event); !bytes.Equal(again, bundle) {
			t.Errorf("%s: another time it is another summary", c.result)
		}
	}
	r.refuseSummary(res.EventID, http.StatusNotFound, "not_found") // no review
	r.refuseSummary(r.contradicting(passed, failed), http.StatusNotFound, "not_found")

	// What is gone is left out of what failed, and nothing is said to pass on it.
	if _, err := r.client.Erase(t.Context(), client.EraseRequest{State: "redacted", Confirm: true, Attempts: []string{res.AttemptID}}); err != nil {
		t.Fatal(err)
	}
	o := r.reviewNow("run-gone", publicGood)
	bundle := r.summary(o.Event)
	found, err := r.reader(bundle).Verify(t.Context(), admission.Evidence{Locator: "vsa.json", Body: bundle}, binding)
	if err != nil || len(found) != 1 || found[0].PredicateType != vsa.PredicateType {
		t.Fatalf("%+v %v", found, err)
	}
	if _, st := payloadOf(t, bundle); o.Disposition != "quarantine" || st.Predicate.VerificationResult != "FAILED" || st.Subject[0].Digest["sha256"] != binding.Bytes.Digests["sha256"] ||
		len(st.Predicate.InputAttestations) != 0 || st.Subject[0].Name != o.Name || !slices.Equal(st.Predicate.Review.Causes, []string{"receipt_erased"}) {
		t.Errorf("%s: %+v", o.Disposition, st)
	}
	r.refuseSummary(passed, http.StatusGone, "evidence_gone")
}

// contradicting appends a review that says what one review does, by the recheck of another.
func (r *room) contradicting(passed, failed string) string {
	r.t.Helper()
	like, err := r.client.Receipt(r.t.Context(), passed)
	if err != nil {
		r.t.Fatal(err)
	}
	other, err := r.client.Receipt(r.t.Context(), failed)
	if err != nil {
		r.t.Fatal(err)
	}
	refs := maps.Clone(like.Value.Refs)
	refs[event.RefRecheck] = other.Value.Refs[event.RefRecheck]
	id, err := reviewer.Ledger{Client: r.client}.Append(r.t.Context(), &review.Review{
		Attempt: like.Value.AttemptID, SourceEventID: review.SourceEventID("run-forged"), OccurredAt: like.Value.OccurredAt, Status: "continue",
		Reasons: []string{"receipt_still_within_policy"}, Refs: refs, Rubric: "counterfoil.rubric.v1",
		Run: event.ReviewRun{ID: "run-forged", Trigger: event.TriggerManual, Mode: event.ReviewEnforced, Impact: event.ImpactPrivileged, Recheck: event.RecheckPass},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *room) refuseSummary(eventID string, status int, code string) {
	r.t.Helper()
	var refused *client.Error
	if b, err := r.client.ReviewSummary(r.t.Context(), eventID); !errors.As(err, &refused) || refused.Status != status || refused.Code != code {
		r.t.Errorf("%s %v, want %d %s", b, err, status, code)
	}
}
