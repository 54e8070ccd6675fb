package rule

import (
	"testing"

	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/internal/testkit/logkit"
	"counterfoil/ledger/trust"
)

// The trees and the log's signatures are made by other projects' code.

const origin = "example.com/log"

type signer struct {
	note.Signer
	key trust.VerifierKey
}

func newSigner(t testing.TB, name, label string) signer {
	t.Helper()
	s, k := logkit.Key(t, name, logkit.Seed(label))
	return signer{s, k}
}

// tree is a history; two trees with one label of the leaves up to a point agree
// up to there.
type tree struct{ *testonly.Tree }

func newTree(n int, leaf func(i int) string) tree { return tree{logkit.Tree(n, leaf)} }

var plainLeaf = logkit.Numbered("leaf ")

// forkedAt is a history that differs from index n on.
func forkedAt(n int) func(int) string { return logkit.Forked(n, "other ") }

func (x tree) state(size uint64) State {
	return State{size, [HashSize]byte(x.HashAt(size))}
}

func (x tree) checkpoint(size uint64) trust.Checkpoint {
	return trust.Checkpoint{Origin: origin, Size: size, Root: [HashSize]byte(x.HashAt(size))}
}

func (x tree) proof(t testing.TB, from, to uint64) [][]byte {
	t.Helper()
	p, err := x.ConsistencyProof(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func signed(t testing.TB, c trust.Checkpoint, signers ...note.Signer) *trust.Note {
	t.Helper()
	b, err := note.Sign(&note.Note{Text: c.Text()}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	n, err := trust.ParseNote(b)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func request(t testing.TB, old uint64, proof [][]byte, c trust.Checkpoint, signers ...note.Signer) *Request {
	t.Helper()
	r, err := ParseRequest((&Request{Old: old, Proof: proof, Note: signed(t, c, signers...), Checkpoint: c}).Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
