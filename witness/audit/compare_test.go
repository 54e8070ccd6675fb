package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
)

// views is a list of attempts in pages of three.
type views struct {
	size uint64
	list []audit.ViewAttempt
	err  error
}

func (v *views) Page(_ context.Context, token string) (audit.ViewPage, error) {
	at, _ := strconv.Atoi(token)
	p := audit.ViewPage{TreeSize: v.size, Attempts: v.list[at:min(at+3, len(v.list))]}
	if at+3 < len(v.list) {
		p.Next = fmt.Sprint(at + 3)
	}
	return p, v.err
}

// viewsOf is what a sound server shows.
func viewsOf(leaves [][]byte) *views {
	m := leaftest.Fold(leaves)
	v := &views{size: uint64(len(leaves))}
	at := map[string]int{}
	for _, c := range m.Events {
		i, ok := at[c.Event.AttemptID]
		if !ok {
			s := m.Attempts[c.Event.AttemptID]
			sum := s.Summary()
			i = len(v.list)
			at[c.Event.AttemptID] = i
			v.list = append(v.list, audit.ViewAttempt{ID: c.Event.AttemptID, State: sum.State, Review: sum.Review, InDoubt: sum.InDoubt,
				Corrected: sum.Corrected, Revision: s.Revision(), FirstIndex: c.Index})
		}
		v.list[i].LastIndex = c.Index
	}
	return v
}

func TestLOG15_ServerThatShowsOtherStatesIsNamed(t *testing.T) {
	all := leaftest.History(5, 1300)
	leaves := all[:1000]
	l := newLog(t).add(leaves...)
	parked := uint64(len(leaftest.Fold(leaves).Parked))
	audited := func(v *views) audit.Config {
		return l.config(func(c *audit.Config) { c.Views, c.Tenant, c.AllowParked = v, leaftest.Tenant, parked })
	}
	r := verified(t, audited(viewsOf(leaves)))
	n := uint64(len(viewsOf(leaves).list))
	if r.Views.Compared != n || r.Views.Newer != 0 {
		t.Errorf("%s", text(r))
	}
	// A server that is ahead: what has newer events is not compared.
	r = verified(t, audited(viewsOf(all)))
	if r.Views.Newer == 0 || r.Views.Compared == 0 || r.Views.Compared+r.Views.Newer > n+1 {
		t.Errorf("%s", text(r))
	}
	for name, c := range map[string]struct {
		change func(v *views)
		kind   audit.Kind
	}{
		"state":       {func(v *views) { v.list[7].State = "reversed" }, audit.ViewDiffers},
		"disposition": {func(v *views) { v.list[7].Review = "quarantine" }, audit.ViewDiffers},
		"in doubt":    {func(v *views) { v.list[7].InDoubt = !v.list[7].InDoubt }, audit.ViewDiffers},
		"revision":    {func(v *views) { v.list[7].Revision++ }, audit.ViewDiffers},
		"other id":    {func(v *views) { v.list[7].ID = v.list[8].ID }, audit.ViewDiffers},
		"left out":    {func(v *views) { v.list = slices.Delete(v.list, 7, 8) }, audit.ViewMissing},
		"last":        {func(v *views) { v.list = v.list[:len(v.list)-1] }, audit.ViewMissing},
		"made up": {func(v *views) {
			i := 0
			for v.list[i].FirstIndex+1 == v.list[i+1].FirstIndex {
				i++
			}
			v.list = slices.Insert(v.list, i+1, audit.ViewAttempt{ID: "att_x", State: "open", FirstIndex: v.list[i].FirstIndex + 1})
		}, audit.ViewExtra},
	} {
		v := viewsOf(leaves)
		c.change(v)
		r := run(t, audited(v))
		if r.ExitCode() != 1 || r.Findings.ByKind[c.kind] != 1 || r.Findings.Total != parked+1 {
			t.Errorf("%s: %v of %d, parked %d", name, r.Findings.ByKind, r.Findings.Total, parked)
		}
	}
	v := viewsOf(leaves)
	slices.Reverse(v.list)
	if r := run(t, audited(v)); r.ExitCode() == 0 {
		t.Error("a list in another order was accepted")
	}
	v = viewsOf(leaves)
	v.err = errors.New("gone")
	if r := run(t, audited(v)); r.ExitCode() != 2 {
		t.Errorf("%s", text(r))
	}
}
