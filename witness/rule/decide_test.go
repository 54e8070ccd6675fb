package rule

import (
	"crypto/ed25519"
	"testing"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"counterfoil/ledger/trust"
)

func TestLOG08_EveryStatus(t *testing.T) {
	log, other := newSigner(t, origin, "log"), newSigner(t, "stranger.example", "stranger")
	x, y := newTree(20, plainLeaf), newTree(20, forkedAt(5))
	emptyWrong := trust.Checkpoint{Origin: origin, Root: [HashSize]byte{1}}
	bad := func(r *Request) *Request {
		sig := append([]byte(nil), r.Note.Signatures[0].Sig...)
		sig[3] ^= 1
		r.Note.Signatures[0].Sig = sig
		return r
	}
	plus := func(r *Request, s trust.NoteSignature) *Request {
		r.Note.Signatures = append(r.Note.Signatures, s)
		return r
	}
	junk := make([]byte, 64)
	for _, test := range []struct {
		name     string
		stored   State
		r        *Request
		status   int // 0 is accepted
		evidence Kind
	}{
		{"first", State{}, request(t, 0, nil, x.checkpoint(7), log), 0, ""},
		{"first, empty tree", State{}, request(t, 0, nil, x.checkpoint(0), log), 0, ""},
		{"from the empty tree", x.state(0), request(t, 0, nil, x.checkpoint(7), log), 0, ""},
		{"grows", x.state(7), request(t, 7, x.proof(t, 7, 20), x.checkpoint(20), log), 0, ""},
		{"grows from a power of two", x.state(8), request(t, 8, x.proof(t, 8, 20), x.checkpoint(20), log), 0, ""},
		{"the same again", x.state(7), request(t, 7, nil, x.checkpoint(7), log), 0, ""},
		{"unknown signatures beside", x.state(7), request(t, 7, nil, x.checkpoint(7), log, other), 0, ""},
		{"same name, other id", x.state(7), plus(request(t, 7, nil, x.checkpoint(7), log), trust.NoteSignature{Name: origin, ID: log.key.ID + 1, Sig: junk}), 0, ""},
		{"same id, other name", x.state(7), plus(request(t, 7, nil, x.checkpoint(7), log), trust.NoteSignature{Name: "x", ID: log.key.ID, Sig: junk}), 0, ""},

		{"only a stranger's signature", x.state(7), request(t, 7, nil, x.checkpoint(7), other), StatusForbidden, ""},
		{"bad signature", x.state(7), bad(request(t, 7, nil, x.checkpoint(7), log)), StatusForbidden, ""},
		{"good and bad signature of one key", x.state(7), plus(request(t, 7, nil, x.checkpoint(7), log), trust.NoteSignature{Name: origin, ID: log.key.ID, Sig: junk}), StatusForbidden, ""},
		{"bad signature goes before a wrong old size", x.state(7), bad(request(t, 3, nil, x.checkpoint(7), log)), StatusForbidden, ""},

		{"old above size", x.state(9), request(t, 9, nil, x.checkpoint(7), log), StatusSyntax, ""},
		{"old above size and not the stored one", x.state(7), request(t, 9, nil, x.checkpoint(8), log), StatusSyntax, ""},

		{"old too small", x.state(7), request(t, 3, x.proof(t, 3, 9), x.checkpoint(9), log), StatusConflict, ""},
		{"old 0 to learn the size", x.state(7), request(t, 0, nil, x.checkpoint(9), log), StatusConflict, ""},
		{"old too large", x.state(7), request(t, 8, x.proof(t, 8, 9), x.checkpoint(9), log), StatusConflict, ""},
		{"old without a state", State{}, request(t, 3, x.proof(t, 3, 9), x.checkpoint(9), log), StatusConflict, ""},
		{"smaller tree", x.state(9), request(t, 3, nil, x.checkpoint(3), log), StatusConflict, ""},
		{"wrong old size of a fork at the stored size", x.state(9), request(t, 3, nil, y.checkpoint(9), log), StatusConflict, KindSameSize},

		{"size 0, other root", State{}, request(t, 0, nil, emptyWrong, log), StatusUnproven, KindEmptyRoot},
		{"old 0 with a proof", State{}, request(t, 0, x.proof(t, 3, 9), x.checkpoint(9), log), StatusUnproven, ""},
		{"size 0 with a proof", State{}, request(t, 0, x.proof(t, 3, 9), x.checkpoint(0), log), StatusUnproven, ""},
		{"same size, other root", x.state(9), request(t, 9, nil, y.checkpoint(9), log), StatusUnproven, KindSameSize},
		{"same size, other root, with a proof", x.state(9), request(t, 9, x.proof(t, 3, 9), y.checkpoint(9), log), StatusUnproven, KindSameSize},
		{"same size, same root, with a proof", x.state(9), request(t, 9, x.proof(t, 3, 9), x.checkpoint(9), log), StatusUnproven, ""},
		{"no proof", x.state(7), request(t, 7, nil, x.checkpoint(9), log), StatusUnproven, KindUnproven},
		{"one hash too many", x.state(7), request(t, 7, append(x.proof(t, 7, 9), make([]byte, 32)), x.checkpoint(9), log), StatusUnproven, KindUnproven},
		{"proof of other sizes", x.state(7), request(t, 7, x.proof(t, 6, 9), x.checkpoint(9), log), StatusUnproven, KindUnproven},
		{"a fork with its own proof", x.state(7), request(t, 7, y.proof(t, 7, 9), y.checkpoint(9), log), StatusUnproven, KindRewritten},
		{"a fork with the honest proof", x.state(7), request(t, 7, x.proof(t, 7, 9), y.checkpoint(9), log), StatusUnproven, KindUnproven},
		{"a fork at a power of two", x.state(8), request(t, 8, y.proof(t, 8, 9), y.checkpoint(9), log), StatusUnproven, KindUnproven},
	} {
		t.Run(test.name, func(t *testing.T) {
			refusal := Decide([]trust.VerifierKey{log.key}, test.stored, test.r)
			switch {
			case refusal == nil && test.status != 0:
				t.Fatalf("accepted, want %d", test.status)
			case refusal == nil:
				return
			case refusal.Status != test.status || refusal.Evidence != test.evidence:
				t.Fatalf("%v, evidence %q; want %d, %q", refusal, refusal.Evidence, test.status, test.evidence)
			case refusal.Status == StatusConflict && refusal.Size != test.stored.Size:
				t.Errorf("size %d, stored is %d", refusal.Size, test.stored.Size)
			}
			// Whatever is called evidence verifies as such from the document alone.
			if refusal.Evidence == "" {
				return
			}
			checkEvidence(t, log, test.stored, test.r, refusal.Evidence)
		})
	}
	if refusal := Decide(nil, State{}, request(t, 9, nil, x.checkpoint(7), log)); refusal == nil || refusal.Status != StatusUnknown {
		t.Errorf("unknown origin: %v", refusal)
	}
}

