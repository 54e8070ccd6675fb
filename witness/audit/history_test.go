package audit_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
	"counterfoil/witness/rule"
)

// evidence reads the document that a finding names, and verifies it.
func evidence(t *testing.T, l *ledgerLog, f audit.Finding, kind rule.Kind) {
	t.Helper()
	b, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := rule.ParseEvidence(b)
	if err != nil {
		t.Fatal(err)
	}
	if e.Kind != kind || e.Witness != "" {
		t.Errorf("kind %s by %q, expected %s", e.Kind, e.Witness, kind)
	}
	if err := e.Verify([]trust.VerifierKey{l.key()}); err != nil {
		t.Error(err)
	}
}

func TestLOG11_ForksAndRewritesBetweenVisitsAreCaught(t *testing.T) {
	begins := func(n int) [][]byte { return story(n) }
	other := func(n int) [][]byte {
		return append([][]byte{leaftest.Leaf(leaftest.Begin("other", nil))}, story(n)...)[:n]
	}
	for name, c := range map[string]struct {
		first, then int
		kind        audit.Kind
		evidence    rule.Kind // "" is none
	}{
		"fork of the same size":       {300, 300, audit.Forked, rule.KindSameSize},
		"rewritten":                   {300, 700, audit.Rewritten, rule.KindRewritten},
		"rewritten from a power of 2": {256, 700, audit.Rewritten, rule.KindUnproven},
		"shrunk":                      {300, 299, audit.RolledBack, ""},
	} {
		for _, remember := range []string{"state", "fold", "mirror"} {
			t.Run(name+" in "+remember, func(t *testing.T) {
				dir := t.TempDir()
				with := func(c *audit.Config) {
					if remember == "mirror" {
						c.Mirror = filepath.Join(dir, "mirror")
					} else {
						c.State = filepath.Join(dir, "state")
					}
				}
				l := newLog(t).add(begins(c.first)...)
				verified(t, l.config(with))
				want := []audit.Kind{c.kind, c.kind} // state file and fold both remember
				switch remember {
				case "state":
					if err := os.RemoveAll(filepath.Join(dir, "state.fold")); err != nil {
						t.Fatal(err)
					}
					want = want[:1]
				case "fold":
					remove(t, filepath.Join(dir, "state"))
					want = want[:1]
				case "mirror":
					want = want[:1]
				}
				before := files(t, dir)
				fork := l.fork().add(other(c.then)...)
				for range 2 { // it stays so
					r := refused(t, fork.config(with), want...)
					f := r.Findings.Listed[0]
					if c.evidence != "" {
						evidence(t, l, f, c.evidence)
					} else if b, err := os.ReadFile(f.Path); err != nil || !bytes.HasPrefix(b, []byte(leaftest.Origin+"\n299\n")) {
						t.Errorf("the offered note was not kept: %v %s", err, b)
					}
				}
				after := files(t, dir)
				for name, data := range before {
					if !strings.Contains(name, ".fold") && after[name] != data {
						t.Errorf("%s has changed", name)
					}
				}
				// The true log goes on.
				verified(t, l.add(story(c.first + 50)[c.first:]...).config(with))
			})
		}
	}
}

func TestLOG11_StateGoesOnWhereItWas(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	with := func(c *audit.Config) { c.State = state }
	leaves := leaftest.History(7, 3000)
	l := newLog(t)
	var last *audit.Report
	for _, at := range []int{1, 2, 300, 511, 512, 513, 2000, 2000, 3000} {
		if n := int(l.log.Size()); n < at {
			l.add(leaves[n:at]...)
		}
		r := run(t, l.config(with, func(c *audit.Config) { c.Tenant = leaftest.Tenant }))
		m := leaftest.Fold(leaves[:at])
		if r.Leaves.Folded != uint64(at) || r.Findings.Total != uint64(len(m.Parked)) || r.Leaves.Counted != uint64(len(m.Events)) {
			t.Fatalf("at %d: %s", at, text(r))
		}
		if last != nil && (r.Leaves.Before != last.Size || r.Leaves.Read > uint64(at)-last.Size+256 || len(r.Remembered) != 1) {
			t.Fatalf("at %d after %d: %s", at, last.Size, text(r))
		}
		last = r
	}
	// An audit of everything at once says the same.
	r := run(t, l.config(func(c *audit.Config) { c.Tenant = leaftest.Tenant }))
	if a, b := text(r), text(last); at(t, a, "attempts") != at(t, b, "attempts") || at(t, a, "events") != at(t, b, "events") || at(t, a, "dispositions") != at(t, b, "dispositions") {
		t.Errorf("%s\n%s", a, b)
	}
	var words []string
	for _, f := range last.Findings.Listed {
		words = append(words, string(f.Kind))
	}
	for i, f := range r.Findings.Listed {
		if words[i] != string(f.Kind) {
			t.Errorf("finding %d is %s, was %s", i, f.Kind, words[i])
		}
	}
}

