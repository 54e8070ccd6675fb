package review_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/evidencekit"
	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/npm"
	"counterfoil/ledger/admission/evidence/sigstore"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
	"counterfoil/ledger/review/rubric"
)

var stamps = &reviewkit.Stamps{Trusted: []string{"k"}, Version: "1"}

// healthy is a live registry in which everything is fine, or better than then.
type healthy struct{ notes []review.Note }

func (h healthy) Notes(context.Context, *admission.RegistrySnapshot) ([]review.Note, error) {
	return h.notes, nil
}

// down is a live registry that does not answer.
type down struct{}

func (down) Notes(context.Context, *admission.RegistrySnapshot) ([]review.Note, error) {
	return nil, errors.New("connection refused")
}

// Test 1: the evidence bundle is hidden; the live registry is healthy.
func TestREV13_REV03_ARC11_HiddenEvidenceBundleIsQuarantine(t *testing.T) {
	for name, err := range map[string]error{
		"never kept":          archive.ErrAbsent,
		"expired":             &archive.Gone{State: archive.Expired},
		"erased":              &archive.Gone{State: archive.Erased},
		"compacted":           &archive.Gone{State: archive.Compacted},
		"archive unreachable": &archive.Failure{Code: admission.ArchiveUnreachable, Err: errHidden},
		"damaged":             errHidden,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			p := reviewkit.StampPolicy(t, "1", "")
			a := reviewkit.Stamped(p, "s", "one-low", 1, stamps).Admit(t, r, r.owner())
			j := r.judge(p, stamps)
			j.Live = healthy{[]review.Note{{What: "status", Then: "active", Now: "active"}}}
			want(t, j, r.contract("c", "low", a), "continue", "receipt_still_within_policy")
			before := r.sealed(t, a.Receipt)
			r.hide[a.Bundle] = err
			v := want(t, j, r.contract("c", "low", a), "quarantine", "receipt_evidence_unavailable")
			if v.Recheck.State != event.RecheckUnavailable || len(v.Recheck.Causes) == 0 || !strings.HasPrefix(v.Recheck.Causes[0], "evidence_bundle_") {
				t.Errorf("%s %v", v.Recheck.State, v.Recheck.Causes)
			}
			if v.Recheck.EvidenceBundle != a.Bundle {
				t.Errorf("the original's digest is not in the recheck") // REV-24
			}
			if r.sealed(t, a.Receipt) != before {
				t.Error("the receipt changed") // ARC-14
			}
		})
	}
}

// Test 2: another policy, the same evidence.
func TestREV14_REV05_REV06_DriftWithoutFailure(t *testing.T) {
	r := newRoom(t)
	then, now := reviewkit.StampPolicy(t, "1", ""), reviewkit.StampPolicy(t, "2", "")
	low := reviewkit.Stamped(then, "doc-helper", "one-low", 1, stamps).Admit(t, r, r.owner())
	high := reviewkit.Stamped(then, "prod-write-tool", "one-privileged", 1, stamps).Admit(t, r, r.owner())
	j := r.judge(now, stamps)
	v := want(t, j, r.contract("doc-helper", "low", low), "continue", "policy_drift_detected")
	if v.Recheck.AdmittedUnder != then.Ref().Digest || v.Recheck.Policy.Digest != now.Ref().Digest {
		t.Errorf("both policies are named: %+v", v.Recheck) // REV-29, ADM-34
	}
	want(t, j, r.contract("standard", "standard", low), "continue", "policy_drift_detected")
	want(t, j, r.contract("prod-write-tool", "privileged", high), "re_admit", "policy_drift_detected", "privileged_contract_requires_fresh_receipt")
}

