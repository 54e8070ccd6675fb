package query

import (
	"crypto/sha256"
	"encoding/base64"

	"counterfoil/projections/kv"
)

// Bounds of a page.
const (
	MaxLimit     = 256
	DefaultLimit = 64
	// MaxToken is the length of the longest token that is read.
	MaxToken = 1024
)

// Page asks for a part of a list.
type Page struct {
	Limit int // 1 to MaxLimit; 0 stands for DefaultLimit
	// Token goes on where an earlier page of the same list ended, "" starts. A
	// token is stateless: it works after a restart and after a rebuild. It is
	// bound to ledger, list, filter and order; with others it is refused.
	Token  string
	Newest bool // newest first
}

const tokenVersion = 1

var b64 = base64.RawURLEncoding.Strict()

// binding names what a token belongs to.
func binding(db *kv.DB, list string, newest bool, filter ...string) []byte {
	b := kv.AppendString(nil, "counterfoil.page.v1")
	for _, s := range append([]string{db.Origin(), db.Tenant(), list}, filter...) {
		b = kv.AppendString(b, s)
	}
	if newest {
		b = append(b, 1)
	}
	sum := sha256.Sum256(b)
	return sum[:16]
}

// token is the position of the last item of a page, with what it is bound to.
func token(bound, position []byte) string {
	b := append([]byte{tokenVersion}, bound...)
	return b64.EncodeToString(append(b, position...))
}

// open checks limit and token and returns the position after which the page
// starts, nil for the first.
func (p *Page) open(bound []byte) (position []byte, err error) {
	if p.Limit == 0 {
		p.Limit = DefaultLimit
	}
	if p.Limit < 1 || p.Limit > MaxLimit {
		return nil, &InvalidError{Field: "limit", Detail: "not within 1 to 256"}
	}
	if p.Token == "" {
		return nil, nil
	}
	refused := &InvalidError{Field: "pageToken", Detail: "not a token of this list", Hint: "send nextPageToken of the page before, as it is"}
	if len(p.Token) > MaxToken {
		return nil, refused
	}
	b, err := b64.DecodeString(p.Token)
	if err != nil || len(b) <= 1+len(bound) || b[0] != tokenVersion {
		return nil, refused
	}
	if string(b[1:1+len(bound)]) != string(bound) {
		return nil, &InvalidError{Field: "pageToken", Detail: "belongs to another filter, order or ledger", Hint: "keep all other parameters while paging"}
	}
	return b[1+len(bound):], nil
}

// openIndex is open for lists by leaf index. It returns the range of indices
// that is left.
func (p *Page) openIndex(bound []byte, size uint64) (from, to uint64, err error) {
	position, err := p.open(bound)
	if err != nil || position == nil {
		return 0, size, err
	}
	at, rest, ok := kv.CutUint64(position)
	if !ok || len(rest) != 0 || at == ^uint64(0) {
		return 0, 0, &InvalidError{Field: "pageToken", Detail: "not a token of this list"}
	}
	if p.Newest {
		return 0, min(at, size), nil
	}
	return min(at+1, size), size, nil
}
