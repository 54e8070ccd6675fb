package admit_test

import (
	"errors"
	"strings"
	"testing"

	"counterfoil/internal/admit"
)

// TestADM21_WhatIsWrongAtOnceRecordsNothing: a request that nobody can mean leaves no
// attempt behind.
func TestADM21_WhatIsWrongAtOnceRecordsNothing(t *testing.T) {
	r := newRoom(t)
	for name, change := range map[string]func(*admit.Request){
		"no class":           func(q *admit.Request) { q.Class = "" },
		"class":              func(q *admit.Request) { q.Class = "Light one" },
		"contract":           func(q *admit.Request) { q.Contract = "a\nb" },
		"backfill":           func(q *admit.Request) { q.Backfill = strings.Repeat("x", 256) },
		"absent evidence":    func(q *admit.Request) { q.Evidence = []string{t.TempDir() + "/absent"} },
		"absent artifact":    func(q *admit.Request) { q.Artifact = t.TempDir() + "/absent" },
		"absent entry":       func(q *admit.Request) { q.Entry = t.TempDir() + "/absent.json" },
		"a device":           func(q *admit.Request) { q.Entry = "/dev/null" },
		"a folder":           func(q *admit.Request) { q.Entry = t.TempDir() },
		"no such package":    func(q *admit.Request) { q.Package = "oci" },
		"no such identifier": func(q *admit.Request) { q.Package = "npm:other" },
	} {
		req := light(t)
		change(&req)
		var usage *admit.Usage
		if res, err := r.try(shipped(t, "light"), material(t, ""), "", req); !errors.As(err, &usage) {
			t.Errorf("%s: %+v %v", name, res, err)
		}
	}
	if n := r.last(); n != 0 {
		t.Errorf("%d events are recorded", n)
	}
	// a class that the policy does not have is a decision, and recorded
	req := light(t)
	req.Class = "unheard-of"
	want(t, r.admit("light", "", req), "quarantine", "policy_no_match")
}
