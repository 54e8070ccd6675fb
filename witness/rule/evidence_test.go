package rule

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/trust"
)

var seenAt = time.Date(2026, 11, 30, 9, 0, 0, 5e6, time.UTC)

// checkEvidence makes the document of a refused request and verifies it as a
// stranger would: from its bytes and the log's key.
func checkEvidence(t *testing.T, log signer, stored State, r *Request, kind Kind) *Evidence {
	t.Helper()
	keys := []trust.VerifierKey{log.key}
	lines, refusal := Authenticate(keys, r)
	if refusal != nil {
		t.Fatal(refusal)
	}
	cosigned := ""
	if stored.Size > 0 {
		c := trust.Checkpoint{Origin: origin, Size: stored.Size, Root: stored.Root}
		cosigned = string(signed(t, c, log).Append(nil))
	}
	witness := newSigner(t, "witness.example", "witness").key
	b, err := NewEvidence(kind, cosigned, r, lines, witness, seenAt).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	e, err := ParseEvidence(append(b, '\n'))
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if err := e.Verify(keys); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	if err := e.Verify([]trust.VerifierKey{newSigner(t, origin, "another log").key}); err == nil {
		t.Error("verifies under another key")
	}
	for _, other := range []Kind{KindSameSize, KindRewritten, KindEmptyRoot, KindUnproven, "x"} {
		if other == kind {
			continue
		}
		wrong := *e
		wrong.Kind = other
		if err := wrong.Verify(keys); err == nil {
			t.Errorf("%s passes for %s", kind, other)
		}
	}
	return e
}

func TestLOG08_EvidenceConvictsNoHonestLog(t *testing.T) {
	log := newSigner(t, origin, "log")
	keys := []trust.VerifierKey{log.key}
	x := newTree(20, plainLeaf)
	note := func(size uint64) string { return string(signed(t, x.checkpoint(size), log).Append(nil)) }
	proof := func(from, to uint64) (out []string) {
		for _, h := range x.proof(t, from, to) {
			out = append(out, b64.EncodeToString(h))
		}
		return out
	}
	for name, e := range map[string]Evidence{
		"true growth":             {Kind: KindRewritten, Cosigned: note(7), Offered: note(9), Proof: proof(7, 9)},
		"true growth, unproven":   {Kind: KindUnproven, Cosigned: note(7), Offered: note(9), Proof: proof(7, 9)},
		"wrong proof":             {Kind: KindRewritten, Cosigned: note(7), Offered: note(9), Proof: proof(6, 9)},
		"sizes in the other way":  {Kind: KindRewritten, Cosigned: note(9), Offered: note(7), Proof: proof(7, 9)},
		"the same twice":          {Kind: KindSameSize, Cosigned: note(7), Offered: note(7)},
		"two sizes":               {Kind: KindSameSize, Cosigned: note(7), Offered: note(9)},
		"the empty tree":          {Kind: KindEmptyRoot, Offered: note(0)},
		"a tree that has leaves":  {Kind: KindEmptyRoot, Offered: note(3)},
		"one checkpoint missing":  {Kind: KindSameSize, Offered: note(7)},
		"proof that is no base64": {Kind: KindUnproven, Cosigned: note(7), Offered: note(9), Proof: []string{"*"}},
		"64 hashes":               {Kind: KindUnproven, Cosigned: note(7), Offered: note(9), Proof: make([]string, 64)},
	} {
		e.Origin = origin
		if err := e.Verify(keys); err == nil {
			t.Errorf("%s: convicts", name)
		}
	}
	e := Evidence{Kind: KindSameSize, Cosigned: note(7), Offered: string(signed(t, newTree(7, forkedAt(2)).checkpoint(7), log).Append(nil)), Origin: "other.example"}
	if err := e.Verify(keys); err == nil {
		t.Error("convicts under another origin")
	}
	e.Origin = origin
	if err := e.Verify(keys); err != nil {
		t.Errorf("the same under the right origin: %v", err)
	}
}

func TestLOG08_EvidenceHasOneSpelling(t *testing.T) {
	log := newSigner(t, origin, "log")
	x, y := newTree(9, plainLeaf), newTree(9, forkedAt(5))
	e := checkEvidence(t, log, x.state(7), request(t, 7, y.proof(t, 7, 9), y.checkpoint(9), log), KindRewritten)
	b, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	s := string(b)
	for name, bad := range map[string]string{
		"blank":          strings.Replace(s, ",", ", ", 1),
		"unknown member": strings.Replace(s, "{", `{"a":1,`, 1),
		"twice":          strings.Replace(s, `{`, `{"cosigned":"",`, 1),
		"other schema":   strings.Replace(s, EvidenceSchema, "counterfoil.equivocation.v2", 1),
		"other time":     strings.Replace(s, "09:00:00.005Z", "09:00:00Z", 1),
		"two newlines":   s + "\n\n",
		"cut":            s[:len(s)-1],
		"empty proof":    strings.Replace(s, `"proof":[`, `"proof":[],"x":[`, 1),
		"no witness":     strings.Replace(s, "witness.example+", "+", 1),
		"too large":      strings.Repeat(" ", MaxEvidenceBytes+1),
	} {
		if bad == s {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := ParseEvidence([]byte(bad)); !errors.Is(err, ErrEvidence) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	again := *e
	again.ObservedAt, again.Witness = "2030-01-01T00:00:00.000Z", "x"
	if again.ID() != e.ID() {
		t.Error("who saw it and when changes the id")
	}
	again.Offered = e.Cosigned
	if again.ID() == e.ID() {
		t.Error("another checkpoint has the same id")
	}
	if diff := cmp.Diff(KindRewritten.Conclusive(), true); diff != "" || KindUnproven.Conclusive() {
		t.Error("what is conclusive has changed")
	}
}

func FuzzParseEvidence(f *testing.F) {
	seeds.Add(f, "tlog/equivocation.json")
	f.Add([]byte(`{"kind":"same_size","observedAt":"2026-11-30T09:00:00.005Z","offered":"a","origin":"o","schemaVersion":"counterfoil.equivocation.v1","witness":"witness.example+51e0db20+AT"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEvidence(b)
		if err != nil {
			return
		}
		again, err := e.Marshal()
		if err != nil || !bytes.Equal(again, bytes.TrimSuffix(b, []byte("\n"))) {
			t.Errorf("%q is written back as %q, %v", b, again, err)
		}
		_ = e.ID()
		_ = e.Verify(nil)
	})
}
