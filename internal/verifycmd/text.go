package verifycmd

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"counterfoil/ledger/receipt"
)

// maxListed bounds the failures that are shown to people; --json lists more.
const maxListed = 20

// talk says on stderr what the report on stdout does not: why there is no
// verdict, and what to do next.
func (c *command) talk(r *receipt.Report) {
	say := func(format string, args ...any) { fmt.Fprintf(c.stderr, format+"\n", args...) }
	switch r.Status {
	case receipt.NotJudged:
		name, detail := reason(r)
		say("error: not judged: %s", clean(detail))
		if hint := c.hint(name, r); hint != "" {
			say("hint: %s", hint)
		}
	case receipt.Failed:
		said := map[string]bool{}
		for _, check := range r.Checks {
			if check.Status != receipt.Fail || said[check.Name] {
				continue
			}
			said[check.Name] = true
			if hint := c.hint(check.Name, r); hint != "" {
				say("hint: %s: %s", check.Name, hint)
			}
		}
	}
	if c.opts.json {
		say("%s", headline(r, c.opts.file))
	}
}

// reason finds the check that says why nothing was judged: the first one that
// was not made for a reason of its own.
func reason(r *receipt.Report) (name, detail string) {
	for _, name := range []string{receipt.CheckTrust, receipt.CheckFormat, receipt.CheckCheckpoint, receipt.CheckFreshness, receipt.CheckCompleteness} {
		if check, ok := r.Find(name); ok && check.Status == receipt.NotChecked && check.Detail != receipt.NotReached {
			return name, check.Detail
		}
	}
	return "", "no check was made"
}

// hint says what to do about a check.
func (c *command) hint(name string, r *receipt.Report) string {
	if c.next != "" {
		return c.next
	}
	switch name {
	case receipt.CheckTrust:
		return "get the trust file from the log's operator, not from whoever sent the bundle, and pass it with --trust FILE"
	case receipt.CheckFormat:
		if r.Status == receipt.NotJudged {
			return "export again, and check that the file arrived whole"
		}
		return "verify the file as it was exported: an editor or a transfer may have changed it"
	case receipt.CheckSchema:
		return "a newer verifier may know it"
	case receipt.CheckCheckpoint:
		if r.Status == receipt.NotJudged {
			return "export again once the log has published the receipts"
		}
	case receipt.CheckLogSignature:
		return "someone else signed this checkpoint, or the log has a new key: compare the trust file with the log's operator"
	case receipt.CheckWitnessQuorum:
		return "export again: cosignatures arrive after the checkpoint. If that does not help, ask the witnesses that are missing"
	case receipt.CheckFreshness:
		if r.Status == receipt.NotJudged {
			return "name witnesses and a quorum, in the trust file or with --policy FILE"
		}
		return "export again under a newer checkpoint; if there is none, ask the log and its witnesses"
	case receipt.CheckChain:
		if !c.opts.partial {
			return "export whole attempts, or accept attempts without their beginning with --partial"
		}
	case receipt.CheckCompleteness:
		return "ask for an export under a newer checkpoint"
	}
	return ""
}

// headline is the verdict in one line.
func headline(r *receipt.Report, file string) string {
	s := fmt.Sprintf("%s: %s", verdict(r.Status), clean(file))
	switch r.Status {
	case receipt.Verified:
		s += fmt.Sprintf(": %s of %s in log %s at size %d, %s", count(r.Counts.Entries, "receipt"), count(r.Counts.Attempts, "attempt"), clean(r.Origin), r.TreeSize, r.Stage)
	case receipt.Failed:
		s += fmt.Sprintf(": %s", count(r.Counts.Failures, "failure"))
		if r.Counts.Entries > 0 {
			s += fmt.Sprintf(", %d of %s", r.Counts.Failed, count(r.Counts.Entries, "receipt"))
		}
	}
	return s
}

func verdict(s receipt.Status) string {
	switch s {
	case receipt.Verified:
		return "verified"
	case receipt.Failed:
		return "not verified"
	}
	return "not judged"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// text is the report for people.
func (c *command) text(r *receipt.Report) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", headline(r, c.opts.file))
	if r.Status == receipt.Failed {
		c.failures(r, line)
		return b.Bytes()
	}
	for _, k := range r.Signatures.Keys {
		line("  key %s: %s%s", k.KeyID, count(k.Receipts, "receipt"), ended(k))
	}
	for _, check := range r.Checks {
		asked := check.Name == receipt.CheckWitnessQuorum || check.Name == receipt.CheckFreshness && c.opts.maxAge > 0
		if asked || check.Status == receipt.NotChecked && check.Name != receipt.CheckFreshness {
			line("  %s: %s", check.Name, clean(check.Detail))
		}
	}
	line("this shows")
	for _, s := range r.Claims {
		line("  %s", clean(s))
	}
	line("this does not show")
	for _, s := range r.NotClaimed {
		line("  %s", clean(s))
	}
	return b.Bytes()
}

func (c *command) failures(r *receipt.Report, line func(string, ...any)) {
	shown := 0
	for _, check := range r.Checks {
		if check.Status != receipt.Fail {
			continue
		}
		if shown++; shown > maxListed {
			continue
		}
		where := ""
		if check.LeafIndex != nil {
			where = fmt.Sprintf(" at leaf %d", *check.LeafIndex)
		}
		if check.EventID != "" {
			where += " (" + check.EventID + ")"
		}
		line("  %s%s: %s", check.Name, where, clean(check.Detail))
		if check.Expected != "" {
			line("    expected %s", clean(check.Expected))
		}
		if check.Got != "" {
			line("    got      %s", clean(check.Got))
		}
	}
	if more := r.Counts.Failures - min(shown, maxListed); more > 0 {
		line("  and %s more; --json lists them", count(more, "failure"))
	}
}

// clean keeps what a file says from steering a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// ended warns of a key that signs no more.
func ended(k receipt.KeySummary) string {
	out := ""
	if k.RetiredFrom != nil {
		out += fmt.Sprintf("; the key was retired from leaf %d on", *k.RetiredFrom)
	}
	if k.RevokedFrom != nil {
		out += fmt.Sprintf("; the key was revoked from leaf %d on", *k.RevokedFrom)
	}
	return out
}