// at is a member of a document, as text.
func at(t *testing.T, doc, member string) string {
	t.Helper()
	var o map[string]json.RawMessage
	if err := json.NewDecoder(strings.NewReader(doc)).Decode(&o); err != nil {
		t.Fatal(err)
	}
	return string(o[member])
}

func TestDamagedStateIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	with := func(c *audit.Config) { c.State = state }
	l := newLog(t).add(story(600)...)
	verified(t, l.config(with))
	good, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)/2], "flipped": flip(len(good) / 2)(good), "other": []byte("{}"), "tail": append(slices.Clone(good), 'x'),
		"counts": bytes.Replace(good, []byte(`"judged": 600`), []byte(`"judged": 601`), 1),
	} {
		if bytes.Equal(bad, good) {
			t.Fatalf("%s changes nothing", name)
		}
		if err := os.WriteFile(state, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := audit.Run(t.Context(), l.config(with))
		if r.ExitCode() != 2 || err == nil || !strings.Contains(r.Error, "the audit state cannot be read") {
			t.Errorf("%s: %v %s", name, err, text(r))
		}
		if now, _ := os.ReadFile(state); !bytes.Equal(now, bad) {
			t.Errorf("%s: the state file has changed", name)
		}
	}
	if err := os.WriteFile(state, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, newLog(t).add(story(5)...).config(with)); r.ExitCode() != 2 {
		t.Errorf("the state of a log with another key: %s", text(r))
	}
	// The fold is derived: what cannot be read is made anew, and said.
	err = filepath.WalkDir(filepath.Join(dir, "state.fold", "db"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.WriteFile(path, []byte("nonsense"), 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := verified(t, l.config(with))
	if len(r.Notes) != 1 || r.Leaves.Before != 0 || r.Leaves.Folded != 600 {
		t.Errorf("%s", text(r))
	}
}

func TestTwoAuditsOfOneState(t *testing.T) {
	l := newLog(t).add(story(600)...)
	state := filepath.Join(t.TempDir(), "state")
	cfg := l.config(func(c *audit.Config) { c.State = state })
	inner := error(nil)
	cfg.Progress = func(audit.Progress) {
		if inner == nil {
			_, inner = audit.Run(t.Context(), l.config(func(c *audit.Config) { c.State = state }))
		}
	}
	verified(t, cfg)
	if inner == nil || !strings.Contains(inner.Error(), "in use") {
		t.Errorf("got %v", inner)
	}
}

func TestDamageThatIsRepairedIsJudgedLater(t *testing.T) {
	l := newLog(t).add(story(1000)...)
	state := filepath.Join(t.TempDir(), "state")
	with := func(c *audit.Config) { c.State = state }
	name := l.file(tiles.EntriesPath(1, 256))
	sound, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	change(t, name, flip(entryAt(t, sound, 44)+50))
	r := refused(t, l.config(with), audit.DamagedLeaf)
	if r.Leaves.Folded != 300 {
		t.Errorf("%s", text(r))
	}
	change(t, name, func([]byte) []byte { return sound })
	if r = verified(t, l.config(with)); r.Leaves.Before != 300 || r.Leaves.Folded != 1000 || r.Leaves.NotJudged != 0 {
		t.Errorf("%s", text(r))
	}
}
