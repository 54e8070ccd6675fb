// Package rapidkit runs properties whose every check costs real time, because
// real processes, disks or servers are in it.
package rapidkit

import (
	"os"
	"testing"

	"pgregory.net/rapid"
)

// Check is [rapid.Check] with at most n checks; with COUNTERFOIL_LONG set, with as
// many as rapid makes. Once a check has failed nothing is left out any more, so
// that rapid finds a short example.
func Check(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	failed := os.Getenv("COUNTERFOIL_LONG") != ""
	rapid.Check(t, func(t *rapid.T) {
		if n--; n < 0 && !failed {
			return
		}
		ok := false
		defer func() { failed = failed || !ok || t.Failed() }()
		property(t)
		ok = true
	})
}
