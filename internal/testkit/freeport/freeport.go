// Package freeport gives tests ports for servers that others are told of before they
// listen; see counterfoil/internal/freeport.
package freeport

import (
	"testing"

	"counterfoil/internal/freeport"
)

// Addr is an address of this machine that nothing listens on.
func Addr(t testing.TB) string {
	t.Helper()
	a, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Row is the first of n ports in a row that nothing on this machine listens on.
func Row(t testing.TB, n int) int {
	t.Helper()
	p, err := freeport.Row(n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
