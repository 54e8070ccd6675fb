package search

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/projections/kv"
)

func TestLOG05_PostingsHaveOneEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfDistinct(rapid.Byte(), rapid.ID[byte]).Draw(t, "indices")
		var b Bits
		for _, i := range in {
			b.set(i)
		}
		if b.Count() != len(in) {
			t.Fatalf("count %d, want %d", b.Count(), len(in))
		}
		slices.Sort(in)
		var out []byte
		b.Each(7, false, func(i uint64) bool { out = append(out, byte(i)); return i>>ChunkBits == 7 })
		if !slices.Equal(in, out) && len(in)+len(out) > 0 {
			t.Fatalf("indices %v, want %v", out, in)
		}
		out = nil
		b.Each(7, true, func(i uint64) bool { out = append(out, byte(i)); return true })
		slices.Reverse(out)
		if !slices.Equal(in, out) && len(in)+len(out) > 0 {
			t.Fatalf("against the order %v, want %v", out, in)
		}
		row := b.append(nil)
		if len(row) > mapFrom {
			t.Fatalf("%d bytes", len(row))
		}
		got, err := parseBits(row)
		if len(in) == 0 {
			if err == nil {
				t.Fatal("an empty posting is accepted: it should have been deleted")
			}
			return
		}
		if err != nil || got != b {
			t.Fatalf("got %v, %v", got, err)
		}
		from, to := rapid.Uint64Range(0, 600).Draw(t, "from"), rapid.Uint64Range(0, 600).Draw(t, "to")
		b.Clip(1, from, to)
		b.Each(1, false, func(i uint64) bool {
			if i < from || i >= to || !slices.Contains(in, byte(i)) {
				t.Fatalf("%d is not within [%d, %d)", i, from, to)
			}
			return true
		})
		for _, i := range in {
			if n := 256 + uint64(i); n >= from && n < to && !b.has(i) {
				t.Fatalf("%d is gone", n)
			}
		}
	})
	few := make([]byte, mapFrom) // a map that should be a list
	few[0] = 1
	for _, bad := range [][]byte{nil, {2, 1}, {1, 1}, make([]byte, mapFrom), few, make([]byte, mapFrom+1)} {
		if _, err := parseBits(bad); !errors.Is(err, kv.ErrDamaged) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
