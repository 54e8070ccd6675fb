package tiles

import (
	"errors"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// The ranges of the two sides of every place make the root of the tree.
func TestLOG12_RangesJoin(t *testing.T) {
	for _, size := range []uint64{1, 2, 7, 256, 257, 1000} {
		m := newModel(t, size)
		r := NewReader(Dir(m.dir), Options{})
		f := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
		for at := uint64(0); at <= size; at++ {
			join := f.NewEmptyRange(0)
			for _, part := range [][2]uint64{{0, at}, {at, size}} {
				hashes, err := r.Range(t.Context(), part[0], part[1], size)
				if err != nil {
					t.Fatal(err)
				}
				var nodes [][]byte
				for i := range hashes {
					nodes = append(nodes, hashes[i][:])
				}
				side, err := f.NewRange(part[0], part[1], nodes)
				if err != nil {
					t.Fatal(err)
				}
				if err := join.AppendRange(side, nil); err != nil {
					t.Fatal(err)
				}
				if part[0] == 0 && at > 0 {
					if root, _ := join.GetRootHash(nil); string(root) != string(m.tree.HashAt(at)) {
						t.Fatalf("size %d: root at %d is %x", size, at, root)
					}
				}
			}
			if root, _ := join.GetRootHash(nil); string(root) != string(m.tree.Hash()) {
				t.Fatalf("size %d, joined at %d: %x", size, at, root)
			}
		}
		for _, bad := range [][2]uint64{{0, size + 1}, {2, 1}} {
			var e *RangeError
			if _, err := r.Range(t.Context(), bad[0], bad[1], size); !errors.As(err, &e) {
				t.Errorf("range %v of %d: %v", bad, size, err)
			}
		}
	}
}

func TestLOG12_WrongLeafIsNamed(t *testing.T) {
	m := newModel(t, 300)
	p := EntriesPath(1, 44)
	data := m.read(t, p)
	data[2] ^= 1 // first byte of leaf 256
	m.write(t, p, data)
	r := NewReader(Dir(m.dir), Options{})
	_, err := r.Leaf(t.Context(), 256, 300)
	var leaf *LeafError
	var damage *DamageError
	wrong := append([]byte(nil), m.leaves[256]...)
	wrong[0] ^= 1
	if !errors.As(err, &leaf) || !errors.As(err, &damage) || leaf.Index != 256 ||
		string(leaf.Expected[:]) != string(m.tree.LeafHash(256)) || leaf.Got != LeafHashOf(wrong) {
		t.Errorf("got %v", err)
	}
}
