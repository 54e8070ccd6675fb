package receipts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"counterfoil/ledger/event"
	"counterfoil/ledger/lifecycle"
	"counterfoil/projections/kv"
)

func drawRow(t *rapid.T) Row {
	ms := rapid.Int64Range(-62167219200000, 253402300799999) // years 0 to 9999
	r := Row{
		Index: rapid.Uint64().Draw(t, "index"), Revision: rapid.Int64Range(1, event.MaxRevision).Draw(t, "revision"),
		AttemptID: fmt.Sprintf("att_%032x", rapid.Uint64().Draw(t, "attempt")),
		Lifecycle: event.Lifecycle(rapid.SampledFrom([]string{"attempt", "outcome", "review"}).Draw(t, "lifecycle")),
		Status:    rapid.String().Draw(t, "status"), Kind: event.SubjectKind(rapid.String().Draw(t, "kind")),
		Subject: rapid.String().Draw(t, "subject"), Tool: rapid.String().Draw(t, "tool"), Agent: rapid.String().Draw(t, "agent"),
		Runtime:    rapid.String().Draw(t, "runtime"),
		OccurredAt: time.UnixMilli(ms.Draw(t, "occurred")).UTC(), CapturedAt: time.UnixMilli(ms.Draw(t, "captured")).UTC(),
	}
	copy(r.Digest[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
	copy(r.LeafHash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
	r.ClockSkew = Skewed(r.OccurredAt, r.CapturedAt)
	return r
}

// TestLOG05_RowsHaveOneEncoding: what is read is what was written, and a row that
// was cut or grew is refused.
func TestLOG05_RowsHaveOneEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRow(t)
		b := want.Append(nil)
		got, err := ParseRow(want.Index, b)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Fatal(d, err)
		}
		for _, bad := range [][]byte{b[:len(b)-1], append(slices.Clone(b), 0), b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")], append([]byte{2}, b[1:]...)} {
			if _, err := ParseRow(want.Index, bad); !errors.Is(err, kv.ErrDamaged) {
				t.Fatalf("a damaged row gives %v", err)
			}
		}
	})
}

func TestLOG05_AttemptsAndParkedRowsHaveOneEncoding(t *testing.T) {
	digest := func(i int) event.Digest { return event.DigestOf(fmt.Append(nil, i)) }
	for _, n := range []int{1, 2, 7, event.MaxRevision} {
		a := &Attempt{ID: "att_000102030405060708090a0b0c0d0e0f"}
		a.State.Identity, a.State.Expected = digest(-1), "hmac-sha256:"+strings.Repeat("ab", 32)
		for i := range n {
			a.Indices = append(a.Indices, uint64(i)*1_000_000_007)
			a.State.Entries = append(a.State.Entries, lifecycle.Entry{Digest: digest(i), Lifecycle: event.Review,
				Status: event.StatusConfirmedCommitted, Result: a.State.Expected, Target: i - 1})
		}
		b := a.append(nil)
		if len(b) > a.size() {
			t.Errorf("%d events take %d bytes, more than the bound %d", n, len(b), a.size())
		}
		got, err := parseAttempt(a.ID, b)
		if d := cmp.Diff(a, got); d != "" || err != nil {
			t.Fatal(d, err)
		}
		for _, bad := range [][]byte{nil, b[:1], b[:len(b)-1], append(slices.Clone(b), 0), append([]byte{9}, b[1:]...)} {
			if _, err := parseAttempt(a.ID, bad); !errors.Is(err, kv.ErrDamaged) {
				t.Errorf("a damaged row gives %v", err)
			}
		}
	}
	// Indices that do not rise.
	a := &Attempt{ID: "att_000102030405060708090a0b0c0d0e0f", Indices: []uint64{5, 5}, State: lifecycle.State{Entries: make([]lifecycle.Entry, 2)}}
	a.State.Entries[0].Lifecycle, a.State.Entries[1].Lifecycle = event.Attempt, event.Outcome
	if _, err := parseAttempt(a.ID, a.append(nil)); !errors.Is(err, kv.ErrDamaged) {
		t.Errorf("equal indices give %v", err)
	}

	p := Parked{Index: 3, LeafHash: digest(1), Size: 70000, Reason: Unlawful, Code: lifecycle.BrokenLink}
	b := p.append(nil)
	got, err := ParseParked(3, b)
	if d := cmp.Diff(p, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, bad := range [][]byte{nil, b[:len(b)-1], append(slices.Clone(b), 0)} {
		if _, err := ParseParked(3, bad); !errors.Is(err, kv.ErrDamaged) {
			t.Errorf("a damaged row gives %v", err)
		}
	}
}

func TestLOG05_WordingOfParkedLeavesIsBounded(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("x", 10000), strings.Repeat("é", 10000), "a" + strings.Repeat("😀", 1000), "bad \xff utf8"} {
		got := clip(s)
		if len(got) > maxDetail+len("…") || !utf8.ValidString(got) {
			t.Errorf("%.20q… gives %d bytes, valid %v", s, len(got), utf8.ValidString(got))
		}
	}
}
