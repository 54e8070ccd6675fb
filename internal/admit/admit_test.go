package admit_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"testing"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
)

var allGood = []admission.Code{admission.NamespaceAuthenticated, admission.ArtifactDigestBound, admission.AttestationPolicyPass}

// TestADM09_ADM15_ADM24_ADM32_RealProvenanceIsAdmitted admits a real package with
// its real provenance under two policies, and follows everything that it left.
func TestADM09_ADM15_ADM24_ADM32_RealProvenanceIsAdmitted(t *testing.T) {
	r := newRoom(t)
	for _, class := range []string{"standard", "privileged"} {
		req := sigstoreJS(t, class)
		req.Contract = "build." + class
		res := r.admit(class, publicGood, req)
		want(t, res, admission.Admit, allGood...)
		if a := res.Answers; a.MetadataRead != "yes" || a.ArtifactVerified != "yes" || a.AttestationAccepted != "yes" || a.ArchivedTogether != "yes" {
			t.Errorf("%s: answers %+v", class, a)
		}

		// the receipt, signed by the ledger, is the root of records that are kept one by one
		receipt, signer, err := admission.Open(r.body(res.Receipt), r.keys())
		if err != nil || signer == "" {
			t.Fatalf("%s: receipt: %v", class, err)
		}
		set := new(admission.Set)
		set.Snapshot = parsed(t, r.body(receipt.Records.RegistrySnapshot), admission.ParseSnapshot)
		set.Binding = parsed(t, r.body(receipt.Records.ArtifactBinding), admission.ParseBinding)
		set.Evidence = parsed(t, r.body(receipt.Records.EvidenceBundle), admission.ParseEvidenceBundle)
		set.Decision = parsed(t, r.body(receipt.Records.PolicyDecision), admission.ParsePolicyDecision)
		if err := receipt.Check(set); err != nil {
			t.Error(err)
		}
		if receipt.SpanningSet != res.SpanningSetDigest || admission.Digest(r.body(receipt.SpanningSet)) != receipt.SpanningSet {
			t.Errorf("%s: spanning set %s", class, receipt.SpanningSet)
		}
		for _, x := range receipt.Externals {
			if x.Class != admission.ExternalArtifact {
				r.body(x.Digest)
			}
		}
		r.body(res.Policy.Digest)
		if set.Snapshot.Namespace.String() != "registry_asserted:asserted" {
			t.Errorf("a local file counts as %s", set.Snapshot.Namespace)
		}

		// one trace id over the marks of every phase
		var marks []string
		for _, e := range r.events(res.TraceID) {
			if e.Lifecycle == "outcome" {
				marks = append(marks, e.Action.Name+" "+e.Action.Status)
				for name, d := range e.Refs {
					if name == "receipt" && d != res.Receipt {
						t.Errorf("%s names receipt %s", e.Action.Name, d)
					}
				}
			}
		}
		if got := []string{"admission.candidate succeeded", "admission.policy_input succeeded", "admission.dependency succeeded",
			"admission.persistence succeeded", "admission.linkage succeeded", "admission succeeded", "admission.contract succeeded"}; !slices.Equal(marks, got) {
			t.Errorf("%s: marks %q", class, marks)
		}

		// the contract refers to it and copies nothing
		c, err := r.client.Contract(t.Context(), req.Contract)
		if err != nil {
			t.Fatal(err)
		}
		k := c.Value.Contracts[0]
		if k.Receipt != res.Receipt || k.Artifact != res.Artifact || k.Admission != res.EventID || k.Class != class || k.Digest != res.Contract.Digest || k.Call != "allow" {
			t.Errorf("%s: contract %+v", class, k)
		}
	}
}

func parsed[T any](t *testing.T, b []byte, parse func([]byte) (*T, error)) *T {
	t.Helper()
	v, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// keys are the event keys of the ledger.
func (r *room) keys() func(string) (ed25519.PublicKey, bool) {
	r.t.Helper()
	a, err := r.client.Keys(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return func(id string) (ed25519.PublicKey, bool) {
		for _, k := range a.Value.Keys {
			if k.KeyID == id {
				b, err := base64.StdEncoding.DecodeString(k.PublicKey)
				return b, err == nil
			}
		}
		return nil, false
	}
}

// TestARC12_ARC13_ABackfillAddsNothing records an old admission of a server whose
// registry has an attestation today: what was not kept then is absent.
func TestARC12_ARC13_ABackfillAddsNothing(t *testing.T) {
	r := newRoom(t)
	first := r.admit("standard", publicGood, sigstoreJS(t, "standard"))
	before := r.body(first.Receipt)

	tr, _ := npmRegistry(t, 0) // whose attestation is good
	m := material(t, publicGood)
	m.Transport, m.NPMRegistry = tr, "https://example.com"
	req := sigstoreJS(t, "standard")
	req.Artifact, req.Evidence, req.Backfill = "", nil, "ticket-17"
	res := r.run(shipped(t, "standard"), m, "", req)
	want(t, res, admission.Quarantine, admission.EvidenceGap, admission.AttestationMissing)
	receipt, _, err := admission.Open(r.body(res.Receipt), nil)
	if err != nil {
		t.Fatal(err)
	}
	bundle := parsed(t, r.body(receipt.Records.EvidenceBundle), admission.ParseEvidenceBundle)
	if receipt.Kind != admission.ReceiptBackfill || receipt.Refers != "ticket-17" || !slices.Equal(bundle.Absent, []string{"attestation", "signature"}) || len(bundle.Sources) != 0 {
		t.Errorf("receipt %+v, evidence %+v", receipt, bundle)
	}
	if string(r.body(first.Receipt)) != string(before) || res.EventID == first.EventID {
		t.Error("the old admission changed")
	}
}

// BenchmarkOfflineAdmission is a whole admission with real provenance; the log's own
// latency is in it, as events are accepted and not waited for.
func BenchmarkOfflineAdmission(b *testing.B) {
	r := newRoom(b)
	r.wait = client.Accepted
	p, m := shipped(b, "standard"), material(b, publicGood)
	req := sigstoreJS(b, "standard")
	for b.Loop() {
		if res := r.run(p, m, "", req); res.Decision != admission.Admit {
			b.Fatal(res.ReasonCodes)
		}
	}
}
