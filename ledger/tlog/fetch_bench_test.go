package tlog

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"counterfoil/ledger/tiles"
)

// BenchmarkFetch compares an emptied log that takes 200,000 leaves of 700 bytes from a
// peer over HTTP with one that appends them.
func BenchmarkFetch(b *testing.B) {
	const size = 200_000
	master := newBench(b)
	leaves := make([][]byte, size)
	for i := range leaves {
		leaves[i] = append(leaf(uint64(i)), make([]byte, 550)...)
	}
	peer := master.other(b)
	peer.cfg.CheckLeaf = func(uint64, []byte) error { return nil }
	l := peer.open()
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.Append(context.Background(), leaves[l.Size():]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(size/b.Elapsed().Seconds(), "leaves/s")
	})
	signed := peer.note(checkpointText(origin, l.tree))
	src := tiles.Dir(peer.cfg.Dir)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := tiles.ParsePath(r.URL.Path[1:])
		if err != nil {
			http.NotFound(w, r)
			return
		}
		data, got, err := src.Read(r.Context(), p)
		if err != nil || got != p {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	defer server.Close()
	remote, err := tiles.HTTP(server.URL, tiles.HTTPConfig{})
	if err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 4, 8, 16} {
		b.Run("fetch by "+strconv.Itoa(workers), func(b *testing.B) {
			for b.Loop() {
				o := peer.other(b)
				l := o.open()
				cfg := from(remote)
				cfg.Workers = workers
				if n, err := l.Fetch(context.Background(), signed, cfg); err != nil || n != size {
					b.Fatal(n, err)
				}
				o.close(l)
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "leaves/s")
		})
	}
}
