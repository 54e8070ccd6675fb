package tiles

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTilePathVectors(t *testing.T) {
	for text, want := range map[string]Path{
		"checkpoint":                          {Kind: Checkpoint},
		"tile/0/000":                          TilePath(0, 0, 256),
		"tile/0/000.p/1":                      TilePath(0, 0, 1),
		"tile/0/001":                          TilePath(0, 1, 256),
		"tile/2/x001/x234/067":                TilePath(2, 1234067, 256), // the example of tlog-tiles
		"tile/2/x001/x234/067.p/255":          TilePath(2, 1234067, 255),
		"tile/63/999":                         TilePath(63, 999, 256),
		"tile/0/x001/000":                     TilePath(0, 1000, 256),
		"tile/entries/000":                    EntriesPath(0, 256),
		"tile/entries/x001/x234/067.p/8":      EntriesPath(1234067, 8),
		"tile/0/x072/x057/x594/x037/x927/935": TilePath(0, 1<<56-1, 256),
		"tile/entries/x072/x057/x594/x037/x927/935.p/200": EntriesPath(1<<56-1, 200),
	} {
		got, err := ParsePath(text)
		if err != nil {
			t.Errorf("ParsePath(%q): %v", text, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("ParsePath(%q) (-want +got):\n%s", text, d)
		}
		if got.String() != text {
			t.Errorf("String of %+v is %q, expected %q", got, got.String(), text)
		}
	}
}

func TestTilePathRefuses(t *testing.T) {
	for _, text := range []string{
		"", "/", "/checkpoint", "checkpoint/", "checkpoint.p/1", "Checkpoint",
		"tile", "tile/", "tile/0", "tile/0/", "tile//000", "tile/00/000", "tile/01/000",
		"tile/-1/000", "tile/+1/000", "tile/64/000", "tile/256/000", "tile/a/000",
		"tile/0/0", "tile/0/00", "tile/0/0000", "tile/0/1000", "tile/0/x000", "tile/0/x000/000",
		"tile/0/x000/x001/000", "tile/0/001/000", "tile/0/x001/x000", "tile/0/x1/000", "tile/0/X001/000",
		"tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01",
		"tile/0/000.p/1/", "tile/0/000.p/1.p/1", "tile/0/x001.p/1/000", "tile/0/000/", "tile/0//000",
		"tile/0/000?x", "tile/0/000 ", " tile/0/000", "tile/0/000\n", "tile/0/٠٠٠",
		"tile/0/../../.state/treeState", "../checkpoint", ".state/treeState", "tile/.state/000",
		"tile/data/000", "tile/entries/", "tile/entries/0", "tile/entries/000.p/300",
		"tile/0/x072/x057/x594/x037/x927/936",                 // 2^56
		"tile/0/x999/x999/x999/x999/x999/x999/x999/999",       // beyond uint64
		"tile/entries/" + strings.Repeat("x001/", 40) + "001", // long
	} {
		if p, err := ParsePath(text); err == nil {
			t.Errorf("ParsePath(%q) accepts it as %+v", text, p)
		}
	}
}

func TestTilePathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Path{
			Kind:  rapid.SampledFrom([]Kind{Tile, Entries}).Draw(t, "kind"),
			Index: rapid.Uint64Range(0, maxIndex).Draw(t, "index"),
			Width: rapid.IntRange(1, Width).Draw(t, "width"),
		}
		if p.Kind == Tile {
			p.Level = rapid.IntRange(0, maxLevel).Draw(t, "level")
		}
		got, err := ParsePath(p.String())
		if err != nil || got != p {
			t.Fatalf("ParsePath(%q) = %+v, %v; expected %+v", p, got, err, p)
		}
	})
}

func FuzzParsePath(f *testing.F) {
	f.Add("tile/0/x001/234.p/5")
	f.Add("checkpoint")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := ParsePath(s); err == nil && p.String() != s {
			t.Errorf("ParsePath(%q) accepts a second spelling of %q", s, p)
		}
	})
}
