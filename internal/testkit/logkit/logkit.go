// Package logkit gives tests logs that sign whatever they are asked to. Their trees,
// keys and signatures are made by other projects' code.
package logkit

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/trust"
)

// Seed is "randomness" of which keys are made that are the same in every run.
type Seed string

// Read gives the same bytes at every call.
func (s Seed) Read(b []byte) (int, error) {
	h := sha256.Sum256([]byte(s))
	return copy(b, h[:]), nil
}

// Key makes the key of a log.
func Key(t testing.TB, name string, seed Seed) (note.Signer, trust.VerifierKey) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(seed, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	k, err := trust.ParseVerifierKey(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return s, k
}

// Log is a history and what signs it.
type Log struct {
	*testonly.Tree
	Signer note.Signer
	Key    trust.VerifierKey
}

// New is a log of n leaves. Two logs of one name have one key.
func New(t testing.TB, name string, n int, leaf func(i int) string) Log {
	t.Helper()
	s, k := Key(t, name, Seed(name))
	return Log{Tree(n, leaf), s, k}
}

// Tree is a history of n leaves.
func Tree(n int, leaf func(i int) string) *testonly.Tree {
	x := testonly.New(rfc6962.DefaultHasher)
	for i := range n {
		x.AppendData([]byte(leaf(i)))
	}
	return x
}

// Numbered are the leaves label0, label1 and so on.
func Numbered(label string) func(i int) string {
	return func(i int) string { return fmt.Sprint(label, i) }
}

// Forked are leaves that are the same whatever the label, and differ by it from index
// at on.
func Forked(at int, label string) func(i int) string {
	shared, own := Numbered("leaf "), Numbered(label)
	return func(i int) string {
		if i < at {
			return shared(i)
		}
		return own(i)
	}
}
