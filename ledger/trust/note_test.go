package trust

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"
)

const (
	origin   = "ledger.example/log"
	rootText = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
	tree     = origin + "\n42\n" + rootText + "\n"
)

func TestATT09_NoteVerifiesUnderTheGivenKeyAlone(t *testing.T) {
	b := sign(t, tree, logSigner(t, origin, "log"))
	n := must(ParseNote(b))(t)
	if got := string(n.Append(nil)); got != string(b) {
		t.Errorf("round trip gives %q", got)
	}
	if v := must(n.VerifyBy(vkey(t, origin, TypeEd25519, "log")))(t); v.Lines != 1 {
		t.Errorf("lines %d, want 1", v.Lines)
	}
	for name, k := range map[string]VerifierKey{
		"fresh key under the same name": vkey(t, origin, TypeEd25519, "fresh"),
		"same key under another name":   vkey(t, origin+"2", TypeEd25519, "log"),
		"same key of another type":      vkey(t, origin, TypeCosignature, "log"),
	} {
		if v, err := n.VerifyBy(k); v.Lines != 0 || err != nil {
			t.Errorf("%s: got %+v, %v; want no line", name, v, err)
		}
	}
}

// One bad line of a known key spoils the note, wherever it stands; the usual
// parser drops a second line of one key unread.
func TestATT11_EveryLineOfAKnownKeyIsVerified(t *testing.T) {
	k := vkey(t, origin, TypeEd25519, "log")
	good := must(ParseNote(sign(t, tree, logSigner(t, origin, "log"))))(t)
	bad := good.Signatures[0]
	bad.Sig = append([]byte{bad.Sig[0] ^ 1}, bad.Sig[1:]...)
	for name, sigs := range map[string][]NoteSignature{
		"first":  {bad, good.Signatures[0]},
		"second": {good.Signatures[0], bad},
		"alone":  {bad},
		"short":  {{k.Name, k.ID, []byte{1}}},
	} {
		n := must(ParseNote((&Note{tree, sigs}).Append(nil)))(t)
		if _, err := n.VerifyBy(k); !errors.Is(err, ErrNoteSignature) {
			t.Errorf("%s: got %v, want ErrNoteSignature", name, err)
		}
	}
	// Lines of keys that share the name or the id alone are those of strangers.
	strangers := []NoteSignature{{k.Name, k.ID + 1, bad.Sig}, {k.Name + "2", k.ID, bad.Sig}, good.Signatures[0], good.Signatures[0]}
	n := must(ParseNote((&Note{tree, strangers}).Append(nil)))(t)
	if v, err := n.VerifyBy(k); err != nil || v.Lines != 2 {
		t.Errorf("strangers: got %+v, %v; want 2 lines", v, err)
	}
}

func TestBND02_NoteHasOneSpelling(t *testing.T) {
	sig := "— " + origin + " " + base64.StdEncoding.EncodeToString([]byte{1, 2, 3, 4, 5}) + "\n"
	if _, err := ParseNote([]byte(tree + "\n" + sig)); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{
		"empty":                "",
		"no blank line":        tree + sig,
		"no signature":         tree + "\n",
		"blank line last":      tree + "\n" + sig + "\n",
		"no last newline":      strings.TrimSuffix(tree+"\n"+sig, "\n"),
		"carriage return":      strings.ReplaceAll(tree+"\n"+sig, "\n", "\r\n"),
		"tab":                  "a\tb\n\n" + sig,
		"nul":                  "a\x00\n\n" + sig,
		"invalid UTF-8":        "a\xff\n\n" + sig,
		"hyphen for the dash":  tree + "\n" + strings.Replace(sig, "—", "-", 1),
		"two spaces":           tree + "\n" + strings.Replace(sig, "— ", "—  ", 1),
		"no name":              tree + "\n— AQIDBAU=\n",
		"plus in the name":     tree + "\n" + strings.Replace(sig, origin, "a+b", 1),
		"wide space in name":   tree + "\n" + strings.Replace(sig, origin, "a\u2003b", 1),
		"no padding":           tree + "\n" + strings.Replace(sig, "=", "", 1),
		"URL alphabet":         tree + "\n— x " + "AQID__8=\n",
		"trailing bits":        tree + "\n" + strings.Replace(sig, "AQIDBAU=", "AQIDBAV=", 1),
		"key id alone":         tree + "\n— x AQIDBA==\n",
		"bytes after base64":   tree + "\n" + strings.Replace(sig, "=\n", "= \n", 1),
		"too many signatures":  tree + "\n" + strings.Repeat(sig, MaxNoteSignatures+1),
		"signature too long":   tree + "\n— x " + base64.StdEncoding.EncodeToString(make([]byte, 4+maxNoteSignatureBytes+1)) + "\n",
		"larger than the rest": strings.Repeat("a", MaxNoteBytes) + "\n\n" + sig,
	} {
		if _, err := ParseNote([]byte(s)); !errors.Is(err, ErrNote) {
			t.Errorf("%s: got %v, want ErrNote", name, err)
		}
	}
	if _, err := ParseNote([]byte(tree + "\n" + strings.Repeat(sig, MaxNoteSignatures))); err != nil {
		t.Errorf("%d signatures: %v", MaxNoteSignatures, err)
	}
	if n, err := ParseNote([]byte("a\n\nb\n\n" + sig)); err != nil || n.Text != "a\n\nb\n" {
		t.Errorf("text with a blank line: got %q, %v", n.Text, err)
	}
}

