package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"counterfoil/ledger/client"
	"counterfoil/witness/audit"
)

// shownFindings bounds the findings that are shown to people.
const shownFindings = 20

// sayError puts an error and its hint on stderr.
func (c *cli) sayError(err error) {
	message, hint := strings.ReplaceAll(err.Error(), "\n", "; "), ""
	if m, rest, ok := strings.Cut(message, " (hint: "); ok {
		if h, after, ok := strings.Cut(rest, ")"); ok {
			message, hint = m+after, h
		}
	}
	c.say("counterfoil: %s", plain(message))
	if hint != "" {
		c.say("hint: %s", plain(hint))
	}
}

// showAudit prints the report for people.
func (c *cli) showAudit(r *audit.Report) error {
	verdict := map[audit.Status]string{audit.Verified: "verified", audit.NotVerified: "not verified", audit.NotJudged: "not judged"}[r.Status]
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s: log %s at size %d", verdict, plain(r.Log), r.Size)
	l := r.Leaves
	judged := fmt.Sprintf("%d judged from leaf %d on (%d before this run), %d count, %d do not", l.Folded, l.From, l.Before, l.Counted, l.Parked)
	if l.NotJudged > 0 {
		judged += fmt.Sprintf(", %d could not be judged by their chain", l.NotJudged)
	}
	if l.Damaged > 0 {
		judged += fmt.Sprintf(", %d are damaged", l.Damaged)
	}
	rows := []string{"leaves", judged, "root", r.Root, "tenant", r.Tenant, "events", words(r.Events), "attempts", words(r.Attempts), "dispositions", words(r.Dispositions)}
	if r.Cosignatures != nil && r.Cosignatures.Asked {
		rows = append(rows, "witnesses", r.Cosignatures.Detail)
	}
	for _, m := range r.Remembered {
		rows = append(rows, "continues", fmt.Sprintf("size %d, seen before", m.Size))
	}
	if r.Mirror != nil {
		rows = append(rows, "mirror", fmt.Sprintf("%s holds %d leaves, %d files written", r.Mirror.Dir, r.Mirror.Size, r.Mirror.Written))
	}
	if r.Views != nil {
		rows = append(rows, "views", fmt.Sprintf("%d attempts compared, %d have newer events", r.Views.Compared, r.Views.Newer))
	}
	if r.Findings.Total > 0 {
		found := fmt.Sprintf("%d: %s", r.Findings.Total, words(r.Findings.ByKind))
		if r.Findings.Allowed > 0 {
			found += fmt.Sprintf("; %d of them accepted", r.Findings.Allowed)
		}
		rows = append(rows, "findings", found)
	}
	if err := pairs(&b, rows...); err != nil {
		return err
	}
	for i, f := range r.Findings.Listed {
		if i == shownFindings {
			break
		}
		showFinding(line, f)
	}
	if more := r.Findings.Total - uint64(min(len(r.Findings.Listed), shownFindings)); more > 0 {
		line("and %d more; --findings FILE names all", more)
	}
	for _, n := range r.Notes {
		line("note: %s", plain(n))
	}
	if r.Status == audit.Verified {
		line("this shows")
		for _, s := range r.Claims {
			line("%s", wrap(plain(s), "  ", 96))
		}
		line("this does not show")
		for _, s := range r.NotClaimed {
			line("%s", wrap(plain(s), "  ", 96))
		}
	}
	if _, err := io.WriteString(c.env.Stdout, b.String()); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

func showFinding(line func(string, ...any), f audit.Finding) {
	head := string(f.Kind)
	if f.Code != "" {
		head += " (" + f.Code + ")"
	}
	if f.LeafIndex != nil {
		head += fmt.Sprintf(" at leaf %d", *f.LeafIndex)
	}
	line("%s: %s", plain(head), plain(f.Detail))
	for _, p := range [][2]string{{"expected", f.Expected}, {"got", f.Got}, {"event", f.EventID}, {"attempt", f.AttemptID}, {"file", f.Path}} {
		if p[1] != "" {
			line("  %-8s  %s", p[0], plain(p[1]))
		}
	}
}

// words are counts as text, in the order of the words.
func words[K ~string](m map[K]uint64) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%d %s", m[k], string(k)))
	}
	return strings.Join(out, ", ")
}

// progress is one line on stderr that is written over.
type progress struct {
	w     io.Writer
	on    bool
	now   func() time.Time
	start time.Time
	last  time.Time
	wrote bool
}

func newProgress(w io.Writer, on bool, now func() time.Time) *progress {
	return &progress{w: w, on: on, now: now, start: now()}
}

// show draws the line, at most five times a second.
func (p *progress) show(at audit.Progress) {
	now := p.now()
	if !p.on || at.Next < at.Size && now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.wrote = now, true
	done, all := at.Next-at.First, at.Size-at.First
	const width = 24
	full := int(float64(width) * float64(done) / float64(max(all, 1)))
	text := fmt.Sprintf("[%s%s] leaf %d of %d", strings.Repeat("#", full), strings.Repeat(".", width-full), at.Next, at.Size)
	if took := now.Sub(p.start); took > 0 && done > 0 {
		rate := float64(done) / took.Seconds()
		text += fmt.Sprintf(", %.0f leaves/s, %s left", rate, (time.Duration(float64(all-done)/rate) * time.Second).Round(time.Second))
	}
	fmt.Fprintf(p.w, "\r%-90s", text)
}

// end leaves the line.
func (p *progress) end() {
	if p.wrote {
		fmt.Fprintln(p.w)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && !isNull(st)
}

// serverViews reads the list of attempts of a ledger.
type serverViews struct {
	client  *client.Client
	timeout time.Duration // of one page
}

func (v *serverViews) Page(ctx context.Context, token string) (audit.ViewPage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.timeout, fmt.Errorf("no whole answer within %s", v.timeout))
	defer cancel()
	q := url.Values{"limit": {"256"}, "order": {"oldest"}}
	if token != "" {
		q.Set("pageToken", token)
	}
	a, err := v.client.Attempts(ctx, q)
	if err != nil {
		return audit.ViewPage{}, err
	}
	page := audit.ViewPage{TreeSize: a.Value.TreeSize, Next: a.Value.NextPageToken}
	for _, s := range a.Value.Attempts {
		page.Attempts = append(page.Attempts, audit.ViewAttempt{ID: s.AttemptID, State: s.State, Review: s.Review, InDoubt: s.InDoubt,
			Corrected: s.Corrected, Revision: s.Revision, FirstIndex: s.FirstIndex, LastIndex: s.LastIndex})
	}
	return page, nil
}
