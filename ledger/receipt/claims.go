package receipt

import (
	"fmt"

	"counterfoil/ledger/trust"
)

// The texts of claims and of what is not claimed. They are part of the public
// contract and change stage by stage with what was checked: signature, logged and
// published, witnessed. Sources: CLM-03, CLM-04, CLM-05, CLM-07, CLM-08, CLM-09, BND-04.

// shown words what a verified bundle shows.
func (v *verifier) shown(entries int) []string {
	out := []string{
		fmt.Sprintf("Signature: an event key of the trust file, valid at the leaf's index, signed the canonical bytes of every receipt (%d); digest, payload type and reference bind to those bytes.", entries),
		fmt.Sprintf("Inclusion: each receipt was logged and published: it is the leaf that its index names in the log %s, under a checkpoint of %d leaves that the trusted log key signed.", v.file.Origin(), v.checkpoint.Size),
	}
	if v.partial > 0 {
		out = append(out, fmt.Sprintf("Links: where an event of an attempt here (%d) follows another one in this bundle, it names that event's digest. Earlier events are missing, as was allowed.", len(v.attempts)))
	} else {
		out = append(out, fmt.Sprintf("Links: in every attempt here (%d) each event names the digest of the one before, back to the first, and was lawful when it came.", len(v.attempts)))
	}
	if v.tally.Quorum == nil {
		return out
	}
	out = append(out, fmt.Sprintf("Witnesses: %s cosigned the checkpoint, and the quorum that was asked for is met: the tree was logged, and not forked for these witnesses up to this size.", cosigners(v.tally)))
	if c, ok := v.results[CheckFreshness]; ok && c.passed > 0 {
		out = append(out, fmt.Sprintf("Freshness: by the clocks of these witnesses, %s. None of those that meet the quorum had seen a larger tree when it cosigned.", c.detail))
	}
	return out
}

// cosigners names the witnesses that cosigned.
func cosigners(t *trust.Tally) string {
	var names []string
	for _, c := range t.Cosigned() {
		names = append(names, c.Name())
	}
	return shorten(names)
}

// notClaimed words what no verification of a bundle shows. t is nil if it was
// not verified.
func notClaimed(t *trust.Tally) []string {
	equivocation := "Non-equivocation: that the log shows everyone the same tree. No witness quorum was asked for; a log can sign two histories."
	if t != nil && t.Quorum != nil {
		equivocation = fmt.Sprintf("Non-equivocation beyond the witnesses: that the log shows the same tree to everyone for whom %s do not speak, or after this size; or that these witnesses are honest.", cosigners(t))
	}
	return []string{
		"Truth: that what an event says happened. A signature binds bytes, not facts.",
		"Source identity: who the source is. Sources are self-asserted unless an event says otherwise.",
		"Completeness: that everything that happened was recorded, or that every recorded event is in this bundle. A missing outcome is open, not failed.",
		"Order and time: in which order things happened, or when. The leaf index is the order of logging; occurredAt and capturedAt are claims.",
		equivocation,
		"Exactly once: that an action took effect exactly once, or that it is safe to repeat.",
		"Authorisation: that an action was allowed, or should be prevented.",
		"Conformance: that anything here is an in-toto attestation or SLSA provenance, or meets a level of SLSA. A digest names bytes, and the encoding of what is signed is no conformance either.",
		"Meaning: what private values say, or how a policy judges them. That is a separate run with inputs of its own.",
	}
}
