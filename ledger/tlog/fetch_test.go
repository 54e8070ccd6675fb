package tlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog/fetch"
)

// peerOf is a node whose log has size leaves, served from its files.
func peerOf(b *bench, size uint64) (*bench, tiles.Source) {
	b.t.Helper()
	p := b.other(b.t)
	l := p.open()
	p.add(l, size)
	p.close(l)
	return p, tiles.Dir(p.cfg.Dir)
}

func from(sources ...tiles.Source) fetch.Config {
	cfg := fetch.Config{}
	for i, s := range sources {
		cfg.Peers = append(cfg.Peers, fetch.Peer{Name: fmt.Sprint("peer ", i+1), Source: s})
	}
	return cfg
}

// fetch takes the tree of that size and checks all that is on the disk.
func (b *bench) fetch(l *Log, size uint64, cfg fetch.Config) {
	b.t.Helper()
	had := l.Size()
	added, err := l.Fetch(context.Background(), b.noteAt(size), cfg)
	if err != nil || added != size-had {
		b.t.Fatalf("Fetch from %d to %d: added %d, %v", had, size, added, err)
	}
	b.has(l, size)
}

func (b *bench) has(l *Log, size uint64) {
	b.t.Helper()
	if l.Size() != size || l.PublishedSize() != size || b.guardSize() != size {
		b.t.Fatalf("size %d, published %d, guard %d; expected %d", l.Size(), l.PublishedSize(), b.guardSize(), size)
	}
	if ok, err := l.Contains(context.Background(), size, [32]byte(rootAt(size))); err != nil || !ok {
		b.t.Fatalf("Contains: %v, %v", ok, err)
	}
	b.fsck()
}

// CLU-11: an emptied log, and one that is a beginning, become the signed tree, and go
// on as any other log does. Tessera's own check passes.
func TestCLU11_FetchesWhatItLacks(t *testing.T) {
	b := newBench(t)
	const size = 70_000 // two tiles of level 1
	p, src := peerOf(b, size)
	for _, had := range []uint64{0, 1, 255, 256, 257, 1000, 65_535, 65_536, 65_537, size - 1} {
		t.Run(fmt.Sprint(had), func(t *testing.T) {
			b := p.other(t)
			l := b.open()
			if had > 0 {
				b.add(l, had)
			}
			b.fetch(l, size, from(src))
			b.add(l, 300)
			b.adopt(l, b.noteAt(size+300), size+300)
			b.close(l)
			b.fsck()
			b.close(b.open())
		})
	}
}

// CLU-11: for all pairs of sizes the files are those of a log that appended the same
// leaves, as far as its newest tree goes.
func TestCLU11_FetchIsTheSameAsAppending(t *testing.T) {
	b := newBench(t)
	const most = 1500
	_, src := peerOf(b, most)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Uint64Range(0, most).Draw(rt, "size")
		had := rapid.Uint64Range(0, size).Draw(rt, "had")
		b := b.other(t)
		defer os.RemoveAll(b.dir)
		l := b.open()
		defer b.close(l)
		if had > 0 {
			b.add(l, had)
		}
		b.fetch(l, size, from(src))
		// What more leaves are appended to it is what everybody has.
		b.add(l, 1+rapid.Uint64Range(0, 300).Draw(rt, "more"))
		if root := rootAt(l.Size()); !bytes.Equal(root, l.tree.root[:]) {
			rt.Fatalf("root %x after more leaves, expected %x", l.tree.root, root)
		}
	})
}

// CLU-11: it stops with both digests where a leaf differs, and changes nothing.
func TestCLU11_AnotherLeafStops(t *testing.T) {
	b := newBench(t)
	_, src := peerOf(b, 2000)
	for _, at := range []uint64{0, 255, 256, 700, 999} {
		o := b.other(t)
		l := o.open()
		leaves := leavesFrom(0, 1000)
		leaves[at] = []byte("another leaf")
		if _, err := l.Append(context.Background(), leaves); err != nil {
			t.Fatal(err)
		}
		before := o.files()
		_, err := l.Fetch(context.Background(), o.noteAt(2000), from(src))
		var differ *fetch.DifferError
		if !errors.Is(err, ErrDisagrees) || !errors.As(err, &differ) {
			t.Fatalf("another leaf %d: %v", at, err)
		}
		if differ.Index != at || differ.Own != tiles.LeafHashOf(leaves[at]) || differ.Signed != tiles.LeafHashOf(leaf(at)) {
			t.Errorf("another leaf %d: %v", at, err)
		}
		if !errors.Is(l.Err(), ErrDisagrees) {
			t.Errorf("the log goes on: %v", l.Err())
		}
		o.close(l)
		for name, data := range o.files() {
			if before[name] != data {
				t.Errorf("%s was changed", name)
			}
		}
	}
}

