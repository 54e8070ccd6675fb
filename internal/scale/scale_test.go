package main

import (
	"bytes"
	"math"
	"os"
	"testing"

	"counterfoil/ledger/tiles"
)

// TestPageFollowsFromTheArithmetic: docs/scale.md has the tables that this program
// writes now.
func TestPageFollowsFromTheArithmetic(t *testing.T) {
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := fill(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, want) {
		t.Error("docs/scale.md is not what go run ./internal/scale -out docs/scale.md writes")
	}
	if _, err := fill([]byte("no markers")); err == nil {
		t.Error("a page without markers was filled")
	}
}

// TestTreeIsThatOfTheTiles: the counts are those of the files that the log has.
func TestTreeIsThatOfTheTiles(t *testing.T) {
	for _, n := range []uint64{0, 1, 255, 256, 257, 65_535, 65_536, 65_537, 70_000, 200_000} {
		var full, partial, bundles, hashes uint64
		levels := 0
		tiles.Paths(0, n, func(p tiles.Path) bool {
			switch {
			case p.Kind == tiles.Entries:
				if p.Full() {
					bundles++
				}
			case p.Kind == tiles.Tile:
				if p.Full() {
					full++
				} else {
					partial++
				}
				hashes += uint64(p.Width)
				levels = max(levels, p.Level+1)
			}
			return true
		})
		x := tree{n}
		f, p := x.tiles()
		if f != full || p != partial || x.bundles() != bundles || x.hashTileBytes() != hashes*hashBytes || x.levels() != levels {
			t.Errorf("%d leaves: %d full %d partial %d bundles %d bytes %d levels, the tiles have %d %d %d %d %d",
				n, f, p, x.bundles(), x.hashTileBytes(), x.levels(), full, partial, bundles, hashes*hashBytes, levels)
		}
	}
	for n, want := range map[uint64]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 1 << 20: 20, 1<<20 + 1: 21} {
		if got := (tree{n}).proofHashes(); got != want {
			t.Errorf("%d leaves: %d hashes in a proof, want %d", n, got, want)
		}
	}
}

// TestPipelineKeepsItsBounds: no queue is faster than its flushes or its cores, one
// caller takes one flush an event, and more of anything is never slower.
func TestPipelineKeepsItsBounds(t *testing.T) {
	p := pipeline{callers: 1, cores: 2, work: 200e-6, after: 50e-6, flush: 5e-3, most: 1024}
	if got, want := p.rate(1000), 1/(5e-3+250e-6); math.Abs(got-want) > want/50 {
		t.Errorf("one caller: %.1f events/s, want %.1f", got, want)
	}
	last := 0.0
	for _, n := range []int{1, 2, 4, 16, 64, 256, 1024, 4096} {
		p.callers = n
		got := p.rate(20_000)
		if most := min(float64(n)/p.flush, float64(p.cores)/p.work); got > most*1.01 {
			t.Errorf("%d callers: %.0f events/s, at most %.0f are possible", n, got, most)
		}
		if got < last*0.99 {
			t.Errorf("%d callers: %.0f events/s, fewer had %.0f", n, got, last)
		}
		last = got
	}
	p.callers = 1024
	slow := p.rate(20_000)
	p.cores = 8
	if fast := p.rate(20_000); fast <= slow {
		t.Errorf("8 cores: %.0f events/s, 2 had %.0f", fast, slow)
	}
}
