package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"filippo.io/torchwood"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// leafHashes hashes the entries of a bundle, by the code of Tessera.
func leafHashes(bundle []byte) ([][]byte, error) {
	var b api.EntryBundle
	if err := b.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	var out [][]byte
	for _, e := range b.Entries {
		out = append(out, rfc6962.DefaultHasher.HashLeaf(e))
	}
	return out, nil
}

// sizes are where a tree of tiles has its edges: one leaf, nearly a tile, a full
// one, more, and a second level.
var sizes = []int{1, 255, 256, 257, 1023}

// TestLOG16_TesseraReadsOurLog: its fsck derives every tile again, its client
// follows the growing log and proves every leaf, all through HTTP.
func TestLOG16_TesseraReadsOurLog(t *testing.T) {
	l := startLedger(t, t.TempDir())
	ctx := contextOf(t)
	root, err := url.Parse(l.url + "/log/")
	if err != nil {
		t.Fatal(err)
	}
	f, err := client.NewHTTPFetcher(root, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(l.vkey)
	if err != nil {
		t.Fatal(err)
	}
	var tracker *client.LogStateTracker
	for _, size := range sizes {
		l.begin(t, size-l.begun)
		if err := fsck.New(l.origin, v, f, leafHashes, fsck.Opts{N: 8}).Check(ctx); err != nil {
			t.Fatalf("fsck at %d: %v", size, err)
		}
		if tracker == nil {
			raw, err := f.ReadCheckpoint(ctx)
			if err != nil {
				t.Fatal(err)
			}
			tracker, err = client.NewLogStateTracker(ctx, f.ReadTile, raw, v, l.origin, client.UnilateralConsensus(f.ReadCheckpoint))
			if err != nil {
				t.Fatal(err)
			}
		} else if _, _, _, err := tracker.Update(ctx); err != nil {
			t.Fatalf("update to %d: %v", size, err)
		}
		if got := tracker.Latest().Size; got != uint64(size) {
			t.Fatalf("tracker is at %d, want %d", got, size)
		}
		pb, err := client.NewProofBuilder(ctx, uint64(size), f.ReadTile)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		bundles := client.EntryBundles(ctx, 2, func(context.Context) (uint64, error) { return uint64(size), nil }, f.ReadEntryBundle, 0, uint64(size))
		for e, err := range client.Entries(bundles, leafHashes) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Index != uint64(n) {
				t.Fatalf("entry %d came as %d", n, e.Index)
			}
			p, err := pb.InclusionProof(ctx, e.Index)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkInclusion(tracker.Latest().Hash, uint64(size), e.Index, e.Entry, p); err != nil {
				t.Fatalf("leaf %d of %d: %v", e.Index, size, err)
			}
			n++
		}
		if n != size {
			t.Fatalf("%d entries, want %d", n, size)
		}
	}
}

func checkInclusion(root []byte, size, index uint64, leaf []byte, p [][]byte) error {
	proof := make(tlog.RecordProof, len(p))
	for i, h := range p {
		proof[i] = tlog.Hash(h)
	}
	return tlog.CheckRecord(proof, int64(size), tlog.Hash(root), int64(index), tlog.Hash(leaf))
}

// tileReader reads tiles of our log for x/mod, whose own paths are those of the
// checksum database: tile/<height>/<level>/… instead of tile/<level>/….
type tileReader struct {
	base  string
	reads atomic.Int64
}

func (r *tileReader) Height() int { return 8 }

func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, tile := range tiles {
		path, ok := strings.CutPrefix(tile.Path(), "tile/8/")
		if !ok {
			return nil, fmt.Errorf("tile path %s", tile.Path())
		}
		b, err := get(r.base + "/tile/" + strings.Replace(path, "data/", "entries/", 1))
		if err != nil {
			return nil, err
		}
		r.reads.Add(1)
		out = append(out, b)
	}
	return out, nil
}

func (r *tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

func get(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", url, resp.StatusCode, b)
	}
	return b, err
}

// openTree verifies our checkpoint with x/mod and torchwood.
func openTree(t testing.TB, l *ledger) tlog.Tree {
	t.Helper()
	v, err := note.NewVerifier(l.vkey)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(l.checkpoint(t)), note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	c, err := torchwood.ParseCheckpoint(n.Text)
	if err != nil {
		t.Fatal(err)
	}
	if c.Origin != l.origin || c.Extension != "" {
		t.Fatalf("checkpoint %+v", c)
	}
	return c.Tree
}