// A checkpoint of the own tree, or of a smaller one, brings nothing and is compared.
func TestCLU11_NothingToFetch(t *testing.T) {
	b := newBench(t).other(t)
	l := b.open()
	b.add(l, 500)
	for _, size := range []uint64{500, 300, 0} {
		added, err := l.Fetch(context.Background(), b.noteAt(size), fetch.Config{})
		if added != 0 || err != nil || l.PublishedSize() != 500 {
			t.Errorf("size %d: added %d, published %d, %v", size, added, l.PublishedSize(), err)
		}
	}
	if _, err := l.Fetch(context.Background(), b.note(checkpointText(origin, tree{size: 400, root: tiles.Hash{1}})), fetch.Config{}); !errors.Is(err, ErrDisagrees) {
		t.Errorf("another history: %v", err)
	}
}

// A checkpoint that the log's key did not sign is none, whatever the tiles are.
func TestCLU11_OnlySignedTrees(t *testing.T) {
	b := newBench(t)
	_, src := peerOf(b, 300)
	stranger := newBench(t)
	o := b.other(t)
	l := o.open()
	for name, note := range map[string][]byte{
		"another key":    stranger.noteAt(300),
		"another origin": b.note(checkpointText("log.test/two", treeAt(300))),
		"an extension":   b.note(checkpointText(origin, treeAt(300)) + "more\n"),
		"nothing":        nil,
	} {
		if _, err := l.Fetch(context.Background(), note, from(src)); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l.Size() != 0 || l.Err() != nil {
		t.Errorf("size %d, %v", l.Size(), l.Err())
	}
}

// lying is a source that changes some answers.
type lying struct {
	tiles.Source
	lie func(p tiles.Path, data []byte) ([]byte, error)
}

func (s lying) Read(ctx context.Context, p tiles.Path) ([]byte, tiles.Path, error) {
	data, got, err := s.Source.Read(ctx, p)
	if err != nil {
		return nil, got, err
	}
	data, err = s.lie(got, bytes.Clone(data))
	return data, got, err
}

// CLU-11: wrong bytes of a peer are named, never kept, and another peer is asked.
func TestCLU11_WrongBytesOfAPeer(t *testing.T) {
	b := newBench(t)
	const size = 66_000
	p, src := peerOf(b, size)
	right := p.files()
	flip := func(data []byte, at int) []byte { data[at] ^= 1; return data }
	for name, lie := range map[string]func(p tiles.Path, data []byte) []byte{
		"a leaf": func(p tiles.Path, data []byte) []byte {
			if p == tiles.EntriesPath(100, 256) {
				return flip(data, 5)
			}
			return data
		},
		"a leaf of the last bundle": func(p tiles.Path, data []byte) []byte {
			if p.Kind == tiles.Entries && !p.Full() {
				return flip(data, len(data)-1)
			}
			return data
		},
		"a truncated bundle": func(p tiles.Path, data []byte) []byte {
			if p == tiles.EntriesPath(7, 256) {
				return data[:len(data)-1]
			}
			return data
		},
		"a longer bundle": func(p tiles.Path, data []byte) []byte {
			if p == tiles.EntriesPath(7, 256) {
				return append(data, 0, 0)
			}
			return data
		},
		"an empty bundle": func(p tiles.Path, data []byte) []byte {
			if p.Kind == tiles.Entries {
				return nil
			}
			return data
		},
		"a hash of level 1": func(p tiles.Path, data []byte) []byte {
			if p == tiles.TilePath(1, 0, 256) {
				return flip(data, 40)
			}
			return data
		},
		"a truncated tile": func(p tiles.Path, data []byte) []byte {
			if p.Kind == tiles.Tile {
				return data[:len(data)/2]
			}
			return data
		},
		"the edge": func(p tiles.Path, data []byte) []byte {
			if p.Kind == tiles.Tile && !p.Full() {
				return flip(data, 0)
			}
			return data
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := p.other(t)
			l := o.open()
			liar := lying{src, func(p tiles.Path, data []byte) ([]byte, error) { return lie(p, data), nil }}
			_, err := l.Fetch(context.Background(), o.noteAt(size), from(liar))
			if !errors.Is(err, fetch.ErrNoPeer) || l.Size() != 0 || l.Err() != nil {
				t.Fatalf("from the liar alone: size %d, %v, %v", l.Size(), err, l.Err())
			}
			for name, data := range o.files() { // nothing of it is kept
				if strings.HasPrefix(name, "log/tile/") && right[name] != data {
					t.Errorf("%s has %d bytes that are not the log's", name, len(data))
				}
			}
			o.fetch(l, size, from(liar, src))
		})
	}
}

