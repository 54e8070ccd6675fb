package audit

import "fmt"

// The texts of what an audit shows and does not show. They are part of the public
// contract. Sources: CLM-03, CLM-04, CLM-05, CLM-09.

func (r *Report) claims() []string {
	out := []string{
		fmt.Sprintf("Log: the trusted log key signed a tree of %d leaves, and the leaves that the log serves give its root.", r.Size),
	}
	l := r.Leaves
	if l.Folded > 0 {
		out = append(out, fmt.Sprintf("Leaves: of the %d leaves from leaf %d on, %d hold one canonical event each that is signed by an event key of the trust file, valid at its index, and lawful in its chain.", l.Folded, l.From, l.Counted))
	}
	if r.Findings.Allowed > 0 {
		out = append(out, fmt.Sprintf("Leaves that do not count: %d, each named; their number was accepted by whoever asked for the audit.", r.Findings.Allowed))
	}
	if l.NotJudged > 0 {
		out = append(out, fmt.Sprintf("Not judged: %d leaves are in the tree, canonical and signed, but belong to attempts that began before leaf %d.", l.NotJudged, l.From))
	}
	for _, m := range r.Remembered {
		out = append(out, fmt.Sprintf("History: the tree begins with the tree of %d leaves that this auditor had seen before.", m.Size))
	}
	if r.witnessed() {
		c := r.Cosignatures
		out = append(out, fmt.Sprintf("Witnesses: %d of %d trusted witnesses cosigned the checkpoint, as many as are asked for: the tree was logged, and not forked for these witnesses up to this size.", c.Cosigned, c.Witnesses))
	}
	if r.Mirror != nil {
		out = append(out, fmt.Sprintf("Mirror: the copy holds the log up to %d leaves, byte for byte; all of it was read in this run.", r.Mirror.Size))
	}
	if r.Views != nil {
		out = append(out, fmt.Sprintf("Views: the server showed %d attempts in the state that their leaves give.", r.Views.Compared))
	}
	return out
}

// witnessed reports whether cosignatures were asked for; a report without findings
// has them.
func (r *Report) witnessed() bool { return r.Cosignatures != nil && r.Cosignatures.Asked }

func notClaimed(witnessed bool) []string {
	equivocation := "Non-equivocation: that the log shows everyone the same tree. No witness quorum was asked for; a log can sign two histories, and an auditor sees the one that it is shown."
	if witnessed {
		equivocation = "Non-equivocation beyond the witnesses: that the log shows the same tree to everyone whom these witnesses do not speak for, or after this size."
	}
	return []string{
		"Truth: that what an event says happened. A signature binds bytes, not facts.",
		"Completeness: that everything that happened was recorded. A missing outcome is open, not failed.",
		"Source identity: who a source is. Sources are self-asserted unless an event says otherwise.",
		"Order and time: in which order things happened, or when. The leaf index is the order of logging; occurredAt and capturedAt are claims.",
		equivocation,
		"Private values: what commitments stand for. The audit sees commitments and tags, never the values.",
		"Authorisation: that an action was allowed, or should be prevented.",
	}
}