// TestLOG08_OnlyTrueGrowthIsAccepted: over random pairs of trees, what is
// accepted is exactly the growth of the stored tree.
func TestLOG08_OnlyTrueGrowthIsAccepted(t *testing.T) {
	log := newSigner(t, origin, "log")
	keys := []trust.VerifierKey{log.key}
	const most = 40
	x := newTree(most, plainLeaf)
	rapid.Check(t, func(rt *rapid.T) {
		fork := rapid.IntRange(0, most).Draw(rt, "fork")
		from := uint64(rapid.IntRange(0, most).Draw(rt, "from"))
		to := uint64(rapid.IntRange(int(from), most).Draw(rt, "to"))
		y := newTree(most, forkedAt(fork))
		var proof [][]byte
		if from > 0 {
			proof = y.proof(t, from, to)
		}
		refusal := Decide(keys, x.state(from), request(t, from, proof, y.checkpoint(to), log))
		grows := from == 0 || uint64(fork) >= from // the first leaves agree
		if grows != (refusal == nil) {
			rt.Fatalf("fork at %d, %d to %d: %v", fork, from, to, refusal)
		}
		if refusal != nil && refusal.Status != StatusUnproven {
			rt.Fatalf("status %d", refusal.Status)
		}
		// No proof that honest trees can give makes a conclusive accusation.
		if refusal == nil && from > 0 && to > from {
			i := rapid.IntRange(0, len(proof)-1).Draw(rt, "hash")
			broken := append([][]byte(nil), proof...)
			broken[i] = append([]byte(nil), proof[i]...)
			broken[i][rapid.IntRange(0, 31).Draw(rt, "byte")] ^= 1
			r := Decide(keys, x.state(from), request(t, from, broken, y.checkpoint(to), log))
			if r == nil || r.Evidence != KindUnproven {
				rt.Fatalf("broken proof: %v", r)
			}
		}
	})
}

func TestLOG10_CosignatureVerifiesElsewhere(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	k, err := trust.NewVerifierKey("witness.example", trust.TypeCosignature, private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	log := newSigner(t, origin, "log")
	c := newTree(3, plainLeaf).checkpoint(3)
	c.Extension = "extra line\n"
	n := signed(t, c, log)
	line, err := Cosignature(k, 1700000000, n.Text, ed25519.Sign(private, CosignatureMessage(1700000000, n.Text)))
	if err != nil {
		t.Fatal(err)
	}
	n.Signatures = append(n.Signatures, line)
	v, err := cosign.NewVerifierForCosignatureV1(k.String())
	if err != nil {
		t.Fatal(err)
	}
	opened, err := note.Open(n.Append(nil), note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	at, err := cosign.CoSigV1Timestamp(opened.Sigs[0])
	if err != nil || at.Unix() != 1700000000 {
		t.Errorf("time %v, %v", at, err)
	}
	for name, f := range map[string]func() (trust.NoteSignature, error){
		"another text": func() (trust.NoteSignature, error) {
			return Cosignature(k, 5, n.Text, ed25519.Sign(private, CosignatureMessage(5, "x\n")))
		},
		"time 0": func() (trust.NoteSignature, error) {
			return Cosignature(k, 0, n.Text, ed25519.Sign(private, CosignatureMessage(0, n.Text)))
		},
		"time beyond 63 bits": func() (trust.NoteSignature, error) {
			return Cosignature(k, 1<<63, n.Text, ed25519.Sign(private, CosignatureMessage(1<<63, n.Text)))
		},
		"short signature": func() (trust.NoteSignature, error) { return Cosignature(k, 5, n.Text, make([]byte, 63)) },
		"key of a log":    func() (trust.NoteSignature, error) { return Cosignature(log.key, 5, n.Text, make([]byte, 64)) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
