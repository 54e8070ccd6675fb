package client

import "testing"

// TestLOG07_StageText: a stage never says more than there is.
func TestLOG07_StageText(t *testing.T) {
	for want, r := range map[string]Receipt{
		"accepted": {Stage: Accepted}, "published": {Stage: Published},
		"published (1 of 2)": {Stage: Published, Witnesses: &Witnesses{Have: 1, Need: 2}},
		"published (0 of 3)": {Stage: Published, Witnesses: &Witnesses{Need: 3}},
		"witnessed":          {Stage: Witnessed, Witnesses: &Witnesses{Have: 2, Need: 2}},
	} {
		if got := r.StageText(); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}
