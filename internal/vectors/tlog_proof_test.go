package vectors

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/event"
	"counterfoil/ledger/receipt"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

type proofCase struct {
	caseRule
	Proof  pieces `json:"proof"`
	Index  uint64 `json:"index,string"`
	Hashes int    `json:"hashes"`
	Extra  int    `json:"extraBytes"` // -1 without
	Size   string `json:"size"`
}

func TestLOG11_TlogProofVectors(t *testing.T) {
	var doc struct {
		Description string      `json:"description"`
		Parts       parts       `json:"parts"`
		Leaf        string      `json:"leaf"`
		LeafHash    string      `json:"leafHash"`
		Key         string      `json:"key"`
		Accept      []proofCase `json:"accept"`
		NotIncluded []proofCase `json:"notIncluded"`
		Reject      []struct {
			caseRule
			Proof pieces `json:"proof"`
		} `json:"reject"`
	}
	load(t, "tlog/proof.json", &doc)
	leaf := tiles.LeafHashOf([]byte(doc.Leaf))
	if [32]byte(leaf) != hash32(t, doc.LeafHash) {
		t.Fatalf("leaf hash %x", leaf)
	}
	file := trustIn(t, doc.Key, []byte(doc.Leaf))
	// read parses a case, and says whether the leaf is in its tree.
	read := func(c proofCase) bool {
		t.Helper()
		b := doc.Parts.join(t, c.Proof)
		p, err := receipt.ParseTlogProof(b)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			return false
		}
		extra := -1
		if p.Extra != nil {
			extra = len(p.Extra)
		}
		n, err := trust.ParseNote(p.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		cp, err := trust.ParseCheckpoint(n.Text)
		if err != nil {
			t.Fatal(err)
		}
		if string(p.Append(nil)) != string(b) || p.Index != c.Index || len(p.Proof) != c.Hashes || extra != c.Extra || strconv.FormatUint(cp.Size, 10) != c.Size {
			t.Errorf("%s: read as index %d, %d hashes, %d bytes of extra, size %d", c, p.Index, len(p.Proof), extra, cp.Size)
		}
		in := proof.VerifyInclusion(rfc6962.DefaultHasher, p.Index, cp.Size, leaf[:], p.Proof, cp.Root[:]) == nil
		r := receipt.VerifyTlogProof(b, []byte(doc.Leaf), file, receipt.Options{})
		if (r.Status == receipt.Verified) != in || !in && r.Status != receipt.Failed {
			t.Errorf("%s: judged %s, inclusion %v: %+v", c, r.Status, in, failures(r))
		}
		return in
	}
	for _, c := range some(t, "accept", doc.Accept) {
		if !read(c) {
			t.Errorf("%s: not in the tree", c)
		}
	}
	for _, c := range some(t, "notIncluded", doc.NotIncluded) {
		if read(c) {
			t.Errorf("%s: in the tree", c)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		b := doc.Parts.join(t, c.Proof)
		if _, err := receipt.ParseTlogProof(b); !errors.Is(err, receipt.ErrTlogProof) {
			t.Errorf("%s: %v", c, err)
		}
		if r := receipt.VerifyTlogProof(b, []byte(doc.Leaf), file, receipt.Options{}); r.Status == receipt.Verified || len(b) > 0 && r.Status != receipt.Failed {
			t.Errorf("%s: judged %s", c, r.Status)
		}
	}
}

func failures(r *receipt.Report) (out []string) {
	for _, c := range r.Checks {
		if c.Status == receipt.Fail {
			out = append(out, fmt.Sprintf("%s: %s", c.Name, c.Detail))
		}
	}
	return out
}

// trustIn is a trust file for a log, and for the key that signed a leaf.
func trustIn(t *testing.T, vkey string, leaf []byte) *trust.File {
	t.Helper()
	var doc struct {
		Keys []struct {
			Public string `json:"publicKey"`
			ID     string `json:"keyId"`
		} `json:"keys"`
	}
	loadSome(t, "leaf.json", &doc)
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		t.Fatal(err)
	}
	log, err := trust.ParseVerifierKey(vkey)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range doc.Keys {
		if k.ID != rec.Signatures[0].KeyID {
			continue
		}
		keys, err := trust.NewEventKeys([]trust.EventKey{{KeyID: k.ID, PublicKey: unhex(t, k.Public)}})
		if err != nil {
			t.Fatal(err)
		}
		return &trust.File{Log: log, EventKeys: keys}
	}
	t.Fatalf("leaf.json has no key %s", rec.Signatures[0].KeyID)
	return nil
}