// Test 3: the evidence fails, and the tool is harmless.
func TestREV15_REV07_REV08_FailureAndLowIsReadmission(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "one-low", 1, stamps).Admit(t, r, r.owner())
	lost := &reviewkit.Stamps{Trusted: []string{"other"}, Version: "1"}
	v := want(t, r.judge(p, lost), r.contract("c", "low", a), "re_admit", "current_policy_evidence_fail")
	if !slices.Contains(v.Recheck.Causes, "signer_key_unknown") || v.Recheck.Findings[0].State != admission.FindingFailed {
		t.Errorf("%+v", v.Recheck)
	}
	want(t, r.judge(p, lost), r.contract("c", "privileged", a), "retire", "current_policy_evidence_fail", "privileged_contract")
	knob := reviewkit.StampPolicy(t, "1", "{privilegedEvidenceFail: quarantine}")
	want(t, r.judge(knob, lost), r.contract("c", "privileged", a), "quarantine", "current_policy_evidence_fail", "privileged_contract")
	strict := reviewkit.StampPolicy(t, "1", "{standardAs: privileged}")
	want(t, r.judge(strict, lost), r.contract("c", "standard", a), "retire", "current_policy_evidence_fail", "privileged_contract")
}

// Test 4: the registry got better since. That is noted and changes nothing.
func TestREV16_REV18_REV19_RegistryImprovedLater(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	weak := reviewkit.Stamped(p, "s", "none-low", 0, stamps).Admit(t, r, r.owner())
	c := r.contract("c", "low", weak)
	c.Terms.Class = "one-low" // what is demanded of it now
	j := r.judge(p, stamps)
	without := want(t, j, c, "re_admit", "current_policy_evidence_fail")
	j.Live = healthy{[]review.Note{{What: "attestations", Then: "none", Now: "1 provenance\x1b[31m"}}}
	with := want(t, j, c, "re_admit", "current_policy_evidence_fail")
	if len(with.Recheck.Live) != 1 || with.Recheck.Live[0].Now != "1 provenance [31m" || without.Recheck.Live != nil {
		t.Errorf("%+v", with.Recheck.Live)
	}
	if !slices.Contains(with.Recheck.Causes, "attestation_missing") {
		t.Errorf("%v", with.Recheck.Causes)
	}
	// The live registry down: the review completes all the same (REV-18).
	j.Live = down{}
	v := want(t, j, c, "re_admit", "current_policy_evidence_fail")
	if len(v.Recheck.Live) != 1 || v.Recheck.Live[0].What != "registry" {
		t.Errorf("%+v", v.Recheck.Live)
	}
}

// Test 5: the contract alone changed.
func TestREV17_REV11_ContractExpansionAlone(t *testing.T) {
	r := newRoom(t)
	then, now := reviewkit.StampPolicy(t, "1", ""), reviewkit.StampPolicy(t, "2", "")
	a := reviewkit.Stamped(then, "s", "one-low", 1, stamps).Admit(t, r, r.owner())
	j := r.judge(now, stamps)
	c := r.contract("c", "low", a)
	low := want(t, j, c, "continue", "policy_drift_detected")
	c.Terms.Impact = "privileged"
	high := want(t, j, c, "re_admit", "policy_drift_detected", "privileged_contract_requires_fresh_receipt")
	if low.Recheck.State != high.Recheck.State || !slices.Equal(low.Recheck.Findings, high.Recheck.Findings) {
		t.Error("the evidence did the same both times")
	}
	if low.Recheck.Contract == high.Recheck.Contract {
		t.Error("a contract with another impact has another digest")
	}
}

func TestREV09_PartOfTheEvidenceIsMissing(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "three-low", 3, stamps).Admit(t, r, r.owner())
	if len(a.Evidence) != 3 || a.Decision != admission.Admit {
		t.Fatalf("%+v", a)
	}
	j := r.judge(p, stamps)
	want(t, j, r.contract("c", "low", a), "continue", "receipt_still_within_policy")
	for n, d := range a.Evidence {
		r.hide[d] = &archive.Gone{Digest: d, State: archive.Expired}
		if n < 2 {
			v := want(t, j, r.contract("c", "low", a), "quarantine", "receipt_evidence_unavailable", "receipt_evidence_incomplete")
			if len(v.Recheck.Gaps) != n+1 || len(v.Recheck.Findings) != 0 || !slices.Equal(v.Recheck.Causes, []string{"evidence_expired"}) {
				t.Errorf("%d gone: %+v", n+1, v.Recheck)
			}
		}
	}
	// All of it gone is unavailable, and nothing else.
	want(t, j, r.contract("c", "low", a), "quarantine", "receipt_evidence_unavailable")
}