// TestLOG16_ModReadsOurTiles: the tlog package of x/mod authenticates our tiles,
// proves records and the growth between any two published sizes.
func TestLOG16_ModReadsOurTiles(t *testing.T) {
	l := startLedger(t, t.TempDir())
	r := &tileReader{base: l.url + "/log"}
	var trees []tlog.Tree
	for _, size := range sizes {
		l.begin(t, size-l.begun)
		tree := openTree(t, l)
		if tree.N != int64(size) {
			t.Fatalf("size %d, want %d", tree.N, size)
		}
		hashes := tlog.TileHashReader(tree, r)
		got, err := tlog.TreeHash(tree.N, hashes)
		if err != nil || got != tree.Hash {
			t.Fatalf("root at %d: %v, %v", size, got, err)
		}
		for i := int64(0); i < tree.N; i += 1 + tree.N/37 {
			p, err := tlog.ProveRecord(tree.N, i, hashes)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := leafOf(r.base, i, tree.N)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckRecord(p, tree.N, tree.Hash, i, tlog.RecordHash(leaf)); err != nil {
				t.Fatalf("leaf %d of %d: %v", i, size, err)
			}
		}
		for _, old := range trees {
			p, err := tlog.ProveTree(tree.N, old.N, hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(p, tree.N, tree.Hash, old.N, old.Hash); err != nil {
				t.Fatalf("%d to %d: %v", old.N, tree.N, err)
			}
		}
		trees = append(trees, tree)
	}
	if r.reads.Load() == 0 {
		t.Error("no tile was read")
	}
}

// leafOf cuts one entry out of its bundle, as tlog-tiles writes them: a length
// of two bytes before each.
func leafOf(base string, index, size int64) ([]byte, error) {
	tile := tlog.Tile{H: 8, L: -1, N: index / 256, W: int(min(256, size-index/256*256))}
	b, err := get(base + "/" + torchwood.TilePath(tile))
	if err != nil {
		return nil, err
	}
	for range index % 256 {
		if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
			return nil, errors.New("the bundle is too short")
		}
		b = b[2+int(binary.BigEndian.Uint16(b)):]
	}
	return b[2 : 2+int(binary.BigEndian.Uint16(b))], nil
}

// TestLOG16_TorchwoodTailsOurLog: torchwood's client follows the growing log by
// HTTP from where it stopped, through its permanent cache, and needs no tile
// twice that is full.
func TestLOG16_TorchwoodTailsOurLog(t *testing.T) {
	l := startLedger(t, t.TempDir())
	ctx := contextOf(t)
	var hits sync.Map
	fetcher, err := torchwood.NewTileFetcher(l.url+"/log/", torchwood.WithHTTPClient(&http.Client{Transport: counting{&hits}}))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := torchwood.NewPermanentCache(fetcher, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := torchwood.NewClient(cache)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, size := range append(sizes, 1300) {
		l.begin(t, size-l.begun)
		tree := openTree(t, l)
		for len(all) < size { // it leaves the partial bundle for later, once
			before := len(all)
			for i, entry := range c.Entries(ctx, tree, int64(len(all))) {
				if i != int64(len(all)) {
					t.Fatalf("entry %d came as %d", len(all), i)
				}
				all = append(all, bytes.Clone(entry))
			}
			if err := c.Err(); err != nil {
				t.Fatal(err)
			}
			if len(all) == before {
				t.Fatalf("stuck at %d of %d", before, size)
			}
		}
	}
	tree := openTree(t, l)
	for _, i := range []int64{0, 255, 256, 1299} {
		entry, proof, err := c.Entry(ctx, tree, i)
		if err != nil || !bytes.Equal(entry, all[i]) {
			t.Fatalf("entry %d: %v", i, err)
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, i, tlog.RecordHash(all[i])); err != nil {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	// What is full and cached is never asked for again.
	hits.Range(func(path, n any) bool {
		if !strings.Contains(path.(string), ".p/") && n.(*atomic.Int64).Load() > 1 {
			t.Errorf("%s was fetched %d times", path, n.(*atomic.Int64).Load())
		}
		return true
	})
	if _, ok := hits.Load("/log/tile/entries/003"); !ok {
		t.Error("the fourth bundle was never fetched")
	}
}

// counting counts requests by path.
type counting struct{ hits *sync.Map }

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	n, _ := c.hits.LoadOrStore(r.URL.Path, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	return http.DefaultTransport.RoundTrip(r)
}
