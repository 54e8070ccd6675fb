package review_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/testkit/reviewkit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/review"
	"counterfoil/ledger/vault"
)

// room is a real archive whose reads are counted, and can be made to fail.
type room struct {
	*archive.Archive
	t     testing.TB
	vault *vault.Vault

	mu     sync.Mutex
	opened map[string]int
	hide   map[string]error // by digest, of Open
	full   error            // of Put
	owners int
}

func newRoom(t testing.TB) *room {
	t.Helper()
	v, err := vault.Open(t.TempDir(), [32]byte{7}, vault.Options{MinFree: 1, Random: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return &room{Archive: archive.New(v), t: t, vault: v, opened: map[string]int{}, hide: map[string]error{}}
}

// owner is a new attempt that the vault knows.
func (r *room) owner() string {
	r.t.Helper()
	r.mu.Lock()
	r.owners++
	id := fmt.Sprintf("att_%032x", r.owners)
	r.mu.Unlock()
	if err := r.vault.Put(id, [32]byte{1, byte(r.owners), byte(r.owners >> 8)}); err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *room) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	r.mu.Lock()
	r.opened[digest]++
	err := r.hide[digest]
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return r.Archive.Open(ctx, digest)
}

func (r *room) Put(ctx context.Context, i archive.Item, b io.Reader) (archive.Entry, error) {
	r.mu.Lock()
	err := r.full
	r.mu.Unlock()
	if err != nil {
		return archive.Entry{}, err
	}
	return r.Archive.Put(ctx, i, b)
}

// reads counts how many of the digests were opened.
func (r *room) reads(digests ...string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range digests {
		if r.opened[d] > 0 {
			n++
		}
	}
	return n
}

// book is a recorder in memory: a review of a run and a contract once.
type book struct {
	mu      sync.Mutex
	reviews map[string]*review.Review // by attempt and source event id
	order   []*review.Review
	fail    error
	// after is called with every review that was taken, before its answer.
	after func(n int)
}

func (b *book) Reviewed(_ context.Context, run string) (map[string]review.Recorded, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]review.Recorded{}
	for _, r := range b.order {
		if r.Run.ID == run {
			out[r.Attempt] = review.Recorded{Event: eventOf(r), Disposition: r.Status}
		}
	}
	return out, nil
}

func (b *book) Append(ctx context.Context, r *review.Review) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	b.mu.Lock()
	if b.fail != nil {
		b.mu.Unlock()
		return "", b.fail
	}
	key := r.Attempt + " " + r.SourceEventID
	if was := b.reviews[key]; was != nil {
		b.mu.Unlock()
		return eventOf(was), review.ErrReviewed
	}
	if b.reviews == nil {
		b.reviews = map[string]*review.Review{}
	}
	b.reviews[key] = r
	b.order = append(b.order, r)
	n, after := len(b.order), b.after
	b.mu.Unlock()
	if after != nil {
		after(n)
	}
	return eventOf(r), nil
}

func eventOf(r *review.Review) string {
	return event.DigestOf([]byte(r.Attempt + r.SourceEventID)).EventID()
}

// judge is a judge of today that does not wait.
func (r *room) judge(p *policy.Policy, vs ...admission.Verifier) *review.Judge {
	return &review.Judge{Archive: r, Policy: p, Verifiers: vs, Keys: reviewkit.NewSigner(1).Keys, At: reviewkit.Now,
		Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

// contract makes a contract of an admission.
func (r *room) contract(name, impact string, a reviewkit.Admitted) review.Contract {
	return review.Contract{Name: name, Terms: event.ContractTerms{Impact: impact, Receipt: a.Receipt}, Attempt: r.owner(),
		Event: event.DigestOf([]byte(name)).EventID(), SetAt: reviewkit.Then}
}

// want judges a contract and demands disposition and reasons.
func want(t *testing.T, j *review.Judge, c review.Contract, disposition string, reasons ...string) *review.Verdict {
	t.Helper()
	v, err := j.Judge(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	if string(v.Disposition) != disposition || !slices.Equal(v.Reasons, reasons) {
		t.Fatalf("%s %v (%s %v), want %s %v", v.Disposition, v.Reasons, v.Recheck.State, v.Recheck.Causes, disposition, reasons)
	}
	return v
}

// sealed reads the receipt as it is in the archive.
func (r *room) sealed(t *testing.T, digest string) string {
	t.Helper()
	body, err := r.Archive.Open(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var errHidden = errors.New("hidden")