// The example of the C2SP signed-note text.
func TestATT09_SpecificationVector(t *testing.T) {
	const v = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
	k := must(ParseVerifierKey(v))(t)
	if k.String() != v || k.Type != TypeEd25519 || k.ID != 0x530d903a || k.Name != "example.com/foo" {
		t.Errorf("got %+v", k)
	}
	const poem = "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n"
	n := must(ParseNote([]byte(poem + "\n— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n")))(t)
	if n.Text != poem || n.Signatures[0].ID != 0x367ba04b || len(n.Signatures[0].Sig) != 64 {
		t.Errorf("got %+v", n)
	}
}

func TestATT09_VerifierKeyHasOneSpelling(t *testing.T) {
	good := vkey(t, origin, TypeEd25519, "log").String()
	if k := must(ParseVerifierKey(good))(t); k.String() != good {
		t.Errorf("round trip gives %s", k)
	}
	name, rest, _ := strings.Cut(good, "+")
	id, key, _ := strings.Cut(rest, "+")
	pub := append([]byte{1}, publicOf("log")...)
	enc := base64.StdEncoding.EncodeToString
	for what, s := range map[string]string{
		"empty":             "",
		"two parts":         name + "+" + id,
		"no name":           "+" + id + "+" + key,
		"space in name":     "a b+" + id + "+" + key,
		"delete in name":    "a\x7f+" + id + "+" + key,
		"other id":          name + "+00000000+" + key,
		"upper-case id":     name + "+" + strings.ToUpper(id) + "+" + key,
		"short id":          name + "+" + strings.TrimLeft(id, "0") + "0+" + key,
		"no padding":        name + "+" + id + "+" + strings.TrimRight(key, "=") + "=",
		"line break":        name + "+" + id + "+" + key[:4] + "\n" + key[4:],
		"no key":            name + "+" + id + "+",
		"short key":         name + "+" + id + "+" + enc(pub[:32]),
		"long key":          name + "+" + id + "+" + enc(append(pub, 0)),
		"unknown type":      name + "+" + id + "+" + enc(append([]byte{2}, pub[1:]...)),
		"long name":         strings.Repeat("a", MaxKeyNameBytes+1) + "+" + id + "+" + key,
		"much too long":     name + "+" + id + "+" + strings.Repeat("A", 4<<10),
		"lattice too short": name + "+" + id + "+" + enc(append([]byte{6}, pub[1:]...)),
	} {
		if _, err := ParseVerifierKey(s); !errors.Is(err, ErrVerifierKey) {
			t.Errorf("%s: got %v, want ErrVerifierKey", what, err)
		}
	}
	for _, typ := range []KeyType{TypeEd25519, TypeCosignature, TypeMLDSA44} {
		k := vkey(t, "w.example/1", typ, "w1")
		if got := must(ParseVerifierKey(k.String()))(t); got.String() != k.String() || got.Type != typ {
			t.Errorf("%s: round trip gives %s", typ, got)
		}
	}
}

func TestCLM05_CosignaturesOfOtherImplementationsVerify(t *testing.T) {
	lattice, latticeKey := latticeSigner(t, "pq.example", "pq")
	classic := witnessSigner(t, "w.example", "w")
	classicKey := vkey(t, "w.example", TypeCosignature, "w")
	b := sign(t, tree, logSigner(t, origin, "log"), classic, lattice)
	n := must(ParseNote(b))(t)
	for _, k := range []VerifierKey{classicKey, latticeKey} {
		v, err := n.VerifyBy(k)
		if err != nil || v.Lines != 1 || v.Timestamp == 0 {
			t.Errorf("%s: got %+v, %v", k.Type, v, err)
		}
	}
	// What the messages cover: the time, and the text (the lattice message covers
	// origin, size and root, but no extension lines).
	for name, text := range map[string]string{
		"size":      strings.Replace(tree, "\n42\n", "\n43\n", 1),
		"root":      strings.Replace(tree, "CsU", "DsU", 1),
		"origin":    strings.Replace(tree, "ledger.", "Ledger.", 1),
		"extension": tree + "extension\n",
	} {
		for _, k := range []VerifierKey{classicKey, latticeKey} {
			covered := name != "extension" || k.Type != TypeMLDSA44
			_, err := (&Note{text, n.Signatures}).VerifyBy(k)
			if covered != errors.Is(err, ErrNoteSignature) {
				t.Errorf("%s under %s: got %v", name, k.Type, err)
			}
		}
	}
	for i, k := range []VerifierKey{classicKey, latticeKey} {
		sig := n.Signatures[i+1]
		later := append([]byte{}, sig.Sig...)
		later[7] ^= 1
		far := append([]byte{}, sig.Sig...)
		far[0] = 0x80
		for name, s := range map[string][]byte{"time": later, "time over 2^63": far, "short": sig.Sig[:len(sig.Sig)-1], "no time": sig.Sig[8:]} {
			if _, ok := k.Verify(tree, s); ok {
				t.Errorf("%s of %s: verifies", name, k.Type)
			}
		}
	}
	if _, ok := latticeKey.Verify("no checkpoint\n", n.Signatures[2].Sig); ok {
		t.Error("a lattice cosignature of no checkpoint verifies")
	}
}

