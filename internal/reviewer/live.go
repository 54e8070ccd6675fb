package reviewer

import (
	"context"
	"net/url"
	"strings"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/review"
)

// Registry implements review.Live over the registry that an entry came from.
type Registry struct{ Fetch *fetch.Fetcher }

// liveLimit bounds one look at a registry: a note is not worth more.
const liveLimit = 10 * time.Second

// Notes implements [review.Live]. An entry from a local file has no registry.
func (r Registry) Notes(ctx context.Context, then *admission.RegistrySnapshot) ([]review.Note, error) {
	if !fetch.IsURL(then.Registry) || then.Entry == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, liveLimit)
	defer cancel()
	at := strings.TrimSuffix(then.Registry, "/") + "/v0.1/servers/" + url.PathEscape(then.ServerName) + "/versions/" + url.PathEscape(then.ServerVersion)
	b, _, err := r.Fetch.Bytes(ctx, fetch.Request{Locator: at, MaxBytes: admission.MaxEntryBytes, Accept: "application/json"})
	if err != nil {
		return nil, err
	}
	now := admission.ParseEntry(b)
	var notes []review.Note
	note := func(what, then, now string) {
		if then != now {
			notes = append(notes, review.Note{What: what, Then: then, Now: now})
		}
	}
	if now.Refused != nil {
		note("entry", "read", string(now.Refused.Code))
	}
	note("metadata", then.Canonical, now.Canonical)
	note("status", statusOf(then.Response), statusOf(now.Response))
	return notes, nil
}

func statusOf(r *admission.ResponseMeta) string {
	if r == nil {
		return ""
	}
	return r.Status
}
