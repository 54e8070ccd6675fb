package admit_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/admit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
)

var errBroken = errors.New("nothing was found out")

// broken is a resolver, or a verifier, that finds nothing out for a while.
type broken struct {
	admission.Resolver
	admission.Verifier
	times, asked int
}

func (b *broken) fails() bool {
	b.asked++
	b.times--
	return b.times >= 0
}

func (b *broken) PackageType() string { return b.Resolver.PackageType() }

func (b *broken) Resolve(ctx context.Context, s admission.Selection) (admission.Resolution, error) {
	if b.fails() {
		return admission.Resolution{}, errBroken
	}
	return b.Resolver.Resolve(ctx, s)
}

func (b *broken) Verify(ctx context.Context, e admission.Evidence, a *admission.ArtifactBinding) ([]admission.Finding, error) {
	if b.fails() {
		return nil, errBroken
	}
	return b.Verifier.Verify(ctx, e, a)
}

// TestADM31_VerificationRepeatsItsOwnQueries: a resolver and a verifier are asked three
// times, each by its own right; after that nothing was judged, and what began is named.
func TestADM31_VerificationRepeatsItsOwnQueries(t *testing.T) {
	r := newRoom(t)
	for _, c := range []struct{ resolver, verifier, asked, asked2, pauses int }{{0, 0, 1, 1, 0}, {2, 2, 3, 3, 4}, {3, 0, 3, 0, 2}, {0, 3, 1, 3, 2}} {
		stack, err := admit.NewStack(material(t, publicGood))
		if err != nil {
			t.Fatal(err)
		}
		n := slices.IndexFunc(stack.Resolvers, func(v admission.Resolver) bool { return v.PackageType() == "npm" })
		res, ver := &broken{Resolver: stack.Resolvers[n], times: c.resolver}, &broken{Verifier: stack.Verifiers[3], times: c.verifier}
		stack.Resolvers[n], stack.Verifiers[3] = res, ver
		var pauses []time.Duration
		req := sigstoreJS(t, "standard")
		req.NoContract = true
		out, err := admit.Run(t.Context(), admit.Config{Ledger: r.client, Policy: shipped(t, "standard"), Stack: stack, Wait: client.Published, Random: rand.Reader,
			Pause: func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }}, req)
		if res.asked != c.asked || ver.asked != c.asked2 || len(pauses) != c.pauses {
			t.Errorf("%+v: asked %d and %d times, pauses %v", c, res.asked, ver.asked, pauses)
		}
		if c.resolver < 3 && c.verifier < 3 {
			if err != nil || out.Decision != admission.Admit {
				t.Errorf("%+v: %+v %v", c, out, err)
			}
			continue
		}
		var usage *admit.Usage
		if !errors.Is(err, errBroken) || errors.As(err, &usage) || !strings.Contains(err.Error(), "admission att_") {
			t.Errorf("%+v: %v", c, err)
		}
		if pauses[0] != 500*time.Millisecond || pauses[1] != time.Second {
			t.Errorf("pauses %v", pauses)
		}
	}
	// no second source, no second try by the admission itself: what began stays open
	last := r.last()
	var page *client.Answer[client.Attempts]
	for page == nil || page.Value.TreeSize < last {
		var err error
		if page, err = r.client.Attempts(t.Context(), map[string][]string{"state": {"open"}}); err != nil {
			t.Fatal(err)
		}
	}
	var open []string
	for _, a := range page.Value.Attempts {
		open = append(open, a.Tool)
	}
	if slices.Sort(open); !slices.Equal(open, []string{"admission", "admission", "admission.dependency", "admission.dependency"}) {
		t.Errorf("open %q", open)
	}
}

// TestADM14_ToldToStop: a decision that was recorded stands, though the archive would
// have been tried again.
func TestADM14_ToldToStop(t *testing.T) {
	r := newRoom(t)
	ctx, stop := context.WithCancel(t.Context())
	stack, err := admit.NewStack(material(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	l := &trouble{Client: r.client, err: refusal(admission.ArchiveFull), times: -1}
	pauses := 0
	res, err := admit.Run(ctx, admit.Config{Ledger: l, Policy: shipped(t, "light"), Stack: stack, Random: rand.Reader,
		Pause: func(ctx context.Context, _ time.Duration) error {
			if pauses++; pauses == 3 { // two within the archive phase, then before the next round
				stop()
			}
			return ctx.Err()
		}}, light(t))
	if err != nil {
		t.Fatal(err)
	}
	want(t, res, admission.Quarantine, admission.ArchiveWriteFailure, admission.ArchiveFull)
	if res.EventID == "" || l.asked != 3 {
		t.Errorf("asked %d times, %+v", l.asked, res)
	}
}