func TestBND02_CheckpointHasOneSpelling(t *testing.T) {
	for _, s := range []string{
		tree,
		origin + "\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
		origin + "\n18446744073709551615\n" + rootText + "\n",
		tree + "extension one\nextension two\n",
		"go.sum database tree\n1\n" + rootText + "\n", // an origin of others may hold spaces
	} {
		c, err := ParseCheckpoint(s)
		if err != nil || c.Text() != s {
			t.Errorf("%q: got %q, %v", s, c.Text(), err)
		}
	}
	for name, s := range map[string]string{
		"empty":                 "",
		"one line":              origin + "\n",
		"two lines":             origin + "\n42\n",
		"no last newline":       strings.TrimSuffix(tree, "\n"),
		"no origin":             "\n42\n" + rootText + "\n",
		"leading zero":          strings.Replace(tree, "\n42\n", "\n042\n", 1),
		"plus":                  strings.Replace(tree, "\n42\n", "\n+42\n", 1),
		"minus":                 strings.Replace(tree, "\n42\n", "\n-42\n", 1),
		"hex":                   strings.Replace(tree, "\n42\n", "\n0x2a\n", 1),
		"underscore":            strings.Replace(tree, "\n42\n", "\n4_2\n", 1),
		"space":                 strings.Replace(tree, "\n42\n", "\n42 \n", 1),
		"no size":               strings.Replace(tree, "\n42\n", "\n\n", 1),
		"beyond 64 bits":        strings.Replace(tree, "\n42\n", "\n18446744073709551616\n", 1),
		"short root":            origin + "\n42\nAAAA\n",
		"long root":             origin + "\n42\n" + base64.StdEncoding.EncodeToString(make([]byte, 33)) + "\n",
		"root without padding":  strings.Replace(tree, "=", "", 1),
		"root trailing bits":    strings.Replace(tree, "q2I=", "q2J=", 1),
		"empty extension":       tree + "\n",
		"empty extension later": tree + "x\n\n",
	} {
		if c, err := ParseCheckpoint(s); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%s: got %+v, %v; want ErrCheckpoint", name, c, err)
		}
	}
}

// What this parser accepts, the reference implementation accepts too, with the
// same text and verdict.
func TestBND02_StricterThanTheReference(t *testing.T) {
	verifier := must(note.NewVerifier(vkey(t, origin, TypeEd25519, "log").String()))(t)
	k := vkey(t, origin, TypeEd25519, "log")
	good := string(sign(t, tree, logSigner(t, origin, "log")))
	rapid.Check(t, func(r *rapid.T) {
		b := []byte(good)
		for range rapid.IntRange(0, 2).Draw(r, "edits") {
			i := rapid.IntRange(0, len(b)-1).Draw(r, "at")
			b[i] = rapid.SampledFrom([]byte("\n A=+—x0\x00"+string(b[i]))).Draw(r, "byte")
		}
		n, err := ParseNote(b)
		if err != nil {
			return
		}
		if got := string(n.Append(nil)); got != string(b) {
			r.Fatalf("round trip of %q gives %q", b, got)
		}
		v, err := n.VerifyBy(k)
		ref, refErr := note.Open(b, note.VerifierList(verifier))
		if ours := err == nil && v.Lines > 0; ours != (refErr == nil) || (ours && ref.Text != n.Text) {
			r.Fatalf("%q: got %+v, %v; the reference says %v", b, v, err, refErr)
		}
	})
}

func FuzzParseNote(f *testing.F) {
	seeds.Add(f, "tlog/signed_note.json", "tlog/checkpoint.json")
	f.Add([]byte(tree + "\n— " + origin + " AQIDBAU=\n"))
	f.Add([]byte("\n\n— a AQIDBAU=\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ParseNote(b)
		if err != nil {
			if !errors.Is(err, ErrNote) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if got := n.Append(nil); string(got) != string(b) {
			t.Fatalf("%q comes back as %q", b, got)
		}
		if c, err := ParseCheckpoint(n.Text); err == nil && c.Text() != n.Text {
			t.Fatalf("checkpoint %q comes back as %q", n.Text, c.Text())
		}
	})
}
