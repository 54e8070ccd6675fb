package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/vault"
)

// ErrAbsent: no body of this digest was ever kept.
var ErrAbsent = errors.New("not in the archive")

// Gone: the body was kept, and is not there any more. It reads as unavailable.
type Gone struct {
	Digest string
	State  State // Expired, Erased or Compacted
}

func (e *Gone) Error() string {
	return fmt.Sprintf("%s is unavailable: %s", e.Digest, e.State)
}

// Failure is trouble of the archive. It says nothing about the evidence: it wakes
// the platform, not the publisher (ARC-04, ARC-05).
type Failure struct {
	// Code is one of gate archive, such as admission.ArchiveFull.
	Code Code
	// Doing says what was tried, with the digest or role.
	Doing string
	Err   error
}

func (e *Failure) Error() string { return fmt.Sprintf("%s: %s: %v", e.Doing, e.Code, e.Err) }
func (e *Failure) Unwrap() error { return e.Err }

// Route is who is to act on it: always the platform.
func (e *Failure) Route() admission.Route {
	info, _ := e.Code.Info()
	return info.Route
}

// codeError is a refusal with a code of its own.
type codeError struct {
	code Code
	text string
}

func (e *codeError) Error() string { return e.text }

// refused words what the archive does not take.
func refused(doing string, err error) error {
	code := admission.ArchiveWriteFailure
	var own *codeError
	if errors.As(err, &own) {
		code = own.code
	}
	return &Failure{Code: code, Doing: doing, Err: err}
}

// fail words trouble of the vault.
func fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return &Failure{Code: codeOf(err), Doing: doing, Err: err}
}

func codeOf(err error) Code {
	switch {
	case errors.Is(err, vault.ErrNoSpace), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return admission.ArchiveFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, vault.ErrErased), errors.Is(err, vault.ErrNotFound):
		return admission.ArchivePermissionDenied
	case errors.Is(err, vault.ErrClosed), errors.Is(err, vault.ErrFailed), errors.Is(err, vault.ErrUnavailable):
		return admission.ArchiveUnreachable
	case errors.Is(err, vault.ErrCorrupt):
		return admission.ArchiveDigestMismatch
	}
	return admission.ArchiveWriteFailure
}
