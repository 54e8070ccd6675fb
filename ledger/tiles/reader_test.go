package tiles

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"pgregory.net/rapid"
)

// check compares everything that can be asked about one leaf and two sizes
// with the reference tree.
func check(t require, m *model, r *Reader, index, older, size uint64) {
	t.Helper()
	ctx := context.Background()
	root, err := r.Root(ctx, size)
	if err != nil {
		t.Fatalf("Root(%d): %v", size, err)
	}
	if !bytes.Equal(root[:], m.tree.HashAt(size)) {
		t.Fatalf("Root(%d) = %x, expected %x", size, root, m.tree.HashAt(size))
	}
	cons, err := r.Consistency(ctx, older, size)
	if err != nil {
		t.Fatalf("Consistency(%d, %d): %v", older, size, err)
	}
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, older, size, cons, m.tree.HashAt(older), root[:]); err != nil {
		t.Fatalf("Consistency(%d, %d): %v", older, size, err)
	}
	if index >= size {
		return
	}
	incl, err := r.Inclusion(ctx, index, size)
	if err != nil {
		t.Fatalf("Inclusion(%d, %d): %v", index, size, err)
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, m.tree.LeafHash(index), incl, root[:]); err != nil {
		t.Fatalf("Inclusion(%d, %d): %v", index, size, err)
	}
	leaf, err := r.Leaf(ctx, index, size)
	if err != nil {
		t.Fatalf("Leaf(%d, %d): %v", index, size, err)
	}
	if leaf.Index != index || !bytes.Equal(leaf.Data, m.leaves[index]) || !bytes.Equal(leaf.Hash[:], m.tree.LeafHash(index)) {
		t.Fatalf("Leaf(%d, %d) = %+v", index, size, leaf)
	}
	if h, err := r.LeafHash(ctx, index, size); err != nil || h != leaf.Hash {
		t.Fatalf("LeafHash(%d, %d) = %x, %v", index, size, h, err)
	}
}

type require interface {
	Helper()
	Fatalf(format string, args ...any)
}

// interesting are the sizes where a tile starts, ends or gets a parent.
var interesting = []uint64{1, 2, 3, 255, 256, 257, 511, 512, 513, 65535, 65536, 65537, 65793, 66000}

func TestLOG02_ProofsMatchReferenceTreeAtBoundaries(t *testing.T) {
	m := newModel(t, interesting...)
	r := NewReader(Dir(m.dir), Options{})
	for _, size := range interesting {
		for _, older := range append([]uint64{0}, interesting...) {
			if older > size {
				break
			}
			for _, index := range []uint64{0, 1, older - 1, older, size / 2, size - 2, size - 1} {
				check(t, m, r, index, older, size)
			}
		}
	}
}

func TestLOG02_ProofsMatchReferenceTreeAtRandomSizes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Uint64Range(1, 400), 1, 6).Draw(rt, "batches")
		sizes := make([]uint64, len(steps))
		var size uint64
		for i, s := range steps {
			size += s
			sizes[i] = size
		}
		m := newModel(t, sizes...)
		// A cache of about three tiles, so that dropping is exercised too.
		r := NewReader(Dir(m.dir), Options{TileBytes: 50_000, BundleBytes: 10_000})
		for range 20 {
			size := rapid.SampledFrom(sizes).Draw(rt, "size")
			check(rt, m, r, rapid.Uint64Range(0, size-1).Draw(rt, "index"), rapid.Uint64Range(0, size).Draw(rt, "older"), size)
		}
	})
}

func TestLOG02_LeavesAreReadInOrder(t *testing.T) {
	m := newModel(t, 5, 300, 900)
	src := &countingSource{Source: Dir(m.dir)}
	for _, span := range [][2]uint64{{0, 900}, {0, 0}, {900, 900}, {1, 2}, {255, 257}, {256, 512}, {299, 300}, {300, 900}, {899, 900}} {
		r := NewReader(src, Options{})
		src.bundles.Store(0)
		want := span[0]
		for leaf, err := range r.Leaves(context.Background(), span[0], span[1], 900) {
			if err != nil {
				t.Fatal(err)
			}
			if leaf.Index != want || !bytes.Equal(leaf.Data, m.leaves[want]) {
				t.Fatalf("leaf %d of %v: got index %d, %q", want, span, leaf.Index, leaf.Data)
			}
			want++
		}
		if want != span[1] {
			t.Errorf("Leaves(%v) ended at %d", span, want)
		}
		if n := src.bundles.Load(); n > int64(span[1]-span[0])/Width+2 {
			t.Errorf("Leaves(%v) read %d bundles", span, n)
		}
	}
}

func TestLeavesStopsWhenAsked(t *testing.T) {
	m := newModel(t, 600)
	n := 0
	for range NewReader(Dir(m.dir), Options{}).Leaves(context.Background(), 0, 600, 600) {
		if n++; n == 300 {
			break
		}
	}
	if n != 300 {
		t.Errorf("got %d leaves, expected to stop at 300", n)
	}
}

