package quickstart

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"counterfoil/ledger/client"
	"counterfoil/ledger/receipt"
)

// tell writes the story: what was recorded, what proves it, how to go on.
func tell(w io.Writer, cfg Config, all []*shown, status *client.Status, trustPath string) {
	fmt.Fprintf(w, "Counterfoil keeps the stub that stays behind as proof when a receipt is handed out.\n\n")
	tellRecorded(w, all)

	fmt.Fprintf(w, "\n2. Logged and published\n")
	fmt.Fprintf(w, "   %d events are leaves of the log %s, whose newest checkpoint\n", status.LogSize, status.Origin)
	fmt.Fprintf(w, "   signs a tree of %d leaves. Private values are not among them: only salted commitments.\n", status.PublishedSize)

	fmt.Fprintf(w, "\n3. Bundles for others\n")
	for _, s := range all {
		fmt.Fprintf(w, "   %s\n      %d receipts of %d attempts, with inclusion proofs\n", s.bundle, s.report.Counts.Entries, s.report.Counts.Attempts)
	}
	fmt.Fprintf(w, "   %s\n      the keys to check them with, which an auditor gets another way\n", trustPath)

	fmt.Fprintf(w, "\n4. Verified offline, from these files alone\n")
	for _, s := range all {
		tellVerdict(w, s)
	}
	if len(all) > 0 {
		tellList(w, "   This shows:", all[0].report.Claims)
		// The heads alone: verify tells the whole of each.
		var heads []string
		for _, n := range all[0].report.NotClaimed {
			head, _, _ := strings.Cut(n, ":")
			heads = append(heads, strings.ToLower(head[:1])+head[1:])
		}
		tellList(w, "   This does not show, as verify explains one by one:", []string{strings.Join(heads, "; ")})
	}
	tellNext(w, cfg, all, trustPath)
}

func tellRecorded(w io.Writer, all []*shown) {
	fmt.Fprintf(w, "1. Recorded: MCP sessions, every tools/call an attempt and its answer an outcome\n")
	fresh := 0
	for _, s := range all {
		fmt.Fprintf(w, "   %s: %s\n", s.name, s.sum)
		fresh += s.sum.NewEvents
	}
	if fresh == 0 {
		fmt.Fprintf(w, "   Nothing new: these sessions had been recorded, and the same event is recorded once.\n")
	} else {
		fmt.Fprintf(w, "   %d new events. What failed is kept like what succeeded:\n", fresh)
	}
	for _, s := range all {
		for _, c := range s.sum.Calls {
			if c.Status == "failed" {
				fmt.Fprintf(w, "     %s  failed  %s\n", c.AttemptID, c.Tool)
			}
		}
	}
}

func tellVerdict(w io.Writer, s *shown) {
	passed := map[string]bool{}
	for _, c := range s.report.Checks {
		if c.Status == receipt.Pass {
			passed[c.Name] = true
		}
	}
	fmt.Fprintf(w, "   %s: %s, %d checks passed\n", filepath.Base(s.bundle), s.report.Status, len(passed))
	for _, c := range s.report.Checks {
		if c.Status == receipt.Fail {
			fmt.Fprintf(w, "      %s: %s\n", c.Name, c.Detail)
		}
	}
}

func tellList(w io.Writer, head string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintln(w, head)
	for _, it := range items {
		fmt.Fprintf(w, "%s\n", fold(it, "     - ", 96))
	}
}

// fold breaks a line at blanks after about width characters; the following
// lines are indented to match.
func fold(text, mark string, width int) string {
	var b strings.Builder
	b.WriteString(mark)
	n := len(mark)
	for i, word := range strings.Fields(text) {
		if i > 0 && n+1+len(word) > width {
			b.WriteString("\n" + strings.Repeat(" ", len(mark)))
			n = len(mark)
		} else if i > 0 {
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

// Quote spells an argument for a POSIX shell.
func Quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// tellNext names commands that work as they stand.
func tellNext(w io.Writer, cfg Config, all []*shown, trustPath string) {
	attempt := ""
	for _, s := range all {
		for _, c := range s.sum.Calls {
			if attempt == "" || c.Status == "failed" {
				attempt = c.AttemptID
			}
		}
	}
	if len(all) == 0 || attempt == "" {
		return
	}
	fmt.Fprintf(w, "\nNext:\n")
	line := func(command, what string) { fmt.Fprintf(w, "   %s %s\n      %s\n", cfg.Program, command, what) }
	line("verify "+Quote(all[0].bundle)+" --trust "+Quote(trustPath), "verify again, here or on any machine")
	if cfg.Stopping {
		line("serve --data "+Quote(cfg.Data)+cfg.ServeFlags, "run this ledger; the commands below need it, in another terminal")
	}
	line("list --state failed"+cfg.ClientFlags, "which calls failed")
	line("get "+attempt+cfg.ClientFlags, "one attempt with its events")
	line("bundle "+attempt+" --out one.bundle.json"+cfg.ClientFlags, "its receipts as a file")
	line("tail --follow=false"+cfg.ClientFlags, "every event, in the order of the log")
}