func TestREV10_UnavailableIsNotUnacceptable(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "one-privileged", 1, stamps).Admit(t, r, r.owner())
	// The verifier cannot find anything out: that is no failure of the evidence.
	silent := &reviewkit.Stamps{Trusted: []string{"k"}, Version: "1", Unavailable: []string{"k"}}
	v := want(t, r.judge(p, silent), r.contract("c", "privileged", a), "quarantine", "receipt_evidence_unavailable")
	if v.Recheck.Causes[0] != "evidence_unavailable" {
		t.Errorf("%v", v.Recheck.Causes)
	}
}

func TestREV31_ADM34_ReceiptsThatAreNone(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "one-low", 1, stamps).Admit(t, r, r.owner())
	j := r.judge(p, stamps)
	c := r.contract("c", "low", a)
	c.Terms.Receipt = admission.Digest([]byte("nobody kept this"))
	var unknown *review.UnknownReceipt
	if _, err := j.Judge(t.Context(), &c); !errors.As(err, &unknown) || unknown.Digest != c.Terms.Receipt {
		t.Errorf("unknown receipt: %v", err)
	}
	refused := reviewkit.Stamped(p, "weak", "one-low", 0, stamps).Admit(t, r, r.owner())
	c = r.contract("c", "low", refused)
	var not *review.NotAdmitted
	if _, err := j.Judge(t.Context(), &c); !errors.As(err, &not) || not.Decision != admission.Quarantine {
		t.Errorf("a decision to quarantine: %v", err)
	}
	// Kept and gone is not unknown.
	r.hide[a.Receipt] = &archive.Gone{Digest: a.Receipt, State: archive.Expired}
	v := want(t, j, r.contract("c", "low", a), "quarantine", "receipt_evidence_unavailable")
	if v.Recheck.EvidenceBundle != "" || !slices.Equal(v.Recheck.Causes, []string{"receipt_expired"}) {
		t.Errorf("%+v", v.Recheck)
	}
	delete(r.hide, a.Receipt)
	// A receipt by a key that nobody trusts is no receipt.
	j.Keys = reviewkit.NewSigner(2).Keys
	v = want(t, j, r.contract("c", "low", a), "quarantine", "receipt_evidence_unavailable")
	if v.Recheck.Causes[0] != "receipt_damaged" {
		t.Errorf("%v", v.Recheck.Causes)
	}
}

// The same version with other bytes fails before any evidence is opened; both
// digests are there, and the old receipt is as it was.
func TestADM26_OtherBytesFailEarly(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.Shipped(t, "light")
	c := reviewkit.Case{Server: "io.github.domdomegg/airtable-mcp-server", Package: "airtable-mcp-server", Version: "1.7.2",
		Repository: "https://github.com/domdomegg/airtable-mcp-server", Artifact: evidencekit.File(t, "airtable-mcp-server-1.7.2.tgz"),
		Class: "light", Policy: p, Signer: reviewkit.NewSigner(1), At: reviewkit.Then}
	a := c.Admit(t, r, r.owner())
	other := admission.Digest(evidencekit.File(t, "airtable-mcp-server-1.7.3.tgz"))
	j := r.judge(p)
	before := r.sealed(t, a.Receipt)
	contract := r.contract("airtable", "low", a)
	contract.Terms.Artifact = a.Artifact
	want(t, j, contract, "continue", "receipt_still_within_policy")
	contract.Terms.Artifact = other
	v := want(t, j, contract, "re_admit", "current_policy_evidence_fail")
	if !slices.Equal(v.Recheck.Causes, []string{"artifact_digest_mismatch"}) || a.Artifact == other {
		t.Errorf("%v", v.Recheck.Causes)
	}
	if r.sealed(t, a.Receipt) != before {
		t.Error("the receipt changed")
	}
}

