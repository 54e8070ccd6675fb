package archive_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/archive"
)

func compaction(drop ...string) archive.Compaction {
	return archive.Compaction{Owner: attempt(0), Drop: drop, Retention: year, At: at.AddDate(0, 3, 0)}
}

// states of what an owner refers to, by role.
func states(t testing.TB, a *archive.Archive) map[string]archive.State {
	t.Helper()
	list, err := a.List(t.Context(), attempt(0))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]archive.State{}
	for _, e := range list {
		out[e.Role] = e.State
	}
	return out
}

// TestARC08_TheFieldAuditComesFirst: a compaction that would leave a field of a
// review nowhere is refused, names it, and drops nothing.
func TestARC08_TheFieldAuditComesFirst(t *testing.T) {
	a, _ := room(t)
	admit(t, a, 0)
	before := states(t, a)
	for field, c := range map[string]archive.Compaction{
		"/evidence_bundle/others/0/verifier": {Drop: []string{"evidence_bundle"}},
		"/policy_decision/colour":            {Drop: []string{"verifier_log"}},
		"/verifier_log/steps":                {Drop: []string{"verifier_log"}},
		"/policy_decision/verdicts/999":      {Drop: []string{"verifier_log"}},
		"no pointer":                         {Drop: []string{"verifier_log"}},
	} {
		c.Owner, c.Retention, c.At, c.Required = attempt(0), year, at, []string{field}
		_, _, err := a.Compact(t.Context(), c, nil)
		var m *archive.MissingFields
		if !errors.As(err, &m) || !slices.Equal(m.Fields, []string{field}) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, role := range []string{archive.RoleReceipt, archive.RoleSpanningSet, archive.RoleDecision, archive.RoleSummary, archive.RoleAudit} {
		if _, _, err := a.Compact(t.Context(), compaction(role), nil); err == nil {
			t.Errorf("%s was dropped", role)
		}
	}
	if _, _, err := a.Compact(t.Context(), compaction("verifier_log"), func(string) bool { return true }); !errors.Is(err, archive.ErrHeld) {
		t.Errorf("under a legal hold: %v", err)
	}
	if _, _, err := a.Compact(t.Context(), archive.Compaction{Owner: attempt(1), Drop: []string{"x"}, Retention: year, At: at}, nil); err == nil {
		t.Error("an admission without records was compacted")
	}
	after := states(t, a)
	for role, s := range before {
		if after[role] != s {
			t.Errorf("%s is %s", role, after[role])
		}
	}
	if len(after) != len(before) {
		t.Errorf("refused compactions left something: %v", after)
	}
	// With the field in what stays, the same goes through.
	c := compaction("verifier_log")
	c.Required = []string{"/evidence_bundle/others/0/verifier"}
	if _, _, err := a.Compact(t.Context(), c, nil); err != nil {
		t.Error(err)
	}
}

// TestARC09_ARC14_MembershipAfterACompaction: receipt and summary still show what
// belonged to the admission, the dropped fields are listed, and the receipt has the
// bytes that it had.
func TestARC09_ARC14_MembershipAfterACompaction(t *testing.T) {
	a, _ := room(t)
	adm := admit(t, a, 0)
	s, entry, err := a.Compact(t.Context(), compaction("verifier_log", "evidence"), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, a, adm.entries["verifier_log"].Digest, archive.Compacted)
	mustBeGone(t, a, adm.entries["evidence"].Digest, archive.Compacted)
	receipt, err := read(t, a, adm.entries[archive.RoleReceipt].Digest)
	if err != nil || !bytes.Equal(receipt, adm.receipt) {
		t.Errorf("the receipt: %v", err)
	}
	kept, err := read(t, a, entry.Digest)
	if err != nil {
		t.Fatal(err)
	}
	back, err := archive.ParseSummary(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Check(receipt); err != nil {
		t.Error(err)
	}
	if len(back.Dropped) != 2 || len(s.Dropped) != 2 {
		t.Fatalf("dropped: %+v", back.Dropped)
	}
	for _, d := range back.Dropped {
		e := adm.entries[d.Role]
		if d.Digest != e.Digest || d.Size != e.Size || d.Bound != (d.Role == "evidence") || d.Role == "verifier_log" && !slices.Equal(d.Fields, []string{"steps", "verifier"}) {
			t.Errorf("dropped: %+v", d)
		}
	}
	if b, err := read(t, a, back.Audit); err != nil || !bytes.Contains(b, []byte("/spanning_set/policy_decision/policy_digest")) {
		t.Errorf("the field audit: %s, %v", b, err)
	}
	// A summary that was changed does not fit its receipt any more.
	for what, change := range map[string]func(*archive.Summary){
		"another receipt": func(s *archive.Summary) { s.Receipt = admission.Digest([]byte("x")) },
		"another set":     func(s *archive.Summary) { s.SpanningSet = append(slices.Clone(s.SpanningSet), ' ') },
		"a body that is not bound": func(s *archive.Summary) {
			s.Dropped[0].Digest = admission.Digest([]byte("x"))
			s.Dropped[0].Bound = true
		},
		"a bound body hidden": func(s *archive.Summary) { s.Dropped[0].Bound, s.Dropped[1].Bound = false, false },
		"another schema":      func(s *archive.Summary) { s.Schema = "x" },
	} {
		other, err := archive.ParseSummary(kept)
		if err != nil {
			t.Fatal(err)
		}
		change(other)
		if other.Check(receipt) == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := archive.ParseSummary(append([]byte(`{"x":1,`), kept[1:]...)); err == nil {
		t.Error("an unknown member was read")
	}
	// Again: nothing is left to drop, and the summary still lists everything.
	again, _, err := a.Compact(t.Context(), compaction("verifier_log", "evidence"), nil)
	if err != nil || len(again.Dropped) != 2 || again.Check(receipt) != nil {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestARC08_ACompactionThatWasKilled copies the files at every draw of randomness,
// as a killed process would leave them: whatever was dropped has its audit and its
// summary, and the same call finishes.
func TestARC08_ACompactionThatWasKilled(t *testing.T) {
	dropped := 0
	for n := 1; ; n++ {
		dir, killed := t.TempDir(), ""
		h := &hook{}
		v := openVault(t, dir, h)
		begin(t, v)
		a := archive.New(v)
		adm := admit(t, a, 0)
		h.n, h.do = n, func() {
			killed = filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := a.Compact(t.Context(), compaction("verifier_log", "evidence"), nil); err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if killed == "" {
			if n < 8 || dropped == 0 {
				t.Fatalf("%d points, %d of them within the drops: the test does not test", n, dropped)
			}
			return
		}
		b := archive.New(openVault(t, killed, &hook{}))
		got := states(t, b)
		if got["verifier_log"] == archive.Compacted || got["evidence"] == archive.Compacted {
			dropped++
			if got[archive.RoleAudit] != archive.Kept || got[archive.RoleSummary] != archive.Kept {
				t.Errorf("killed at point %d: %v", n, got)
			}
		}
		s, _, err := b.Compact(t.Context(), compaction("verifier_log", "evidence"), nil)
		if err != nil || s.Check(adm.receipt) != nil || len(s.Dropped) != 2 {
			t.Errorf("killed at point %d: %+v, %v", n, s, err)
		}
		mustBeGone(t, b, adm.entries["verifier_log"].Digest, archive.Compacted)
	}
}
