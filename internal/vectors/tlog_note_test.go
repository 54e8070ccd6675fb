package vectors

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"filippo.io/mldsa"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

func TestLOG10_VerifierKeyVectors(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Parts       parts  `json:"parts"`
		Accept      []struct {
			caseRule
			VKey   pieces `json:"vkey"`
			Name   string `json:"name"`
			ID     string `json:"id"`
			Type   byte   `json:"type"`
			Public string `json:"publicSha256"`
		} `json:"accept"`
		Reject []struct {
			caseRule
			VKey pieces `json:"vkey"`
		} `json:"reject"`
	}
	load(t, "tlog/verifier_key.json", &doc)
	for _, c := range some(t, "accept", doc.Accept) {
		text := doc.Parts.text(t, c.VKey)
		k, err := trust.ParseVerifierKey(text)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		public := sha256.Sum256(k.Public)
		if k.String() != text || k.Name != c.Name || fmt.Sprintf("%08x", k.ID) != c.ID || byte(k.Type) != c.Type || hex.EncodeToString(public[:]) != c.Public {
			t.Errorf("%s: read as %q, %08x, %s", c, k.Name, k.ID, k.Type)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		if k, err := trust.ParseVerifierKey(doc.Parts.text(t, c.VKey)); !errors.Is(err, trust.ErrVerifierKey) {
			t.Errorf("%s: read as %q, %v", c, k.Name, err)
		}
	}
}

// finding is what a verifier finds of one key in a note: "bad", or its lines.
type finding struct {
	Bad   bool
	Lines int
	Time  uint64
}

func (f *finding) UnmarshalJSON(b []byte) error {
	if string(b) == `"bad"` {
		f.Bad = true
		return nil
	}
	var o struct {
		Lines int    `json:"lines"`
		Time  string `json:"time"`
	}
	if err := strict(b, &o); err != nil || o.Time == "" {
		f.Lines = o.Lines
		return err
	}
	n, err := strconv.ParseUint(o.Time, 10, 64)
	f.Lines, f.Time = o.Lines, n
	return err
}

// verify compares what each key finds in a note.
func verify(t *testing.T, c fmt.Stringer, n *trust.Note, keys map[string]trust.VerifierKey, want map[string]finding) {
	t.Helper()
	if len(want) == 0 {
		t.Fatalf("%s: no key looks", c)
	}
	for name, w := range want {
		k, ok := keys[name]
		if !ok {
			t.Fatalf("no key is called %q", name)
		}
		v, err := n.VerifyBy(k)
		got := finding{errors.Is(err, trust.ErrNoteSignature), v.Lines, v.Timestamp}
		if got != w || (err != nil) != w.Bad {
			t.Errorf("%s: %s finds %+v, %v; want %+v", c, name, got, err, w)
		}
	}
}

type verifyCase struct {
	caseRule
	Note   pieces             `json:"note"`
	Verify map[string]finding `json:"verify"`
}

func (c verifyCase) check(t *testing.T, of parts, keys map[string]trust.VerifierKey) {
	t.Helper()
	b := of.join(t, c.Note)
	n, err := trust.ParseNote(b)
	if err != nil {
		t.Errorf("%s: %v", c, err)
		return
	}
	if string(n.Append(nil)) != string(b) {
		t.Errorf("%s: not written as it was read", c)
	}
	verify(t, c, n, keys, c.Verify)
}

