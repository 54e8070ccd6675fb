package api

import (
	"errors"
	"net/http"
	"strconv"

	"counterfoil/ledger/archive"
)

// reviewSummary serves GET /v1/reviews/{eventId}/vsa: a review for the tools of others.
func (s *Server) reviewSummary(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("eventId")
	row, size, err := s.find(r.Context(), id)
	if err != nil {
		return err
	}
	rec, _, err := s.cfg.Views.Load(r.Context(), row.Receipt, size)
	if err != nil {
		return viewError(err)
	}
	b, err := s.cfg.Ledger.ReviewSummary(r.Context(), id, rec.Event)
	if err != nil {
		return summaryError(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/vnd.dev.sigstore.bundle.v0.3+json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // a reader that went away misses it
	return nil
}

// summaryError words trouble of the archive by its own codes, all else as usual.
func summaryError(err error) error {
	var gone *archive.Gone
	if errors.As(err, &gone) || errors.Is(err, archive.ErrAbsent) {
		return archiveError(err)
	}
	return sealError(err)
}