// Real provenance, judged by Sigstore: admitted under standard and privileged;
// with a trust root of another instance the review flips, and the receipt stays.
func TestREV20_ARC14_RealSigstoreWithAnotherTrustRoot(t *testing.T) {
	for _, c := range []struct{ policy, class, impact, flips string }{
		{"standard", "standard", "standard", "re_admit"},
		{"privileged", "privileged", "privileged", "retire"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			r := newRoom(t)
			p := reviewkit.Shipped(t, c.policy)
			a := reviewkit.RealSigstore(t, p, c.class).Admit(t, r, r.owner())
			if a.Decision != admission.Admit {
				t.Fatalf("not admitted: %s", a.Decision)
			}
			before := r.sealed(t, a.Receipt)
			contract := r.contract("sigstore", c.impact, a)
			want(t, r.judge(p, reviewkit.Sigstore(t, "public-good.2023")), contract, "continue", "receipt_still_within_policy")
			v, err := r.judge(p, reviewkit.Sigstore(t, "scaffolding")).Judge(t.Context(), &contract)
			if err != nil || string(v.Disposition) != c.flips || !slices.Contains(v.Recheck.Causes, "trust_root_log_unknown") {
				t.Fatalf("%+v %v", v, err)
			}
			if r.sealed(t, a.Receipt) != before {
				t.Error("the receipt changed")
			}
			// Another signer demanded today.
			drift := reviewkit.Shipped(t, "privileged", "runner: github-hosted", "runner: self-hosted")
			contract.Terms.Class = "privileged"
			v, err = r.judge(drift, reviewkit.Sigstore(t, "public-good.2023")).Judge(t.Context(), &contract)
			if err != nil || v.Recheck.State != event.RecheckFail || !slices.Contains(v.Recheck.Causes, "signer_identity_mismatch") {
				t.Fatalf("%+v %v", v.Recheck, err)
			}
		})
	}
}

// npm's own attestations, judged by npm's key file: with a file that was edited the
// review flips, and says how; the receipt stays.
func TestREV20_ADM27_RealNpmAttestationsWithAnEditedKeyFile(t *testing.T) {
	const gundam = "gundam-visor-cli-v1-tag.tgz"
	body := evidencekit.Beside(t, gundam+".json")
	verifier := func(from, to string) admission.Verifier {
		keys := evidencekit.File(t, "npm-keys.json")
		if !bytes.Contains(keys, []byte(from)) {
			t.Fatalf("the key file has no %q", from)
		}
		v, err := npm.NewVerifier(evidencekit.Root(t, "npm-seed"), &sigstore.File{Name: "npm_keys", Body: bytes.ReplaceAll(keys, []byte(from), []byte(to))})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	p := reviewkit.Load(t, `schema: counterfoil.policy.v1
id: npm
version: "1"
retention: {keep: {kind: security_evidence, days: 400}}
classes:
  published:
    impact: privileged
    minimum:
      namespace: [registry_asserted]
      bindings: [bytes]
      attestations:
        - id: publish
          predicateTypes: ["`+npm.PublishV01+`"]
          signers: [{keyIds: ["SHA256:jl3bwswu80PjjokCgh0o2w5c2U4LhQAE57gj9cz1kzA"]}]
        - id: provenance
          predicateTypes: ["`+npm.Provenance+`"]
          signers:
            - issuer: https://token.actions.githubusercontent.com
              subject: https://github.com/ramonpetgrave64/gundam-visor/.github/workflows/npm-publish.yml@refs/tags/v1.0.1
    quarantine: {calls: refuse, retries: 0, reviewWithinHours: 24}
    retention: keep
`)
	r := newRoom(t)
	asItWas := verifier("", "")
	a := reviewkit.Case{Server: "io.github.ramonpetgrave64/gundam-visor", Package: "gundam-visor", Version: "1.0.1",
		Repository: "https://github.com/ramonpetgrave64/gundam-visor", Artifact: evidencekit.Beside(t, gundam), Class: "published", Policy: p,
		Evidence: []admission.Evidence{{Locator: "attestations.json", Body: body}}, Verifiers: []admission.Verifier{asItWas},
		Signer: reviewkit.NewSigner(1), At: reviewkit.Then}.Admit(t, r, r.owner())
	if a.Decision != admission.Admit {
		t.Fatal(a.Decision)
	}
	before := r.sealed(t, a.Receipt)
	c := r.contract("gundam", "privileged", a)
	want(t, r.judge(p, asItWas), c, "continue", "receipt_still_within_policy")
	for cause, edit := range map[string][2]string{
		"signer_key_not_valid_at_signing": {"2025-01-29T00:00:00.000Z", "2024-01-29T00:00:00.000Z"},
		"signer_key_unknown":              {"SHA256:jl3bwswu", "SHA256:xxxxxxxx"},
	} {
		v := want(t, r.judge(p, verifier(edit[0], edit[1])), c, "retire", "current_policy_evidence_fail", "privileged_contract")
		if !slices.Contains(v.Recheck.Causes, cause) || len(v.Recheck.Findings) != 2 {
			t.Errorf("%v %+v", v.Recheck.Causes, v.Recheck.Findings)
		}
	}
	if r.sealed(t, a.Receipt) != before {
		t.Error("the receipt changed")
	}
}

// renamed is a verifier of a name that believes nothing of a name, or reads nothing.
type renamed struct {
	*reviewkit.Stamps
	without, id string
}

func (v renamed) Info() admission.VerifierInfo {
	i := v.Stamps.Info()
	i.ID = v.id
	i.Trust = slices.DeleteFunc(i.Trust, func(m admission.TrustMaterial) bool { return m.Name == v.without })
	return i
}

func (v renamed) Handles(e admission.Evidence) bool { return v.without != "" && v.Stamps.Handles(e) }

func TestREV02_EvidenceThatNobodyReadsIsNoFailure(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "one-privileged", 1, stamps).Admit(t, r, r.owner())
	c := r.contract("c", "privileged", a)
	var missing *review.MissingTrust
	if _, err := r.judge(p).Judge(t.Context(), &c); !errors.As(err, &missing) || missing.Verifier != "stamps" {
		t.Errorf("no verifier at all: %v", err)
	}
	if _, err := r.judge(p, renamed{stamps, "keys", "stamps"}).Judge(t.Context(), &c); !errors.As(err, &missing) || missing.Material != "keys" {
		t.Errorf("without its trust material: %v", err)
	}
	var none *review.NoVerifier
	if _, err := r.judge(p, renamed{stamps, "", "stamps"}).Judge(t.Context(), &c); !errors.As(err, &none) || none.Digest != a.Evidence[0] {
		t.Errorf("of the same name, for other files: %v", err)
	}
}

