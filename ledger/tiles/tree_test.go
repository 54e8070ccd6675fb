package tiles

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
)

// model is merkle's reference tree and the same leaves stored as tiles, written
// by a second, plain implementation of tlog-tiles.
type model struct {
	tree   *testonly.Tree
	leaves [][]byte
	dir    string
}

func leafData(i uint64) []byte { return fmt.Appendf(nil, "leaf %d %0*d", i, int(i%7), i) }

// newModel stores a log that had every one of the sizes (ascending) once.
func newModel(t testing.TB, sizes ...uint64) *model {
	t.Helper()
	m := &model{tree: testonly.New(rfc6962.DefaultHasher), dir: t.TempDir()}
	for _, s := range sizes {
		from := m.tree.Size()
		for i := from; i < s; i++ {
			m.leaves = append(m.leaves, leafData(i))
			m.tree.AppendData(leafData(i))
		}
		m.store(t, from, s)
	}
	return m
}

// store writes the files that change between two sizes.
func (m *model) store(t testing.TB, from, size uint64) {
	t.Helper()
	for level := 0; size>>(8*level) > 0; level++ {
		for index := from >> (8 * level) / Width; widthAt(level, index, size) > 0; index++ {
			w := widthAt(level, index, size)
			var tile, entries []byte
			for i := index * Width; i < index*Width+uint64(w); i++ {
				tile = append(tile, m.node(uint(8*level), i)...)
				if level == 0 {
					entries = binary.BigEndian.AppendUint16(entries, uint16(len(m.leaves[i])))
					entries = append(entries, m.leaves[i]...)
				}
			}
			m.write(t, TilePath(level, index, w), tile)
			if level == 0 {
				m.write(t, EntriesPath(index, w), entries)
			}
		}
	}
}

// node is the root of a complete subtree, as the reference tree has it.
func (m *model) node(level uint, index uint64) []byte {
	n := compact.NewNodeID(level, index)
	begin, end := n.Coverage()
	if begin == 0 {
		return m.tree.HashAt(end)
	}
	if level == 0 {
		return m.tree.LeafHash(index)
	}
	return rfc6962.DefaultHasher.HashChildren(m.node(level-1, 2*index), m.node(level-1, 2*index+1))
}

func (m *model) file(p Path) string { return filepath.Join(m.dir, filepath.FromSlash(p.String())) }

func (m *model) write(t testing.TB, p Path, data []byte) {
	t.Helper()
	name := m.file(p)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (m *model) read(t testing.TB, p Path) []byte {
	t.Helper()
	data, err := os.ReadFile(m.file(p))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (m *model) remove(t testing.TB, p Path) {
	t.Helper()
	if err := os.Remove(m.file(p)); err != nil {
		t.Fatal(err)
	}
}