func TestLOG10_SignedNoteVectors(t *testing.T) {
	var doc struct {
		Description string            `json:"description"`
		Parts       parts             `json:"parts"`
		Keys        map[string]pieces `json:"keys"`
		Accept      []struct {
			verifyCase
			TextBytes  int `json:"textBytes"`
			Lines      int `json:"lines"`
			Signatures []struct {
				Name  string `json:"name"`
				ID    string `json:"id"`
				Bytes int    `json:"bytes"`
			} `json:"signatures"`
		} `json:"accept"`
		Verify []verifyCase `json:"verify"`
		Reject []struct {
			caseRule
			Note pieces `json:"note"`
		} `json:"reject"`
	}
	load(t, "tlog/signed_note.json", &doc)
	keys := doc.Parts.keys(t, doc.Keys)
	for _, c := range some(t, "accept", doc.Accept) {
		c.check(t, doc.Parts, keys)
		n, err := trust.ParseNote(doc.Parts.join(t, c.Note))
		if err != nil {
			continue
		}
		if len(n.Text) != c.TextBytes || len(n.Signatures) != c.Lines {
			t.Errorf("%s: a text of %d bytes and %d lines, want %d and %d", c, len(n.Text), len(n.Signatures), c.TextBytes, c.Lines)
		}
		for i, s := range c.Signatures {
			if got := n.Signatures[i]; got.Name != s.Name || fmt.Sprintf("%08x", got.ID) != s.ID || len(got.Sig) != s.Bytes {
				t.Errorf("%s: line %d is of %q, %08x, %d bytes", c, i+1, got.Name, got.ID, len(got.Sig))
			}
		}
	}
	for _, c := range some(t, "verify", doc.Verify) {
		c.check(t, doc.Parts, keys)
	}
	for _, c := range some(t, "reject", doc.Reject) {
		if _, err := trust.ParseNote(doc.Parts.join(t, c.Note)); !errors.Is(err, trust.ErrNote) {
			t.Errorf("%s: %v", c, err)
		}
	}
}

func TestLOG10_CheckpointVectors(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Accept      []struct {
			caseRule
			Text        pieces `json:"text"`
			OriginBytes int    `json:"originBytes"`
			Size        string `json:"size"`
			Root        string `json:"root"`
			Extensions  int    `json:"extensionLines"`
		} `json:"accept"`
		Reject []struct {
			caseRule
			Text pieces `json:"text"`
		} `json:"reject"`
	}
	load(t, "tlog/checkpoint.json", &doc)
	for _, c := range some(t, "accept", doc.Accept) {
		text := parts(nil).text(t, c.Text)
		cp, err := trust.ParseCheckpoint(text)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		if cp.Text() != text || len(cp.Origin) != c.OriginBytes || strconv.FormatUint(cp.Size, 10) != c.Size || cp.Root != hash32(t, c.Root) ||
			strings.Count(cp.Extension, "\n") != c.Extensions {
			t.Errorf("%s: read as size %d, root %x, %d bytes of origin", c, cp.Size, cp.Root, len(cp.Origin))
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		if cp, err := trust.ParseCheckpoint(parts(nil).text(t, c.Text)); !errors.Is(err, trust.ErrCheckpoint) {
			t.Errorf("%s: read as %+v, %v", c, cp, err)
		}
	}
}

func TestLOG10_CosignatureVectors(t *testing.T) {
	var doc struct {
		Description string            `json:"description"`
		Parts       parts             `json:"parts"`
		Keys        map[string]pieces `json:"keys"`
		Message     []struct {
			caseRule
			Key     string `json:"key"`
			Time    string `json:"time"`
			Text    pieces `json:"text"`
			Message string `json:"message"`
		} `json:"message"`
		Lattice []struct {
			caseRule
			Seed      string `json:"seed"`
			Public    string `json:"publicSha256"`
			Message   string `json:"message"`
			Signature string `json:"signatureSha256"`
		} `json:"lattice"`
		Verify []verifyCase `json:"verify"`
	}
	load(t, "tlog/cosignature.json", &doc)
	keys := doc.Parts.keys(t, doc.Keys)
	for _, c := range some(t, "message", doc.Message) {
		if keys[c.Key].Type != trust.TypeCosignature {
			continue // type 0x06 is only verified: see below
		}
		at, err := strconv.ParseUint(c.Time, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.CosignatureMessage(at, doc.Parts.text(t, c.Text)); string(got) != string(unhex(t, c.Message)) {
			t.Errorf("%s: signs %q", c, got)
		}
	}
	for _, c := range some(t, "verify", doc.Verify) {
		c.check(t, doc.Parts, keys)
	}
	// The module that verifies type 0x06 agrees with FIPS 204 as the vectors have it.
	for _, c := range some(t, "lattice", doc.Lattice) {
		k, err := mldsa.NewPrivateKey(mldsa.MLDSA44(), unhex(t, c.Seed))
		if err != nil {
			t.Fatal(err)
		}
		sig, err := k.SignDeterministic(unhex(t, c.Message), nil)
		if err != nil {
			t.Fatal(err)
		}
		public, signature := sha256.Sum256(k.PublicKey().Bytes()), sha256.Sum256(sig)
		if public != hash32(t, c.Public) || signature != hash32(t, c.Signature) {
			t.Errorf("%s: public key %x, signature %x", c, public, signature)
		}
	}
}
