package vsa

import (
	"net/url"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// Continue is the disposition that a summary states as PASSED. Every other is FAILED.
const Continue = "continue"

// Review is what a summary has no word for in a review. Members that are not known,
// since the recheck or the snapshot is gone, are absent.
type Review struct {
	Disposition string   `json:"disposition"`
	ReasonCodes []string `json:"reasonCodes"`
	// Recheck is how the evidence did: pass, fail or unavailable. Causes say why not pass.
	Recheck string   `json:"recheck"`
	Causes  []string `json:"causes,omitempty"`
	// Mode is enforced or report_only.
	Mode           string `json:"mode"`
	Impact         string `json:"impact"`
	Rubric         string `json:"rubric"`
	Class          string `json:"class,omitempty"`
	Server         string `json:"server,omitempty"`
	Contract       string `json:"contract"` // its name
	ContractDigest string `json:"contractDigest"`
	Receipt        string `json:"receiptDigest"`
	RecheckDigest  string `json:"recheckDigest"`
	EventID        string `json:"reviewEventId"`
	// ClaimBoundary is the code of the review event.
	ClaimBoundary string `json:"claimBoundary"`
}

// Reviewed is a review event with what it refers to, as far as that can be read.
type Reviewed struct {
	Review
	At       string              // time of the run, event.TimeLayout
	Policy   admission.PolicyRef // today's, at least its digest
	Artifact string              // SHA-256 of the bytes that the contract pins; "" if it pins none
	// Binding and Evidence are those of the receipt; nil if they are gone.
	Binding  *admission.ArtifactBinding
	Evidence *admission.EvidenceBundle
	// Verified are the digests of the files that the run verified again, whatever it found.
	Verified []string
}

// ReviewerID is the URI of a ledger as a reviewer. It is another than [VerifierID], so
// that whoever asks for an admission takes no review in its place.
func ReviewerID(origin string) string { return "https://" + origin + "/review/v1" }

// ReviewStatement returns the canonical bytes to be signed. The subject is what the
// contract pins, under all digests of the receipt's binding if that is about the same
// bytes. ok is false where neither names bytes; then no subject is made up.
func ReviewStatement(r *Reviewed, origin string) (payload []byte, ok bool, err error) {
	subject := resource{Name: r.Contract}
	uri := "urn:counterfoil:contract:" + url.PathEscape(r.Contract)
	switch b := r.Binding; {
	case b != nil && b.Bytes != nil && (r.Artifact == "" || r.Artifact == b.SHA256()):
		subject, uri = resource{Name: subjectName(b), Digest: b.Bytes.Digests}, resourceURI(b)
	case r.Artifact != "":
		subject.Digest = sha(r.Artifact)
	default:
		return nil, false, nil
	}
	extension := r.Review
	extension.ClaimBoundary = event.ClaimBoundaryFor(event.Review, event.Contract)
	p := predicate{TimeVerified: r.At, ResourceURI: uri, Policy: policyOf(r.Policy), Review: &extension}
	p.Verifier.ID = ReviewerID(origin)
	p.conclude(r.Disposition == Continue, r.Class)
	for _, digest := range r.Verified {
		p.input(locator(r.Evidence, digest), digest)
	}
	payload, err = encode(subject, p)
	return payload, err == nil, err
}

// locator is where a file of evidence was read then; "" if that is not known.
func locator(e *admission.EvidenceBundle, digest string) string {
	if e != nil {
		for _, f := range e.Used {
			if f.Evidence == digest {
				return f.Locator
			}
		}
	}
	return ""
}