func TestRefusesWhatIsOutsideTheTree(t *testing.T) {
	m := newModel(t, 300)
	r := NewReader(Dir(m.dir), Options{})
	ctx := context.Background()
	errs := map[string]error{}
	_, errs["Leaf"] = r.Leaf(ctx, 300, 300)
	_, errs["LeafHash"] = r.LeafHash(ctx, 300, 300)
	_, errs["Inclusion"] = r.Inclusion(ctx, 300, 300)
	_, errs["Inclusion in nothing"] = r.Inclusion(ctx, 0, 0)
	_, errs["Consistency"] = r.Consistency(ctx, 301, 300)
	for _, err := range r.Leaves(ctx, 0, 301, 300) {
		errs["Leaves"] = err
	}
	for name, err := range errs {
		var out *RangeError
		if !errors.As(err, &out) {
			t.Errorf("%s: got %v, expected a RangeError", name, err)
		}
	}
	// A size that the stored log has not reached is a missing file, not a proof.
	if _, err := r.Root(ctx, 1000); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Root beyond the stored tiles: got %v, expected fs.ErrNotExist", err)
	}
	if root, err := r.Root(ctx, 0); err != nil || !bytes.Equal(root[:], rfc6962.DefaultHasher.EmptyRoot()) {
		t.Errorf("Root(0) = %x, %v", root, err)
	}
}

// A log removes partial tiles once the full one is there, and a restored copy
// may hold only a wider partial one.
func TestFallsBackToWiderTiles(t *testing.T) {
	m := newModel(t, 5, 9, 200, 256, 300)
	for _, gone := range [][]int{{5}, {5, 9}, {5, 9, 200}} {
		for _, w := range gone[len(gone)-1:] {
			m.remove(t, TilePath(0, 0, w))
			m.remove(t, EntriesPath(0, w))
		}
		r := NewReader(Dir(m.dir), Options{})
		for index := range uint64(5) {
			check(t, m, r, index, 3, 5)
		}
	}
	m.remove(t, TilePath(0, 0, 256))
	m.remove(t, EntriesPath(0, 256))
	if _, err := NewReader(Dir(m.dir), Options{}).Leaf(context.Background(), 0, 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, expected fs.ErrNotExist", err)
	}
}

// What a wider file holds beyond the size asked about may still change, so it
// must not be remembered.
func TestWiderTilesAreNotRemembered(t *testing.T) {
	ctx := context.Background()
	m := newModel(t, 5, 256)
	m.remove(t, TilePath(0, 0, 5))
	m.remove(t, EntriesPath(0, 5))
	old := [2][]byte{m.read(t, TilePath(0, 0, 256)), m.read(t, EntriesPath(0, 256))}

	// Another tail, not committed yet, is stored behind the five leaves.
	tile, entries := bytes.Clone(old[0]), bytes.Clone(old[1])
	tile[255*HashSize]++
	entries[len(entries)-1]++
	m.write(t, TilePath(0, 0, 256), tile)
	m.write(t, EntriesPath(0, 256), entries)
	r := NewReader(Dir(m.dir), Options{})
	for index := range uint64(5) {
		check(t, m, r, index, 0, 5)
	}

	// Then the log grows to 256 with the real one.
	m.write(t, TilePath(0, 0, 256), old[0])
	m.write(t, EntriesPath(0, 256), old[1])
	check(t, m, r, 255, 5, 256)
	if _, err := r.Leaf(ctx, 255, 256); err != nil {
		t.Error(err)
	}
}

func TestDamageIsNamed(t *testing.T) {
	ctx := context.Background()
	part, full := EntriesPath(1, 44), TilePath(0, 1, 44)
	for name, c := range map[string]struct {
		path   Path
		damage func([]byte) []byte
		want   string // in the error, beside the path
	}{
		"tile cut in a hash":      {full, func(b []byte) []byte { return b[:len(b)-1] }, "it has 1407 bytes, expected 1408"},
		"tile cut at a hash":      {full, func(b []byte) []byte { return b[:len(b)-32] }, "it has 1376 bytes, expected 1408"},
		"tile empty":              {full, func(b []byte) []byte { return nil }, "it has 0 bytes"},
		"tile with more":          {full, func(b []byte) []byte { return append(b, b[:32]...) }, "it has 1440 bytes"},
		"tile absurdly long":      {full, func(b []byte) []byte { return make([]byte, 9000) }, "expected at most 8192"},
		"tile with another bit":   {full, func(b []byte) []byte { b[0] ^= 1; return b }, "leaf 256 hashes to"},
		"bundle cut in a leaf":    {part, func(b []byte) []byte { return b[:len(b)-1] }, "entry 43 of 44 (leaf 299)"},
		"bundle one leaf short":   {part, func(b []byte) []byte { return b[:len(b)-2-len(leafData(299))] }, "entry 43 of 44 (leaf 299): the file ends with 0 bytes"},
		"bundle empty":            {part, func(b []byte) []byte { return nil }, "entry 0 of 44 (leaf 256)"},
		"bundle with more":        {part, func(b []byte) []byte { return append(b, 0) }, "1 bytes follow its last entry"},
		"bundle with a leaf more": {part, func(b []byte) []byte { return append(b, 0, 0) }, "2 bytes follow its last entry"},
		"leaf with another bit":   {part, func(b []byte) []byte { b[2] ^= 1; return b }, "leaf 256 hashes to"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, 300)
			m.write(t, c.path, c.damage(m.read(t, c.path)))
			r := NewReader(Dir(m.dir), Options{})
			_, one := r.Leaf(ctx, 256, 300)
			var many error
			for _, many = range r.Leaves(ctx, 256, 300, 300) {
			}
			for _, err := range []error{one, many} {
				var damage *DamageError
				if !errors.As(err, &damage) {
					t.Fatalf("got %v, expected a DamageError", err)
				}
				if text := err.Error(); !bytes.Contains([]byte(text), []byte(c.want)) {
					t.Errorf("got %q, expected it to say %q", text, c.want)
				}
			}
			if _, err := r.Leaf(ctx, 3, 300); err != nil {
				t.Errorf("a leaf of a sound tile: %v", err)
			}
		})
	}
}

