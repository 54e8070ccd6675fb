package lifecycle

import (
	"errors"
	"testing"

	"counterfoil/ledger/event"
)

func TestEVI17_Admit(t *testing.T) {
	c := newChain(t, "")
	broken := errors.New("broken store")
	for _, test := range []struct {
		name   string
		holder string
		err    error
		code   string
	}{
		{"free", "", nil, ""},
		{"taken", "att_other", nil, ScopeTaken},
		{"the store fails", "", broken, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := c.begin
			want := event.ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID)
			var s State
			scope, v, err := s.Admit(e, event.DigestOf(e.Append(nil)), func(sc event.Scope) (string, error) {
				if sc != want {
					t.Errorf("asked for scope %x, want %x", sc, want)
				}
				return test.holder, test.err
			})
			switch {
			case !errors.Is(err, test.err):
				t.Errorf("error %v, want %v", err, test.err)
			case v == nil && test.code != "", v != nil && v.Code != test.code:
				t.Errorf("violation %v, want %q", v, test.code)
			case (test.err != nil || test.code != "") && (scope != nil || s.Revision() != 0):
				t.Error("what does not count changed the state or took the scope")
			case test.err == nil && test.code == "" && (scope == nil || *scope != want || s.Revision() != 1):
				t.Errorf("scope %v, revision %d", scope, s.Revision())
			}
		})
	}
}

// Only the event that begins an attempt asks for its scope.
func TestAdmitAsksOnce(t *testing.T) {
	c := newChain(t, "")
	d := event.DigestOf(c.begin.Append(nil))
	s := State{}
	free := func(event.Scope) (string, error) { return "", nil }
	if _, v, err := s.Admit(c.begin, d, free); v != nil || err != nil {
		t.Fatal(v, err)
	}
	never := func(event.Scope) (string, error) { t.Error("asked again"); return "", nil }
	if _, v, _ := s.Admit(c.begin, d, never); v == nil || v.Code != DuplicateLeaf {
		t.Errorf("the same event again: %v", v)
	}
	other := *c.begin
	other.OccurredAt = other.CapturedAt
	other.TraceID = "other"
	if _, v, _ := s.Admit(&other, event.DigestOf(other.Append(nil)), never); v == nil || v.Code != NotFirst {
		t.Errorf("a second attempt event: %v", v)
	}
}

func TestBelongs(t *testing.T) {
	e := newChain(t, "").begin
	for _, test := range []struct{ origin, tenant, code string }{
		{e.Ledger, e.Tenant, ""}, {"x", e.Tenant, WrongOrigin}, {e.Ledger, "x", WrongTenant}, {"x", "x", WrongOrigin},
	} {
		if v := Belongs(e, test.origin, test.tenant); v == nil && test.code != "" || v != nil && v.Code != test.code {
			t.Errorf("%q, %q: %v, want %q", test.origin, test.tenant, v, test.code)
		}
	}
}
