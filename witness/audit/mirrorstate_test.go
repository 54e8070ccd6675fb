package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/witness/audit"
)

// What an audit says of the copy it has looked at in this run, also where the
// state says that there is nothing new to judge.
func TestLOG11_EveryFileOfTheMirrorIsReadInEveryRun(t *testing.T) {
	dir := t.TempDir()
	mirror := filepath.Join(dir, "mirror")
	with := func(c *audit.Config) { c.Mirror, c.State = mirror, filepath.Join(dir, "state") }
	leaves := story(66_000) // two tiles of level 1
	l := newLog(t).add(leaves[:65_900]...)
	verified(t, l.config(with))
	l.add(leaves[65_900:]...)
	r := verified(t, l.config(with))
	if r.Leaves.Folded != 66_000 && r.Leaves.Before != 65_900 {
		t.Errorf("%s", text(r))
	}
	for _, name := range []string{
		"tile/entries/000", "tile/entries/256", "tile/entries/257.p/208", "tile/entries/257.p/108",
		"tile/0/000", "tile/0/257.p/208", "tile/0/257.p/108", "tile/1/000", "tile/1/001.p/1", "tile/2/000.p/1",
	} {
		path := filepath.Join(mirror, filepath.FromSlash(name))
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		change(t, path, flip(len(sound)/2))
		r := refused(t, l.config(with), audit.MirrorDiffers)
		if len(r.Findings.Listed) != 1 || r.Findings.Listed[0].Path != path {
			t.Errorf("%s: %s", name, text(r))
		}
		change(t, path, func(b []byte) []byte { return b[:len(b)-1] })
		refused(t, l.config(with), audit.MirrorDiffers)
		remove(t, path) // the cure of the runbook
		r = verified(t, l.config(with))
		again, err := os.ReadFile(path)
		if strings.HasSuffix(name, "p/108") { // of an older checkpoint, that the mirror has no more
			continue
		}
		if err != nil || string(again) != string(sound) || r.Mirror.Written != 1 {
			t.Errorf("%s was not fetched again: %v, %s", name, err, text(r))
		}
	}
	same(t, l, mirror)
}

func TestMirrorIsRefusedWhereSomethingElseIs(t *testing.T) {
	l := newLog(t).add(story(10)...)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	with := func(c *audit.Config) { c.Mirror = dir }
	if r := run(t, l.config(with)); r.ExitCode() != 2 || !strings.Contains(r.Error, `is no mirror`) || !strings.Contains(r.Error, `"keys"`) {
		t.Errorf("%s", text(r))
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("something was written: %d files", len(got))
	}
	remove(t, filepath.Join(dir, "keys"))
	if err := os.WriteFile(filepath.Join(dir, ".checkpoint.X.tmp"), nil, 0o600); err != nil { // a kill left it
		t.Fatal(err)
	}
	verified(t, l.config(with))
}
