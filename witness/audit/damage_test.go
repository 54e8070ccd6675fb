package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/tiles"
	"counterfoil/witness/audit"
)

func TestLOG11_OneFlippedBitIsNamed(t *testing.T) {
	leaves := story(10_000)
	l := newLog(t).add(leaves...)
	name := l.file(tiles.EntriesPath(4213/256, 256))
	var bad []byte
	change(t, name, func(b []byte) []byte {
		at := entryAt(t, b, 4213%256)
		b = flip(at + 100)(b)
		bad = b[at : at+len(leaves[4213])]
		return b
	})
	r := refused(t, l.config(), audit.DamagedLeaf)
	f := r.Findings.Listed[0]
	if *f.LeafIndex != 4213 || f.Expected != hash(leaves[4213]) || f.Got != hash(bad) || !strings.HasSuffix(f.Path, "tile/entries/016") {
		t.Errorf("%+v", f)
	}
	// What follows is checked by itself, and the chain is judged up to the damage.
	if r.Leaves.Folded != 4213 || r.Leaves.NotJudged != 10_000-4214 || r.Leaves.Read != 10_000 || r.Leaves.Damaged != 1 {
		t.Errorf("%s", text(r))
	}
}

func hash(leaf []byte) string {
	sum := sha256.Sum256(append([]byte{0}, leaf...))
	return hex.EncodeToString(sum[:])
}

func TestEveryDamagedLeafIsCounted(t *testing.T) {
	l := newLog(t).add(story(1000)...)
	for _, n := range []uint64{3, 255, 256, 700, 999} {
		p := tiles.EntriesPath(n/256, 256)
		if n >= 768 {
			p.Width = 1000 - 768
		}
		change(t, l.file(p), func(b []byte) []byte { return flip(entryAt(t, b, int(n%256)) + 50)(b) })
	}
	// A length that is wrong makes all that follows it in the bundle unreadable.
	change(t, l.file(tiles.EntriesPath(1, 256)), func(b []byte) []byte { return flip(entryAt(t, b, 250) - 2)(b) })
	r := run(t, l.config())
	var at []uint64
	for _, f := range r.Findings.Listed {
		if f.Kind != audit.DamagedLeaf {
			t.Errorf("%+v", f)
		}
		at = append(at, *f.LeafIndex)
	}
	want := []uint64{3, 255, 256, 506, 507, 508, 509, 510, 511, 700, 999}
	if !slices.Equal(at, want) || r.Leaves.Damaged != uint64(len(want)) || r.ExitCode() != 1 {
		t.Errorf("%v, expected %v: %s", at, want, r.Status)
	}
}

// Damage beside the leaves is a finding of its own, and no reason to doubt them.
func TestDamagedHashTilesAreNamed(t *testing.T) {
	const n = 66_000 // three levels
	leaves := story(n)
	full := newLog(t).add(leaves...)
	for name, c := range map[string]struct {
		path  tiles.Path
		how   func([]byte) []byte
		kinds []audit.Kind
	}{
		"level 0, full":      {tiles.TilePath(0, 256, 256), flip(32 * 9), []audit.Kind{audit.DamagedTile}},
		"level 0, edge":      {tiles.TilePath(0, n/256, n%256), flip(0), []audit.Kind{audit.DamagedTile}},
		"level 1, full":      {tiles.TilePath(1, 0, 256), flip(32 * 200), []audit.Kind{audit.DamagedTile}},
		"level 1, edge":      {tiles.TilePath(1, 1, n/256%256), flip(1), []audit.Kind{audit.DamagedTile}},
		"level 2, edge":      {tiles.TilePath(2, 0, 1), flip(1), []audit.Kind{audit.DamagedTile}},
		"level 0, cut":       {tiles.TilePath(0, 256, 256), func(b []byte) []byte { return b[:100] }, []audit.Kind{audit.DamagedTile}},
		"bundle with a tail": {tiles.EntriesPath(256, 256), func(b []byte) []byte { return append(b, 1, 2, 3) }, []audit.Kind{audit.DamagedBundle}},
		"level 0, too long":  {tiles.TilePath(0, 256, 256), func(b []byte) []byte { return append(b, 0) }, []audit.Kind{audit.DamagedTile}},
		"edge, too long":     {tiles.TilePath(1, 1, n/256%256), func(b []byte) []byte { return append(b, make([]byte, 32)...) }, []audit.Kind{audit.MissingTile}},
	} {
		t.Run(name, func(t *testing.T) {
			l := full.copy()
			change(t, l.file(c.path), c.how)
			r := refused(t, l.config(func(c *audit.Config) { c.From = n - 500 }), c.kinds...)
			if f := r.Findings.Listed[0]; f.Path != c.path.String() || r.Leaves.Damaged > 0 || r.Leaves.NotJudged > 1 {
				t.Errorf("%s", text(r))
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		l := full.copy()
		remove(t, l.file(tiles.TilePath(0, 256, 256)))
		remove(t, l.file(tiles.TilePath(1, 1, n/256%256)))
		refused(t, l.config(func(c *audit.Config) { c.From = n - 500 }), audit.MissingTile, audit.MissingTile)
	})
}

func TestTreesThatDoNotGiveTheSignedRoot(t *testing.T) {
	l := newLog(t).add(story(300)...)
	other := l.fork().add(story(299)...).add([]byte("x"))
	cp, err := os.ReadFile(l.file(tiles.Path{Kind: tiles.Checkpoint}))
	if err != nil {
		t.Fatal(err)
	}
	change(t, other.file(tiles.Path{Kind: tiles.Checkpoint}), func([]byte) []byte { return cp })
	refused(t, other.config(), audit.RootMismatch)
	// Bundle and hash tile agree with each other, and not with what was signed.
	l = newLog(t).add(story(600)...)
	other = l.fork().add(append(append(story(10), []byte("x")), story(600)[11:]...)...)
	for _, p := range []tiles.Path{tiles.TilePath(0, 0, 256), tiles.EntriesPath(0, 256)} {
		b, err := os.ReadFile(other.file(p))
		if err != nil {
			t.Fatal(err)
		}
		change(t, l.file(p), func([]byte) []byte { return b })
	}
	r := run(t, l.config())
	if r.ExitCode() != 1 || r.Leaves.Damaged != 256 || r.Findings.ByKind[audit.DamagedLeaf] != 256 || r.Leaves.Folded != 0 {
		t.Errorf("%s", text(r))
	}
}

func TestLeavesThatAreNotThereAreNotJudged(t *testing.T) {
	l := newLog(t).add(story(600)...)
	remove(t, l.file(tiles.EntriesPath(1, 256)))
	r, err := audit.Run(t.Context(), l.config())
	if r.ExitCode() != 2 || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(r.Error, "leaves 256 to 511") || r.Leaves.Folded != 256 {
		t.Errorf("%v %s", err, text(r))
	}
	// With something wrong before them, that is the verdict.
	change(t, l.file(tiles.EntriesPath(0, 256)), func(b []byte) []byte { return flip(entryAt(t, b, 9) + 50)(b) })
	if r, _ := audit.Run(t.Context(), l.config()); r.ExitCode() != 1 || r.Error == "" {
		t.Errorf("%s", text(r))
	}
}