// CLU-11: a peer that ends in the middle, or answers with what is absurdly long,
// leaves the log as it was; the next peer goes on.
func TestCLU11_PeerEnds(t *testing.T) {
	b := newBench(t)
	const size = 10_000
	_, src := peerOf(b, size)
	var mu sync.Mutex
	left := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		left--
		ends := left < 0
		mu.Unlock()
		p, err := tiles.ParsePath(r.URL.Path[1:])
		if err != nil {
			http.NotFound(w, r)
			return
		}
		data, got, err := src.Read(r.Context(), p)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if data, err = tiles.Cut(got, data, p.Width); err != nil {
			t.Error(err)
		}
		if ends {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			data = data[:len(data)/2]
		}
		_, _ = w.Write(data)
	}))
	defer server.Close()
	remote, err := tiles.HTTP(server.URL, tiles.HTTPConfig{Attempts: 2, Pause: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	o := b.other(t)
	l := o.open()
	for _, n := range []int{0, 1, 3, 6, 10} {
		mu.Lock()
		left = n
		mu.Unlock()
		if _, err := l.Fetch(context.Background(), o.noteAt(size), from(remote)); !errors.Is(err, fetch.ErrNoPeer) || l.Size() != 0 {
			t.Fatalf("a peer that ends after %d answers: size %d, %v", n, l.Size(), err)
		}
	}
	mu.Lock()
	left = 1 << 30
	mu.Unlock()
	o.fetch(l, size, from(remote))

	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	defer huge.Close()
	remote, err = tiles.HTTP(huge.URL, tiles.HTTPConfig{Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	o = b.other(t)
	l = o.open()
	if _, err := l.Fetch(context.Background(), o.noteAt(size), from(remote)); !errors.Is(err, fetch.ErrNoPeer) || l.Size() != 0 {
		t.Fatalf("absurdly long answers: size %d, %v", l.Size(), err)
	}
	o.fetch(l, size, from(remote, src))
}

// CLU-11: it may end at each of its writes: what is there is the log of before or the
// whole tree, it opens, and the next run completes it without asking for what it has.
func TestCLU11_KilledAtEveryWrite(t *testing.T) {
	b := newBench(t)
	const had, size = 300, 1100
	_, src := peerOf(b, size)
	for n, done := 0, false; !done; n++ {
		o := b.other(t)
		l := o.open()
		o.add(l, had)
		o.close(l)

		writes, killed := 0, errors.New("killed")
		var mu sync.Mutex
		dies := func() error {
			mu.Lock()
			defer mu.Unlock()
			if writes++; writes > n {
				return killed
			}
			return nil
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		write := func(path string, data []byte, perm fs.FileMode) error {
			if err := dies(); err != nil {
				cancel(err)
				return err
			}
			return durable.WriteFile(path, data, perm)
		}
		l = o.open()
		l.cfg.files = &files{write: write, create: durable.Create}
		l.guard.files = l.cfg.files
		cfg := from(src)
		cfg.Write, cfg.Workers = write, 1
		_, err := l.Fetch(ctx, o.noteAt(size), cfg)
		cancel(nil)
		if done = err == nil; !done && !errors.Is(err, killed) {
			t.Fatalf("killed at write %d: %v", n, err)
		}
		o.close(l)

		l = o.open() // all checks of a start
		if l.Size() != had && l.Size() != size {
			t.Fatalf("killed at write %d: size %d", n, l.Size())
		}
		if l.PublishedSize() > l.Size() {
			t.Fatalf("killed at write %d: size %d, published %d", n, l.Size(), l.PublishedSize())
		}
		asked := 0
		again := from(lying{src, func(p tiles.Path, data []byte) ([]byte, error) {
			if p.Kind == tiles.Entries {
				asked++
			}
			return data, nil
		}})
		again.Workers = 1
		o.fetch(l, size, again)
		if most := (size-had)/tiles.Width + 2; asked > most || n > 2*most && asked > 0 {
			t.Errorf("killed at write %d: %d bundles are fetched again", n, asked)
		}
		o.close(l)
		_ = os.RemoveAll(o.dir)
	}
}

// What a kill left half written is written anew.
func TestCLU11_TornFiles(t *testing.T) {
	b := newBench(t)
	const size = 1100
	p, src := peerOf(b, size)
	o := b.other(t)
	l := o.open()
	for _, name := range []string{"tile/entries/001", "tile/0/001", "tile/entries/004.p/76", "tile/1/000.p/4"} {
		data := p.read("log", name)
		for _, torn := range [][]byte{nil, data[:len(data)/2], append(bytes.Clone(data), 1)} {
			if err := os.MkdirAll(filepath.Dir(o.path("log", name)), 0o755); err != nil {
				t.Fatal(err)
			}
			o.write(torn, "log", name)
		}
	}
	o.fetch(l, size, from(src))
}
