package fetch

import (
	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// Bind makes the binding of a blob's bytes as the selected package. Resolvers add
// what they know besides.
func (b *Blob) Bind(s admission.Selection) *admission.ArtifactBinding {
	media := b.MediaType
	if len(media) > 255 || media != Clip(media) {
		media = ""
	}
	return &admission.ArtifactBinding{
		Schema: admission.BindingSchema, Kind: admission.KindBytes,
		PackageType: s.Package.RegistryType, Identifier: s.Package.Identifier, Version: s.Package.Version,
		Transport: s.Package.Transport.Type,
		Locator:   Redact(b.Locator), RetrievedAt: event.FormatTime(b.At),
		Bytes: &admission.BytesBinding{Digests: b.Digests, Size: b.Size, MediaType: media},
	}
}

// Unexpected compares a binding with the one that a selection expects, before
// anything else is done with it (ADM-26). It is nil if nothing is expected or all
// is as expected.
func Unexpected(s admission.Selection, a *admission.ArtifactBinding) *admission.Failure {
	e := s.Expected
	switch {
	case e == nil:
		return nil
	case e.Bytes != nil:
		return admission.Compare(e.Bytes.Digests, a)
	}
	return &admission.Failure{Code: admission.ArtifactDigestMismatch, Detail: Clip("expected a binding of kind " + string(e.Kind) + ", got one of bytes: " + a.SHA256())}
}

// Failed is the resolution that says why there is no artifact.
func Failed(code admission.Code, detail string, checks ...admission.Check) admission.Resolution {
	return admission.Resolution{Failure: &admission.Failure{Code: code, Detail: Clip(detail)}, Checks: checks}
}

// Unread is the resolution for an artifact that was not read; an error that is
// none of this package is handed back.
func Unread(err error, checks ...admission.Check) (admission.Resolution, error) {
	f, err := Failure(err)
	return admission.Resolution{Failure: f, Checks: checks}, err
}

// Compared is a check of two texts: absent if there is nothing to compare with.
func Compared(id, expected, got string, code admission.Code) admission.Check {
	c := admission.Check{ID: id, State: admission.CheckPass, Expected: Clip(expected), Got: Clip(got)}
	switch {
	case expected == "" || got == "":
		c.State = admission.CheckAbsent
	case expected != got:
		c.State, c.Code = admission.CheckFail, code
	}
	return c
}
