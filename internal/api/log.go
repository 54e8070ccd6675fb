package api

import (
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"counterfoil/ledger/tiles"
)

// log serves GET /log/…: the checkpoint and the tiles, named and typed to the
// letter of tlog-tiles, and, beyond it, checkpoint.witnessed. Nothing else of the directory is reachable: a path is
// parsed into tile coordinates and written again before it touches the disk.
func (s *Server) log(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/log/")
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	if r.URL.RawPath != "" { // an escape where none is needed: caches would keep a second copy
		return notFound("not a resource of a tiled log: its path has escapes", "write the path without %")
	}
	if newest := name == "checkpoint"; newest || name == "checkpoint.witnessed" {
		read, missing, hint := s.cfg.Checkpoint, "no checkpoint has been published yet", "wait for the first one"
		if !newest {
			read, missing, hint = s.cfg.Witnessed, "no checkpoint meets a quorum of witnesses", "take the checkpoint without cosignatures"
		}
		cp, err := read()
		if err != nil {
			return err
		}
		if cp == nil {
			return notFound(missing, hint)
		}
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Length", strconv.Itoa(len(cp)))
		_, _ = w.Write(cp) // the client is gone if this fails
		return nil
	}
	p, err := tiles.ParsePath(name)
	if err != nil {
		return notFound("not a resource of a tiled log: "+err.Error(), "use checkpoint, tile/<L>/<N>[.p/<W>] or tile/entries/<N>[.p/<W>]")
	}
	size, _ := s.cfg.Ledger.Published()
	if !within(p, size) {
		return notFound("not part of the published tree", "fetch the checkpoint again")
	}
	// A checkpoint of another node may end where none of our batches did, so its
	// partial tiles are the beginnings of ours.
	b, got, err := tiles.Dir(s.cfg.LogDir).Read(r.Context(), p)
	if err == nil && got != p {
		b, err = tiles.Cut(got, b, p.Width)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return notFound("no such tile", "fetch the full tile if this one is partial")
	}
	if err != nil {
		return err
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Length", strconv.Itoa(len(b))) // for HEAD too
	_, _ = w.Write(b)                             // the client is gone if this fails
	return nil
}

// within reports whether all of a tile or bundle lies in a tree of that size.
func within(p tiles.Path, size uint64) bool {
	if p.Kind == tiles.Checkpoint || p.Level > 7 {
		return false
	}
	shift := uint(8 * p.Level)
	last := p.Index*tiles.Width + uint64(p.Width) // index < 2^56
	return last <= size>>shift
}
