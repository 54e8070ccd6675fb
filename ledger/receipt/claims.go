package receipt

import "fmt"

// The texts of claims and of what is not claimed. They are part of the public
// contract and change level by level with what was checked: signature, log,
// witnesses. Sources: CLM-03, CLM-04, CLM-05, CLM-07, CLM-09, BND-04.

// claimsOf words what a verified bundle shows.
func claimsOf(entries, attempts int, partial bool, origin string, size uint64, cosigned, witnesses, quorum int) []string {
	out := []string{
		fmt.Sprintf("Signature: an event key of the trust file, valid at the leaf's index, signed the canonical bytes of every receipt (%d); digest, payload type and reference bind to those bytes.", entries),
		fmt.Sprintf("Inclusion: each receipt is the leaf that its index names in the log %s, under a checkpoint of %d leaves that the trusted log key signed.", origin, size),
	}
	if partial {
		out = append(out, fmt.Sprintf("Links: where an event of an attempt here (%d) follows another one in this bundle, it names that event's digest. Earlier events are missing, as was allowed.", attempts))
	} else {
		out = append(out, fmt.Sprintf("Links: in every attempt here (%d) each event names the digest of the one before, back to the first, and was lawful when it came.", attempts))
	}
	if quorum > 0 {
		out = append(out, fmt.Sprintf("Witnesses: %d of %d trusted witnesses cosigned the checkpoint (quorum %d): the tree was logged, and not forked for these witnesses up to this size.", cosigned, witnesses, quorum))
	}
	return out
}

// notClaimed words what no verification of a bundle shows.
func notClaimed(witnessed bool) []string {
	equivocation := "Non-equivocation: that the log shows everyone the same tree. No witness quorum was asked for; a log can sign two histories."
	if witnessed {
		equivocation = "Non-equivocation beyond the witnesses: that the log shows the same tree to everyone whom these witnesses do not speak for, or after this size."
	}
	return []string{
		"Truth: that what an event says happened. A signature binds bytes, not facts.",
		"Source identity: who the source is. Sources are self-asserted unless an event says otherwise.",
		"Completeness: that everything that happened was recorded, or that every recorded event is in this bundle. A missing outcome is open, not failed.",
		"Order and time: in which order things happened, or when. The leaf index is the order of logging; occurredAt and capturedAt are claims.",
		equivocation,
		"Exactly once: that an action took effect exactly once, or that it is safe to repeat.",
		"Authorisation: that an action was allowed, or should be prevented.",
		"Meaning: what private values say, or how a policy judges them. That is a separate run with inputs of its own.",
	}
}