func TestREV01_NothingIsJudgedWithoutAllInputs(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	for _, lack := range []func(*review.Judge){
		func(j *review.Judge) { j.Archive = nil }, func(j *review.Judge) { j.Policy = nil },
		func(j *review.Judge) { j.At = time.Time{} }, func(j *review.Judge) { j.Pause = nil },
	} {
		j := r.judge(p, stamps)
		lack(j)
		if err := j.Check(); err == nil {
			t.Error("a judge that lacks something was accepted")
		}
	}
	a := reviewkit.Stamped(p, "s", "one-low", 1, stamps).Admit(t, r, r.owner())
	c := r.contract("c", "high", a)
	var input *rubric.Error
	if _, err := r.judge(p, stamps).Judge(t.Context(), &c); !errors.As(err, &input) || input.Field != "impact" {
		t.Errorf("unknown impact: %v", err)
	}
}

func TestREV25_REV32_SameInputsSameBytes(t *testing.T) {
	r := newRoom(t)
	p := reviewkit.StampPolicy(t, "1", "")
	a := reviewkit.Stamped(p, "s", "three-privileged", 3, stamps).Admit(t, r, r.owner())
	c := r.contract("c", "privileged", a)
	first, err := r.judge(p, stamps, reviewkit.Sigstore(t, "public-good.2023")).Judge(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.judge(p, reviewkit.Sigstore(t, "public-good.2023"), stamps).Judge(t.Context(), &c)
	if err != nil || first.Digest != second.Digest || first.Disposition != second.Disposition || !slices.Equal(first.Reasons, second.Reasons) {
		t.Errorf("%+v %+v %v", first, second, err)
	}
	b, err := admission.Encode(first.Recheck)
	if err != nil {
		t.Fatal(err)
	}
	again, err := review.ParseRecheck(b)
	if err != nil || admission.Digest(b) != first.Digest || again.Receipt != a.Receipt {
		t.Errorf("%+v %v", again, err)
	}
	if len(b) > 4096 {
		t.Errorf("a recheck of %d bytes is not small", len(b)) // REV-25
	}
}
