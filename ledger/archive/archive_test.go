package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/archive"
	"counterfoil/ledger/event"
	"counterfoil/ledger/vault"
)

// TestARC03_RecordsAreReadOneByOne: with every other body gone, each of them is
// read by its digest alone; the receipt is the root.
func TestARC03_RecordsAreReadOneByOne(t *testing.T) {
	a, _ := room(t)
	adm := admit(t, a, 0)
	receipt, _, err := admission.Open(adm.receipt, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The decision is another attempt's as well, so only it survives.
	decision, err := read(t, a, receipt.Records.PolicyDecision)
	if err != nil {
		t.Fatal(err)
	}
	i := item(1, archive.RoleDecision)
	i.Retention.Days = 3650
	put(t, a, i, decision)
	if done, err := a.Expire(t.Context(), at.AddDate(2, 0, 0), nil); err != nil || done.Expired != len(adm.entries) {
		t.Fatalf("%+v, %v", done, err)
	}
	again, err := read(t, a, receipt.Records.PolicyDecision)
	if err != nil || !bytes.Equal(again, decision) {
		t.Errorf("the decision: %v", err)
	}
	d, err := admission.ParsePolicyDecision(again)
	if err != nil || d.Class != "privileged" {
		t.Errorf("%+v, %v", d, err)
	}
	mustBeGone(t, a, receipt.Records.EvidenceBundle, archive.Expired)
}

func codeOf(t *testing.T, err error) archive.Code {
	t.Helper()
	var f *archive.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v is no failure of the archive", err)
	}
	// Every failure of the archive wakes the platform; nothing about evidence does.
	if f.Route() != admission.RoutePlatform {
		t.Errorf("%s goes to %q", f.Code, f.Route())
	}
	if info, ok := f.Code.Info(); !ok || info.Gate != admission.GateArchive {
		t.Errorf("%s is no code of the archive", f.Code)
	}
	return f.Code
}

