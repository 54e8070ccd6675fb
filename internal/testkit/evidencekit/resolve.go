package evidencekit

import (
	"strings"
	"testing"

	"counterfoil/ledger/admission"
)

// Resolve demands a result: either a binding that validates, or a failure.
func Resolve(t testing.TB, r admission.Resolver, s admission.Selection) admission.Resolution {
	t.Helper()
	res, err := r.Resolve(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if res.Binding != nil {
		if err := res.Binding.Validate(); err != nil {
			t.Errorf("binding: %v", err)
		}
	}
	if (res.Binding == nil) == (res.Failure == nil) {
		t.Errorf("binding %v and failure %+v", res.Binding, res.Failure)
	}
	return res
}

// States are the checks by their id, each as state and reason code.
func States(checks []admission.Check) map[string]string {
	out := map[string]string{}
	for _, c := range checks {
		out[c.ID] = strings.TrimSuffix(string(c.State)+" "+string(c.Code), " ")
	}
	return out
}
