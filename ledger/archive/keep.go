package archive

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
	"counterfoil/ledger/excerpt"
	"counterfoil/ledger/vault"
)

// Archive is the archive in a vault. It implements [Store] and is safe for
// concurrent use.
type Archive struct{ v *vault.Vault }

var _ Store = (*Archive)(nil)

// New makes the archive of a vault that is open; it ends with the vault.
func New(v *vault.Vault) *Archive { return &Archive{v} }

// Put implements [Store].
func (a *Archive) Put(ctx context.Context, item Item, r io.Reader) (Entry, error) {
	doing := "keep " + clip(item.Role) + " of " + clip(item.Owner)
	ref, err := item.ref()
	if err != nil {
		return Entry{}, refused(doing, err)
	}
	var want *[32]byte
	if item.Digest != "" {
		d, err := parseDigest(item.Digest)
		if err != nil {
			return Entry{}, refused(doing, err)
		}
		want = &d
	}
	src := &source{ctx: ctx, r: r}
	ref, err = a.v.PutObject(ref, want, src, MaxBody)
	switch {
	case src.err != nil:
		return Entry{}, fmt.Errorf("%s: %w", doing, src.err)
	case errors.Is(err, vault.ErrDigest):
		return Entry{}, &Failure{Code: admission.ArchiveDigestMismatch, Doing: doing, Err: err}
	case err != nil:
		return Entry{}, fail(doing, err)
	}
	return entryOf(ref), nil
}

// Absent implements [Store].
func (a *Archive) Absent(_ context.Context, item Item, reason string) (Entry, error) {
	doing := "note the absence of " + clip(item.Role) + " in " + clip(item.Owner)
	ref, err := item.ref()
	if err == nil && !word(reason) {
		err = fmt.Errorf("reason %q is not lower_snake of 1 to 64 bytes", clip(reason))
	}
	if err != nil {
		return Entry{}, refused(doing, err)
	}
	ref.Reason = reason
	if ref, err = a.v.PutAbsent(ref); err != nil {
		return Entry{}, fail(doing, err)
	}
	return entryOf(ref), nil
}

// Open implements [Store].
func (a *Archive) Open(_ context.Context, digest string) (io.ReadCloser, error) {
	doing := "read " + clip(digest)
	d, err := parseDigest(digest)
	if err != nil {
		return nil, refused(doing, err)
	}
	r, err := a.v.OpenObject(d)
	if err != nil {
		return nil, lookup(doing, digest, err)
	}
	return body{r, digest}, nil
}

// List implements [Store]. The references of an owner that was erased are gone:
// *[Gone].
func (a *Archive) List(_ context.Context, owner string) ([]Entry, error) {
	refs, err := a.v.Refs(owner)
	switch {
	case errors.Is(err, vault.ErrNotFound):
		return nil, fmt.Errorf("evidence of %s: %w", clip(owner), ErrAbsent)
	case errors.Is(err, vault.ErrErased), errors.Is(err, vault.ErrRedacted):
		return nil, &Gone{Digest: "the evidence of " + clip(owner), State: Erased}
	case err != nil:
		return nil, fail("list the evidence of "+clip(owner), err)
	}
	out := make([]Entry, len(refs))
	for i, r := range refs {
		out[i] = entryOf(r)
	}
	return out, nil
}

// Sync implements [Store].
func (a *Archive) Sync(context.Context) error { return fail("make evidence durable", a.v.Sync()) }

// body words the errors of a reader.
type body struct {
	r      *vault.ObjectReader
	digest string
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = lookup("read "+b.digest, b.digest, err)
	}
	return n, err
}

func (body) Close() error { return nil }

// lookup words why there is no body.
func lookup(doing, digest string, err error) error {
	var gone *vault.GoneError
	switch {
	case errors.As(err, &gone):
		return &Gone{Digest: digest, State: stateOf(gone.State)}
	case errors.Is(err, vault.ErrNotFound):
		return fmt.Errorf("%s: %w", doing, ErrAbsent)
	}
	return fail(doing, err)
}

// source is a caller's reader. Its error is not the archive's.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// ref is an item as the vault has it.
func (i *Item) ref() (vault.Ref, error) {
	if _, ok := event.ShardOfAttempt(i.Owner); !ok {
		return vault.Ref{}, &codeError{admission.ArchivePermissionDenied, fmt.Sprintf("%q is no attempt id", clip(i.Owner))}
	}
	if !word(i.Role) {
		return vault.Ref{}, fmt.Errorf("role %q is not lower_snake of 1 to 64 bytes", clip(i.Role))
	}
	if err := i.Retention.check(i.Sensitive); err != nil {
		return vault.Ref{}, err
	}
	return vault.Ref{
		Owner: i.Owner, Role: i.Role, Class: i.Retention.Class, Kind: i.Retention.Kind,
		Stored: i.At.UnixMilli(), Until: i.Retention.until(i.At).UnixMilli(),
	}, nil
}

func entryOf(r vault.Ref) Entry {
	e := Entry{Owner: r.Owner, Role: r.Role, Size: r.Size, State: stateOf(r.State), Reason: r.Reason, Class: r.Class, Kind: r.Kind,
		StoredAt: time.UnixMilli(r.Stored).UTC(), KeptUntil: time.UnixMilli(r.Until).UTC()}
	if e.State != Absent {
		e.Digest = "sha256:" + hex.EncodeToString(r.Digest[:])
	}
	return e
}

// refOf names the reference of an entry.
func refOf(e Entry) (vault.Ref, error) {
	d, err := parseDigest(e.Digest)
	return vault.Ref{Owner: e.Owner, Role: e.Role, Digest: d, State: vault.ObjectKept}, err
}

var states = map[vault.ObjectState]State{
	vault.ObjectKept: Kept, vault.ObjectAbsent: Absent, vault.ObjectExpired: Expired, vault.ObjectErased: Erased, vault.ObjectCompacted: Compacted,
}

func stateOf(s vault.ObjectState) State { return states[s] }

func parseDigest(s string) (d [32]byte, err error) {
	if !admission.ValidDigest(s) {
		return d, &codeError{admission.ArchiveDigestEncoding, fmt.Sprintf("%q is not sha256: and 64 lower-case hex digits", clip(s))}
	}
	_, err = hex.Decode(d[:], []byte(strings.TrimPrefix(s, "sha256:")))
	return d, err
}

// word reports whether s is lower_snake of 1 to 64 bytes.
func word(s string) bool {
	ok := s != "" && len(s) <= 64 && s[0] >= 'a' && s[0] <= 'z'
	for i := range len(s) {
		c := s[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_')
	}
	return ok
}

// clip shortens what is quoted in a message.
func clip(s string) string { return excerpt.Cut(s, 96) }
