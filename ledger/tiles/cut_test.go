package tiles

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// Paths of every pair of sizes together with what was there before are the files
// of the larger tree, each once.
func TestPaths(t *testing.T) {
	sizes := []uint64{0, 1, 2, 255, 256, 257, 300, 511, 512, 513, 65535, 65536, 65537, 65800, 131072, 16777216 + 5}
	collect := func(from, size uint64) map[Path]bool {
		out := map[Path]bool{}
		Paths(from, size, func(p Path) bool {
			if out[p] {
				t.Fatalf("%d to %d: %s twice", from, size, p)
			}
			out[p] = true
			return true
		})
		return out
	}
	for _, size := range sizes[:len(sizes)-1] {
		whole := collect(0, size)
		for p := range whole {
			if got := widthAt(max(p.Level, 0), p.Index, size); got != p.Width {
				t.Fatalf("size %d: %s, want width %d", size, p, got)
			}
		}
		for _, from := range sizes {
			if from > size {
				break
			}
			before, added := collect(0, from), collect(from, size)
			for p := range added {
				if before[p] {
					t.Errorf("%d to %d: %s was there before", from, size, p)
				}
			}
			for p := range whole {
				if !before[p] && !added[p] {
					t.Errorf("%d to %d: %s is missing", from, size, p)
				}
			}
			for p := range added {
				if !whole[p] {
					t.Errorf("%d to %d: %s is not of the tree", from, size, p)
				}
			}
		}
	}
}

func TestCut(t *testing.T) {
	var bundle []byte
	var want []byte
	for i := range 5 {
		bundle = binary.BigEndian.AppendUint16(bundle, uint16(i))
		bundle = append(bundle, bytes.Repeat([]byte{byte(i)}, i)...)
		if i == 2 {
			want = bytes.Clone(bundle)
		}
	}
	if got, err := Cut(EntriesPath(0, 5), bundle, 3); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v", got, err)
	}
	tile := make([]byte, 5*HashSize)
	tile[2*HashSize] = 7
	if got, err := Cut(TilePath(0, 0, 5), tile, 3); err != nil || !bytes.Equal(got, tile[:3*HashSize]) {
		t.Errorf("%x, %v", got, err)
	}
	for _, err := range []error{second(Cut(EntriesPath(0, 5), bundle[:9], 3)), second(Cut(TilePath(0, 0, 5), tile[:9], 3))} {
		if !isDamage(err) {
			t.Errorf("damaged: %v", err)
		}
	}
}

func second(_ []byte, err error) error { return err }
