package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
)

// EvidenceArchive is the archive as the API needs it.
type EvidenceArchive interface {
	Open(ctx context.Context, digest string) (io.ReadCloser, error)
	Put(ctx context.Context, item archive.Item, r io.Reader) (archive.Entry, error)
	Sync(ctx context.Context) error
}

// CodeGone is the code of evidence that was kept and is not there any more.
const CodeGone = "evidence_gone"

// bodyBuffer is how much of a body is read before its answer begins, so that
// damage in it is an error document and not an answer that breaks off.
const bodyBuffer = 8 << 20

// archiveBody serves GET /v1/archive/{digest}: a body by the digest of its bytes.
func (s *Server) archiveBody(w http.ResponseWriter, r *http.Request) error {
	digest := r.PathValue("digest")
	if !admission.ValidDigest(digest) {
		return invalid("", "write it as sha256: and 64 lower-case hex digits", "not a digest of the archive")
	}
	body, err := s.cfg.Archive.Open(r.Context(), digest)
	if err != nil {
		return archiveError(err)
	}
	defer body.Close()
	var first bytes.Buffer
	_, err = io.CopyN(&first, body, bodyBuffer)
	if err != nil && !errors.Is(err, io.EOF) {
		return archiveError(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	if errors.Is(err, io.EOF) {
		h.Set("Content-Length", strconv.Itoa(first.Len()))
	}
	if _, err = first.WriteTo(w); err == nil {
		_, err = io.Copy(w, body)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the answer has begun: it must not look whole
	}
	return nil
}

// archiveError tells what is absent, what is gone, and trouble of the archive
// apart (ARC-05, ARC-11).
func archiveError(err error) error {
	var (
		gone    *archive.Gone
		failure *archive.Failure
	)
	switch {
	case errors.Is(err, archive.ErrAbsent):
		return &Error{Code: CodeNotFound, Reason: string(archive.Absent), Message: "no body of this digest was ever kept",
			Hint: "check the digest, and the ledger that it was kept on", status: http.StatusNotFound}
	case errors.As(err, &gone):
		return &Error{Code: CodeGone, Reason: string(gone.State), Message: "the body was kept and is not there any more",
			Hint: "it reads as unavailable, never as failed", status: http.StatusGone}
	case errors.As(err, &failure):
		return &Error{Code: CodeUnavailable, Reason: string(failure.Code), Message: "the archive failed; this says nothing about the evidence",
			Hint: "see the ledger's log and its doctor", status: http.StatusServiceUnavailable}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &Error{Code: CodeUnavailable, Reason: string(admission.ArchiveDigestMismatch), Message: "the body is damaged",
		Hint: "restore it from a backup", status: http.StatusServiceUnavailable}
}

// Recheck is the answer to POST /v1/rechecks.
type Recheck struct {
	SchemaVersion string `json:"schemaVersion"`
	Digest        string `json:"digest"`
	Owner         string `json:"owner"`
}

// RecheckSchema is the schemaVersion of a Recheck.
const RecheckSchema = "counterfoil.recheck-kept.v1"

// putRecheck serves POST /v1/rechecks: it keeps the record of a recheck under the
// attempt that set the contract, durably.
func (s *Server) putRecheck(w http.ResponseWriter, r *http.Request) error {
	b, err := body(w, r, admission.MaxRecordBytes)
	if err != nil {
		return err
	}
	if _, err := review.ParseRecheck(b); err != nil {
		return invalid("", "the members are in docs/spec/review.md", err.Error())
	}
	q := r.URL.Query()
	if err := checkAttemptID(q.Get("owner")); err != nil {
		return err
	}
	days, err := strconv.Atoi(q.Get("days"))
	if err != nil || days < 1 || days > archive.MaxDays {
		return invalid("", "use 1 to "+strconv.Itoa(archive.MaxDays), "days is out of range")
	}
	item := archive.Item{
		Owner: q.Get("owner"), Role: review.RoleRecheck, Sensitive: q.Get("sensitive") == "true", At: s.cfg.Now(),
		Retention: archive.Retention{Class: q.Get("class"), Kind: q.Get("kind"), Days: days},
	}
	if item.Retention.Class == "" || item.Retention.Kind != event.RetentionEvidence && item.Retention.Kind != event.RetentionTelemetry {
		return invalid("", "choose class, kind (security_evidence or discovery_telemetry) and days before storage", "no retention class")
	}
	entry, err := s.cfg.Archive.Put(r.Context(), item, bytes.NewReader(b))
	if err == nil {
		err = s.cfg.Archive.Sync(r.Context())
	}
	if err != nil {
		return archiveError(err)
	}
	writeJSON(w, http.StatusCreated, &Recheck{RecheckSchema, entry.Digest, entry.Owner})
	return nil
}
