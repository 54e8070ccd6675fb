package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// What a checkpoint covers is served the moment that the checkpoint is.
func TestLOG12_TilesComeWithTheirCheckpoint(t *testing.T) {
	h := newHome(t)
	// With witnesses there is something to do between signing and telling.
	l := h.start(t, 1, newWitness(t, "witness.example/a", h.log))
	l.fill("first", 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			l.do("POST", "/v1/attempts", beginBody(fmt.Sprintf("more-%d", i), "1"))
		}
	}()
	seen := uint64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		n, err := trust.ParseNote(l.get("/log/checkpoint"))
		if err != nil {
			t.Fatal(err)
		}
		cp, err := trust.ParseCheckpoint(n.Text)
		if err != nil {
			t.Fatal(err)
		}
		if cp.Size == seen {
			continue
		}
		seen = cp.Size
		for _, p := range []tiles.Path{tiles.TilePath(0, 0, int(seen)), tiles.EntriesPath(0, int(seen))} {
			if code, body := l.raw("GET", "/log/"+p.String(), nil, ""); code != http.StatusOK {
				t.Fatalf("the checkpoint is of size %d, and GET /log/%s: %d %s", seen, p, code, body)
			}
		}
	}
}