// TestARC04_ARC05_FailuresHaveTheirOwnCodes: an id or a typed failure, each kind
// under its own code, none of them one of evidence.
func TestARC04_ARC05_FailuresHaveTheirOwnCodes(t *testing.T) {
	a, v := room(t)
	if err := v.Erase(attempt(2)); err != nil {
		t.Fatal(err)
	}
	store := func(change func(*archive.Item)) error {
		i := item(0, "evidence")
		change(&i)
		_, err := a.Put(t.Context(), i, strings.NewReader("x"))
		return err
	}
	seen := map[archive.Code]string{}
	for what, tc := range map[string]struct {
		err  error
		want archive.Code
	}{
		"unknown owner":   {store(func(i *archive.Item) { i.Owner = attempt(9) }), admission.ArchivePermissionDenied},
		"erased owner":    {store(func(i *archive.Item) { i.Owner = attempt(2) }), admission.ArchivePermissionDenied},
		"no attempt":      {store(func(i *archive.Item) { i.Owner = "me" }), admission.ArchivePermissionDenied},
		"no class":        {store(func(i *archive.Item) { i.Retention.Class = "" }), admission.ArchiveRetentionDenied},
		"too long":        {store(func(i *archive.Item) { i.Retention.Days = 40_000 }), admission.ArchiveRetentionDenied},
		"upper-case":      {store(func(i *archive.Item) { i.Digest = "sha256:" + strings.Repeat("A", 64) }), admission.ArchiveDigestEncoding},
		"bare digest":     {store(func(i *archive.Item) { i.Digest = strings.Repeat("a", 64) }), admission.ArchiveDigestEncoding},
		"other content":   {store(func(i *archive.Item) { i.Digest = "sha256:" + strings.Repeat("a", 64) }), admission.ArchiveDigestMismatch},
		"a role's form":   {store(func(i *archive.Item) { i.Role = "Evidence" }), admission.ArchiveWriteFailure},
		"open, digest":    {second(a.Open(t.Context(), "sha512:x")), admission.ArchiveDigestEncoding},
		"no reason":       {second(a.Absent(t.Context(), item(0, "attestation"), "")), admission.ArchiveWriteFailure},
		"absent, no days": {second(a.Absent(t.Context(), archive.Item{Owner: attempt(0), Role: "x", At: at}, "gone")), admission.ArchiveRetentionDenied},
	} {
		if got := codeOf(t, tc.err); got != tc.want {
			t.Errorf("%s: %s, want %s", what, got, tc.want)
		}
		seen[tc.want] = what
	}
	// A source that breaks is the caller's, and not the archive's.
	boom := errors.New("boom")
	_, err := a.Put(t.Context(), item(0, "evidence"), iotest.ErrReader(boom))
	var f *archive.Failure
	if !errors.Is(err, boom) || errors.As(err, &f) {
		t.Errorf("a broken source: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = a.Put(ctx, item(0, "evidence"), strings.NewReader("x")); !errors.Is(err, context.Canceled) || errors.As(err, &f) {
		t.Errorf("cancelled: %v", err)
	}
	// What the disk says.
	for cause, want := range map[error]archive.Code{
		vault.ErrNoSpace: admission.ArchiveFull, syscall.ENOSPC: admission.ArchiveFull, syscall.EDQUOT: admission.ArchiveFull,
		fs.ErrPermission: admission.ArchivePermissionDenied, syscall.EROFS: admission.ArchivePermissionDenied, syscall.EACCES: admission.ArchivePermissionDenied,
		vault.ErrFailed: admission.ArchiveUnreachable, vault.ErrClosed: admission.ArchiveUnreachable,
		vault.ErrCorrupt: admission.ArchiveDigestMismatch, boom: admission.ArchiveWriteFailure,
	} {
		if got := archive.CodeOf(cause); got != want {
			t.Errorf("%v: %s, want %s", cause, got, want)
		}
		seen[want] = cause.Error()
	}
	if len(seen) != 7 {
		t.Errorf("%d codes: %v", len(seen), seen)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{store(func(*archive.Item) {}), a.Sync(t.Context()), second(a.List(t.Context(), attempt(0)))} {
		if got := codeOf(t, err); got != admission.ArchiveUnreachable {
			t.Errorf("a closed archive: %s", got)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestARC06_ARC07_RetentionIsChosenBeforeStorage: nothing is read from the source of
// an item whose retention is refused, and sensitive evidence is no telemetry.
func TestARC06_ARC07_RetentionIsChosenBeforeStorage(t *testing.T) {
	a, _ := room(t)
	telemetry := archive.Retention{Class: "discovery", Kind: event.RetentionTelemetry, Days: 30}
	for what, tc := range map[string]struct {
		r         archive.Retention
		sensitive bool
		ok        bool
	}{
		"none": {}, "no class": {r: archive.Retention{Kind: year.Kind, Days: 1}}, "no kind": {r: archive.Retention{Class: "x", Days: 1}},
		"no days":             {r: archive.Retention{Class: "x", Kind: year.Kind}},
		"below a day":         {r: archive.Retention{Class: "x", Kind: year.Kind, Days: -1}},
		"long name":           {r: archive.Retention{Class: strings.Repeat("x", 65), Kind: year.Kind, Days: 1}},
		"telemetry":           {r: telemetry, ok: true},
		"sensitive telemetry": {r: telemetry, sensitive: true},
		"sensitive evidence":  {r: year, sensitive: true, ok: true},
		"longest":             {r: archive.Retention{Class: "x", Kind: year.Kind, Days: archive.MaxDays}, ok: true},
	} {
		i := item(0, "evidence")
		i.Retention, i.Sensitive = tc.r, tc.sensitive
		src := &counter{Reader: strings.NewReader("content of " + what)}
		_, err := a.Put(t.Context(), i, src)
		if tc.ok && err != nil || !tc.ok && (err == nil || src.n > 0 || codeOf(t, err) != admission.ArchiveRetentionDenied) {
			t.Errorf("%s: %v, %d bytes read", what, err, src.n)
		}
	}
}

type counter struct {
	*strings.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// TestARC11_ExpiredReadsUnavailable: at its time, and not a failed check.
func TestARC11_ExpiredReadsUnavailable(t *testing.T) {
	a, _ := room(t)
	one := put(t, a, item(0, "evidence"), []byte("one"))
	longer := item(1, "evidence")
	longer.Retention.Days = 400
	put(t, a, longer, []byte("one")) // another admission needs it for longer
	two := put(t, a, item(0, "artifact"), []byte("two"))
	if !one.KeptUntil.Equal(at.Add(365 * 24 * time.Hour)) {
		t.Errorf("kept until %s", one.KeptUntil)
	}
	for _, step := range []struct {
		at       time.Time
		want     archive.Ended
		one, two bool
	}{
		{one.KeptUntil.Add(-time.Millisecond), archive.Ended{}, true, true},
		{one.KeptUntil, archive.Ended{Expired: 2}, true, false},
		{one.KeptUntil, archive.Ended{}, true, false},
		{at.Add(400 * 24 * time.Hour), archive.Ended{Expired: 1}, false, false},
	} {
		if got, err := a.Expire(t.Context(), step.at, nil); err != nil || got != step.want {
			t.Errorf("at %s: %+v, %v", step.at, got, err)
		}
		for digest, there := range map[string]bool{one.Digest: step.one, two.Digest: step.two} {
			if !there {
				mustBeGone(t, a, digest, archive.Expired)
			} else if _, err := read(t, a, digest); err != nil {
				t.Error(err)
			}
		}
	}
	list, err := a.List(t.Context(), attempt(0))
	if err != nil || len(list) != 2 || list[0].State != archive.Expired || list[0].Digest != two.Digest || list[0].Size != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := read(t, a, "sha256:"+strings.Repeat("0", 64)); !errors.Is(err, archive.ErrAbsent) {
		t.Errorf("never kept: %v", err)
	}
}

// TestARC12_ARC13_AbsenceIsKeptAsAbsence: what an old admission did not have stays
// absent; what is found later is another entry with its own time.
func TestARC12_ARC13_AbsenceIsKeptAsAbsence(t *testing.T) {
	a, _ := room(t)
	if _, err := a.Absent(t.Context(), item(0, "attestation"), "not_published_then"); err != nil {
		t.Fatal(err)
	}
	later := item(0, "attestation")
	later.At = at.AddDate(0, 1, 0)
	found := put(t, a, later, []byte("a new attestation"))
	list, err := a.List(t.Context(), attempt(0))
	if err != nil {
		t.Fatal(err)
	}
	want := []archive.Entry{
		{Owner: attempt(0), Role: "attestation", State: archive.Absent, Reason: "not_published_then", Class: year.Class, Kind: year.Kind, StoredAt: at, KeptUntil: at.AddDate(1, 0, 0)},
		found,
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
	if !found.StoredAt.Equal(later.At) {
		t.Errorf("stored at %s", found.StoredAt)
	}
	if _, err := a.List(t.Context(), attempt(9)); !errors.Is(err, archive.ErrAbsent) {
		t.Errorf("an owner that nobody knows: %v", err)
	}
}

// TestARC15_TheLaterEndCounts: storing again never shortens, a change of class does.
func TestARC15_TheLaterEndCounts(t *testing.T) {
	a, v := room(t)
	until := func() time.Time {
		list, err := a.List(t.Context(), attempt(0))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].KeptUntil
	}
	put(t, a, item(0, "evidence"), []byte("x"))
	if n, err := a.SetRetention(t.Context(), attempt(0), archive.Retention{Class: "y", Kind: year.Kind, Days: 1}, at.Add(-time.Millisecond)); n != 0 || err != nil {
		t.Errorf("a change from before it was stored: %d, %v", n, err)
	}
	short := item(0, "evidence")
	short.Retention = archive.Retention{Class: "short", Kind: year.Kind, Days: 1}
	put(t, a, short, []byte("x"))
	if !until().Equal(at.Add(365 * 24 * time.Hour)) {
		t.Errorf("stored again for less: until %s", until())
	}
	n, err := a.SetRetention(t.Context(), attempt(0), short.Retention, at)
	if err != nil || n != 1 || !until().Equal(at.Add(24*time.Hour)) {
		t.Errorf("%d changed, %v, until %s", n, err, until())
	}
	_, err = a.SetRetention(t.Context(), attempt(0), archive.Retention{Class: "t", Kind: event.RetentionTelemetry, Days: 9}, at)
	if codeOf(t, err) != admission.ArchiveRetentionDenied {
		t.Error("security evidence became telemetry")
	}
	if err := v.Erase(attempt(0)); err != nil {
		t.Fatal(err)
	}
	var gone *archive.Gone
	if _, err := a.List(t.Context(), attempt(0)); !errors.As(err, &gone) || gone.State != archive.Erased {
		t.Errorf("evidence of an erased attempt: %v", err)
	}
}