func TestReaderInParallel(t *testing.T) {
	m := newModel(t, interesting[:9]...)
	r := NewReader(Dir(m.dir), Options{TileBytes: 60_000, BundleBytes: 20_000})
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for range 300 {
				size := interesting[rnd.IntN(9)]
				check(failed{t}, m, r, rnd.Uint64N(size), rnd.Uint64N(size+1), size)
			}
		})
	}
	wg.Wait()
}

func TestCachedProofsReadNothing(t *testing.T) {
	m := newModel(t, 300, 600)
	src := &countingSource{Source: Dir(m.dir)}
	r := NewReader(src, Options{})
	all := func() {
		for index := range uint64(600) {
			if _, err := r.Inclusion(context.Background(), index, 600); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Leaf(context.Background(), index, 600); err != nil {
				t.Fatal(err)
			}
		}
	}
	all()
	first := src.all.Load()
	all()
	if n := src.all.Load(); n != first {
		t.Errorf("the second pass read %d files, expected none", n-first)
	}
	if got, want := first, int64(3+1+3); got != want { // tiles of level 0 and 1, bundles
		t.Errorf("the first pass read %d files, expected %d", got, want)
	}
	if d := cmp.Diff(true, r.tiles.size > 0 && r.tiles.size <= r.tiles.most); d != "" {
		t.Error(d)
	}
}

func TestCacheStaysWithinItsBound(t *testing.T) {
	m := newModel(t, 20_000)
	r := NewReader(Dir(m.dir), Options{TileBytes: 100_000, BundleBytes: 30_000})
	for index := uint64(0); index < 20_000; index += 100 {
		check(t, m, r, index, 0, 20_000)
		if r.tiles.size > 100_000 || r.bundles.size > 30_000 {
			t.Fatalf("the caches hold %d and %d bytes", r.tiles.size, r.bundles.size)
		}
	}
	var held int
	for _, tile := range r.tiles.lru.Values() {
		held += tile.bytes()
	}
	if held != r.tiles.size || held == 0 {
		t.Errorf("the cache counts %d bytes and holds %d", r.tiles.size, held)
	}
}

func TestSourceMustAnswerTheQuestion(t *testing.T) {
	m := newModel(t, 300)
	for name, answer := range map[string]Path{
		"narrower": TilePath(0, 1, 43), "other index": TilePath(0, 0, 256), "other kind": EntriesPath(1, 44), "too wide": TilePath(0, 1, 257),
	} {
		if _, err := NewReader(lyingSource{Dir(m.dir), answer}, Options{}).LeafHash(context.Background(), 299, 300); err == nil {
			t.Errorf("%s: expected an error", name)
		}
	}
}

func TestReadsHonourTheContext(t *testing.T) {
	m := newModel(t, 10)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := NewReader(Dir(m.dir), Options{}).Root(ctx, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, expected context.Canceled", err)
	}
}

func BenchmarkInclusionCached(b *testing.B) {
	m := newModel(b, 70_000)
	r := NewReader(Dir(m.dir), Options{})
	rnd := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		if _, err := r.Inclusion(context.Background(), rnd.Uint64N(70_000), 70_000); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLeaves(b *testing.B) {
	m := newModel(b, 25_600)
	r := NewReader(Dir(m.dir), Options{})
	for b.Loop() {
		for _, err := range r.Leaves(context.Background(), 0, 25_600, 25_600) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*25_600/b.Elapsed().Seconds(), "leaves/s")
}

// failed lets check be used away from the test's goroutine.
type failed struct{ *testing.T }

func (f failed) Fatalf(format string, args ...any) { f.Helper(); f.Errorf(format, args...) }

type countingSource struct {
	Source
	all, bundles atomic.Int64
}

func (c *countingSource) Read(ctx context.Context, p Path) ([]byte, Path, error) {
	c.all.Add(1)
	if p.Kind == Entries {
		c.bundles.Add(1)
	}
	return c.Source.Read(ctx, p)
}

type lyingSource struct {
	Source
	answer Path
}

func (l lyingSource) Read(ctx context.Context, p Path) ([]byte, Path, error) {
	data, _, err := l.Source.Read(ctx, p)
	return data, l.answer, err
}
