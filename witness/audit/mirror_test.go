package audit_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/testkit/fsck"
	"counterfoil/ledger/tiles"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
)

// same demands that a mirror has the log's files, and no other ones.
func same(t *testing.T, l *ledgerLog, mirror string) {
	t.Helper()
	want, got := files(t, l.dir), files(t, mirror)
	for name, data := range got {
		if want[name] != data {
			t.Errorf("%s is not the file of the log", name)
		}
	}
	if got["checkpoint"] != want["checkpoint"] || got["checkpoint"] == "" {
		t.Error("the mirror has no checkpoint, or another one")
	}
	for name := range want {
		if !strings.Contains(name, ".p/") && strings.HasPrefix(name, "tile") && got[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestLOG11_MirrorCanBeServedAsTilesAgain(t *testing.T) {
	mirror := filepath.Join(t.TempDir(), "a", "mirror")
	with := func(c *audit.Config) { c.Mirror = mirror }
	leaves := story(2000)
	l := newLog(t)
	for _, n := range []int{1, 255, 256, 300, 700, 700, 1024, 2000} {
		if at := int(l.log.Size()); at < n {
			l.add(leaves[at:n]...)
		}
		r := verified(t, l.config(with))
		if r.Mirror.Size != uint64(n) {
			t.Errorf("%s", text(r))
		}
		same(t, l, mirror)
		fsck.Check(t, mirror, leaftest.Origin, l.vkey)
		verified(t, l.config(func(c *audit.Config) { c.Source = tiles.Dir(mirror) }))
		for name := range files(t, mirror) { // partial tiles go with the full one
			if full, _, ok := strings.Cut(name, ".p/"); ok {
				if _, err := os.Stat(filepath.Join(mirror, full)); err == nil {
					t.Errorf("at %d %s is still there", n, name)
				}
			}
		}
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(mirror)))
	defer srv.Close()
	verified(t, l.config(from(t, srv.URL, time.Minute)))
}

func TestMirrorIsFilledFromAnOldState(t *testing.T) {
	dir := t.TempDir()
	state := func(c *audit.Config) { c.State = filepath.Join(dir, "state") }
	mirror := func(c *audit.Config) { c.Mirror = filepath.Join(dir, "mirror") }
	l := newLog(t).add(story(1500)...)
	verified(t, l.config(state))
	r := verified(t, l.config(state, mirror))
	if r.Leaves.Before != 1500 || r.Leaves.Read != 1500 || r.Leaves.Folded != 1500 {
		t.Errorf("%s", text(r))
	}
	same(t, l, filepath.Join(dir, "mirror"))
	// What the mirror has is not fetched again, also without a state.
	asked := 0
	verified(t, l.config(mirror, serve(t, l, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/tile/entries/") && !strings.Contains(r.URL.Path, ".p/") {
			asked++
		}
		return false
	})))
	if asked > 0 {
		t.Errorf("%d full bundles were fetched again", asked)
	}
}

func TestMirrorIsNeverChangedForTheWorse(t *testing.T) {
	mirror := filepath.Join(t.TempDir(), "mirror")
	with := func(c *audit.Config) { c.Mirror = mirror }
	leaves := story(1500)
	l := newLog(t).add(leaves[:1000]...)
	verified(t, l.config(with))
	before := files(t, mirror)

	// A log that is damaged: the mirror keeps its old checkpoint.
	l.add(leaves[1000:]...)
	bad := l.copy()
	change(t, bad.file(tiles.EntriesPath(4, 256)), func(b []byte) []byte { return flip(entryAt(t, b, 3) + 50)(b) })
	refused(t, bad.config(with), audit.DamagedLeaf)
	after := files(t, mirror)
	for name, data := range before {
		if _, stays := after[name]; (stays || !strings.Contains(name, ".p/")) && after[name] != data {
			t.Errorf("%s has changed", name)
		}
	}
	if _, ok := after["tile/entries/004"]; ok {
		t.Error("the damaged bundle was mirrored")
	}

	// Damage in the mirror itself is named and left as it is.
	name := filepath.Join(mirror, "tile", "entries", "001")
	change(t, name, flip(77))
	damaged := files(t, mirror)["tile/entries/001"]
	r := refused(t, l.config(with), audit.MirrorDiffers)
	if r.Findings.Listed[0].Path != name || files(t, mirror)["tile/entries/001"] != damaged || files(t, mirror)["checkpoint"] != before["checkpoint"] {
		t.Errorf("%s", text(r))
	}
	remove(t, name)
	verified(t, l.config(with))
	same(t, l, mirror)

	// A hash tile that is wrong in the log is right in a new mirror.
	bad = l.copy()
	change(t, bad.file(tiles.TilePath(0, 2, 256)), flip(5))
	other := filepath.Join(t.TempDir(), "other")
	refused(t, bad.config(func(c *audit.Config) { c.Mirror = other }), audit.DamagedTile)
	same(t, l, other)
}

func TestMirrorOfAnotherLogIsRefused(t *testing.T) {
	mirror := t.TempDir()
	with := func(c *audit.Config) { c.Mirror = mirror }
	verified(t, newLog(t).add(story(10)...).config(with))
	if r := run(t, newLog(t).add(story(10)...).config(with)); r.ExitCode() != 2 || !strings.Contains(r.Error, "the mirror's checkpoint") {
		t.Errorf("%s", text(r))
	}
}
