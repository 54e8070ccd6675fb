package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/witness/audit"
)

func TestAuditThatCannotBeginIsNotJudged(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		say  string
	}{
		{[]string{"audit", dir}, "no trust file"},
		{[]string{"audit", dir, "--trust", filepath.Join(dir, "gone")}, "the trust file cannot be read"},
		{[]string{"audit", dir, "--trust", bad}, "malformed trust file"},
		{[]string{"audit", dir, "--trust", dir}, "the trust file cannot be read"},
	} {
		e := newExecution(t, nil)
		r := e.run(c.args...)
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.errOut, c.say) {
			t.Errorf("%v: %+v", c.args, r)
		}
		if r = e.run(append(c.args, "--quiet")...); r.code != exitUsage || !strings.Contains(r.errOut, c.say) {
			t.Errorf("%v --quiet: %+v", c.args, r)
		}
		if r = e.run(append(c.args, "--quiet", "--json")...); r.code != exitUsage || r.errOut != "" {
			t.Errorf("%v --quiet --json: %+v", c.args, r)
		}
		r = e.run(append(c.args, "--json")...)
		var doc audit.Report
		if err := json.Unmarshal([]byte(r.out), &doc); err != nil || doc.Status != audit.NotJudged || !strings.Contains(doc.Error, c.say) {
			t.Errorf("%v --json: %v %+v", c.args, err, r)
		}
	}
	for _, args := range [][]string{{"audit"}, {"audit", "a", "b"}, {"audit", dir, "--timeout", "0s"}, {"audit", dir, "--deadline", "-1s"}, {"audit", dir, "--from", "x"}} {
		if r := newExecution(t, nil).run(args...); r.code != exitUsage || r.out != "" || !strings.Contains(r.errOut, "hint: ") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestAuditReportForPeople(t *testing.T) {
	leaf := uint64(7)
	r := audit.NotJudgedReport(nil, errors.New("x"))
	r.Status, r.Log, r.Size = audit.NotVerified, "log.example/\u202e", 9
	r.Findings.Total, r.Findings.ByKind = 150, map[audit.Kind]uint64{audit.Unlawful: 150}
	for range 30 {
		r.Findings.Listed = append(r.Findings.Listed, audit.Finding{Kind: audit.Unlawful, Code: "chain_broken", LeafIndex: &leaf, Expected: "a\x1b[2J", Got: "b", Detail: "c"})
	}
	var out bytes.Buffer
	c := &cli{env: Env{Stdout: &out}}
	if err := c.showAudit(r); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"not verified: log log.example/\\u{202e} at size 9\n", "findings  150: 150 unlawful\n",
		"unlawful (chain_broken) at leaf 7: c\n  expected  a\\u{1b}[2J\n  got       b\n", "and 130 more; --findings FILE names all\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") || strings.Count(text, "unlawful (") != shownFindings || strings.Contains(text, "this shows") {
		t.Error(text)
	}
}

func TestProgressShowsRateAndTimeLeft(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&out, true, func() time.Time { return now })
	for _, at := range []struct {
		after time.Duration
		next  uint64
	}{{time.Second, 1100}, {time.Millisecond, 1101}, {time.Second, 2000}, {time.Second, 5100}} {
		now = now.Add(at.after)
		p.show(audit.Progress{First: 100, Next: at.next, Size: 5100})
	}
	p.end()
	var lines []string
	for line := range strings.SplitSeq(out.String(), "\r") {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	want := []string{"", "[####....................] leaf 1100 of 5100, 1000 leaves/s, 4s left",
		"[#########...............] leaf 2000 of 5100, 950 leaves/s, 3s left", "[########################] leaf 5100 of 5100, 1666 leaves/s, 0s left"}
	if strings.Join(lines, "|") != strings.Join(want, "|") {
		t.Errorf("%q", lines)
	}
	out.Reset()
	p = newProgress(&out, false, func() time.Time { return now })
	p.show(audit.Progress{Next: 1, Size: 1})
	p.end()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}
