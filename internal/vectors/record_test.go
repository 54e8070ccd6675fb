package vectors

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	"counterfoil/ledger/lifecycle"
	"counterfoil/ledger/tiles"
)

func TestLOG02_ATT03_ATT04_ATT10_ATT11_Leaf(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Keys        []struct {
			Name      string `json:"name"`
			Seed      string `json:"seed"`
			PublicKey string `json:"publicKey"`
			KeyID     string `json:"keyId"`
		} `json:"keys"`
		PAE []struct {
			Rule        string `json:"rule"`
			PayloadType string `json:"payloadType"`
			Payload     string `json:"payload"`
			PAE         string `json:"pae"`
		} `json:"pae"`
		Accept []struct {
			Rule       string `json:"rule"`
			Leaf       string `json:"leaf"`
			LeafHash   string `json:"leafHash"`
			EventID    string `json:"eventId"`
			Subject    string `json:"subject"`
			PAE        string `json:"pae"`
			Signatures []struct {
				KeyID string `json:"keyId"`
				Sig   string `json:"sig"`
			} `json:"signatures"`
			Verifies map[string]int `json:"verifies"`
		} `json:"accept"`
		Reject []struct {
			Rule string  `json:"rule"`
			Leaf string  `json:"leafBase64"`
			Path *string `json:"path"`
		} `json:"reject"`
		Largest struct {
			Rule     string `json:"rule"`
			Leaf     string `json:"leafBase64"`
			LeafHash string `json:"leafHash"`
			EventID  string `json:"eventId"`
		} `json:"largest"`
	}
	load(t, "leaf.json", &doc)
	keys := map[string]ed25519.PrivateKey{}
	for _, k := range some(t, "keys", doc.Keys) {
		priv := ed25519.NewKeyFromSeed(unhex(t, k.Seed))
		pub := priv.Public().(ed25519.PublicKey)
		if hex.EncodeToString(pub) != k.PublicKey || event.KeyID(pub) != k.KeyID {
			t.Errorf("key %s: got %x, %s", k.Name, pub, event.KeyID(pub))
		}
		keys[k.Name] = priv
	}
	for _, c := range some(t, "pae", doc.PAE) {
		if got := string(event.PAE(c.PayloadType, []byte(c.Payload))); got != c.PAE {
			t.Errorf("%s: got %q, want %q", c.Rule, got, c.PAE)
		}
	}
	for _, c := range some(t, "accept", doc.Accept) {
		rec, err := event.ParseRecord([]byte(c.Leaf))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		hash := tiles.LeafHashOf([]byte(c.Leaf))
		pae := event.PAE(event.PayloadType, rec.EventBytes)
		if hex.EncodeToString(hash[:]) != c.LeafHash || rec.Digest().EventID() != c.EventID || event.SubjectOfLeaf([]byte(c.Leaf)) != c.Subject || hex.EncodeToString(pae) != c.PAE {
			t.Errorf("%s: got %x, %s, %s, %x", c.Rule, hash, rec.Digest().EventID(), event.SubjectOfLeaf([]byte(c.Leaf)), pae)
		}
		if len(rec.Signatures) != len(c.Signatures) {
			t.Errorf("%s: %d signatures, want %d", c.Rule, len(rec.Signatures), len(c.Signatures))
			continue
		}
		for i, s := range c.Signatures {
			if rec.Signatures[i].KeyID != s.KeyID || hex.EncodeToString(rec.Signatures[i].Sig) != s.Sig {
				t.Errorf("%s: signature %d is %s %x", c.Rule, i, rec.Signatures[i].KeyID, rec.Signatures[i].Sig)
			}
		}
		for name, want := range c.Verifies {
			pub := keys[name].Public().(ed25519.PublicKey)
			got := rec.VerifyWith(pub)
			if got != want {
				t.Errorf("%s: %s verifies at %d, want %d", c.Rule, name, got, want)
			}
			if got >= 0 && !bytes.Equal(signAs(t, rec.Signatures[got].KeyID, keys[name], pae), rec.Signatures[got].Sig) {
				t.Errorf("%s: signing again gives other bytes", c.Rule)
			}
		}
		if got := event.AppendLeaf(nil, rec.Event.Append(nil), event.AppendSignatures(nil, rec.Signatures)); string(got) != c.Leaf {
			t.Errorf("%s: written as\n%s\nwant\n%s", c.Rule, got, c.Leaf)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		leaf := unb64(t, c.Leaf)
		_, err := event.ParseRecord(leaf)
		var ee *event.Error
		if !errors.As(err, &ee) || (c.Path != nil && ee.Path != *c.Path) {
			t.Errorf("%s: got %v", c.Rule, err)
		}
		if got := event.SubjectOfLeaf(leaf); got != event.UnparsedSubject {
			t.Errorf("%s: subject %s", c.Rule, got)
		}
	}
	leaf := unb64(t, doc.Largest.Leaf)
	rec, err := event.ParseRecord(leaf)
	if err != nil || len(leaf) != event.MaxLeafBytes {
		t.Fatalf("%s: %d bytes, %v", doc.Largest.Rule, len(leaf), err)
	}
	if hash := tiles.LeafHashOf(leaf); hex.EncodeToString(hash[:]) != doc.Largest.LeafHash || rec.Digest().EventID() != doc.Largest.EventID {
		t.Errorf("%s: got %x, %s", doc.Largest.Rule, hash, rec.Digest().EventID())
	}
}

func TestEVI17_PRV09_CanonicalRequest(t *testing.T) {
	type vector struct {
		Rule      string `json:"rule"`
		Body      string `json:"body"`
		Canonical string `json:"canonical"`
		Tag       string `json:"tag"`
	}
	var doc struct {
		Description string   `json:"description"`
		TenantKey   string   `json:"tenantKey"`
		AttemptKey  string   `json:"attemptKey"`
		TagKey      string   `json:"tagKey"`
		Begin       []vector `json:"begin"`
		Append      []vector `json:"append"`
	}
	load(t, "request.json", &doc)
	tagKey := commit.TagKey(unhex(t, doc.TenantKey), unhex(t, doc.AttemptKey))
	if hex.EncodeToString(tagKey) != doc.TagKey {
		t.Errorf("tag key %x, want %s", tagKey, doc.TagKey)
	}
	check := func(c vector, parsed any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			return
		}
		// The intake hashes the canonical form of the request as it parsed it.
		b, err := json.Marshal(parsed)
		if err != nil {
			t.Fatal(err)
		}
		v := jsontext.Value(b)
		if err := v.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if string(v) != c.Canonical {
			t.Errorf("%s: got\n%s\nwant\n%s", c.Rule, v, c.Canonical)
		}
		if got := commit.FormatTag(commit.RequestTag(tagKey, []byte(c.Canonical))); got != c.Tag {
			t.Errorf("%s: tag %s, want %s", c.Rule, got, c.Tag)
		}
	}
	for _, c := range some(t, "begin", doc.Begin) {
		b, err := intake.ParseBegin([]byte(c.Body))
		check(c, b, err)
	}
	for _, c := range some(t, "append", doc.Append) {
		a, err := intake.ParseAppend([]byte(c.Body), "")
		check(c, a, err)
	}
}

func TestEVI10_EVI18_EVI19_EVI20_EVI23_Lifecycle(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Cases       []struct {
			Rule   string `json:"rule"`
			Events []struct {
				Event string `json:"event"`
				Code  string `json:"code"`
			} `json:"events"`
			Summary struct {
				State          string `json:"state"`
				Outcome        string `json:"outcome"`
				Reversal       string `json:"reversal"`
				Reconciliation string `json:"reconciliation"`
				Review         string `json:"review"`
				InDoubt        bool   `json:"inDoubt"`
				Corrected      bool   `json:"corrected"`
			} `json:"summary"`
		} `json:"cases"`
	}
	load(t, "lifecycle.json", &doc)
	for _, c := range some(t, "cases", doc.Cases) {
		var s lifecycle.State
		for i, x := range c.Events {
			e, err := event.Parse([]byte(x.Event))
			if err != nil {
				t.Fatalf("%s, event %d: %v", c.Rule, i+1, err)
			}
			code := ""
			if v := s.Apply(e, event.DigestOf([]byte(x.Event))); v != nil {
				code = v.Code
			}
			if code != x.Code {
				t.Errorf("%s, event %d: got %q, want %q", c.Rule, i+1, code, x.Code)
			}
		}
		want := lifecycle.Summary{State: c.Summary.State, Outcome: c.Summary.Outcome, Reconciliation: c.Summary.Reconciliation,
			Reversal: c.Summary.Reversal, Review: c.Summary.Review, InDoubt: c.Summary.InDoubt, Corrected: c.Summary.Corrected}
		if d := cmp.Diff(want, s.Summary()); d != "" {
			t.Errorf("%s: %s", c.Rule, d)
		}
	}
}

// signAs signs in the scheme that a key id names.
func signAs(t *testing.T, keyID string, key ed25519.PrivateKey, message []byte) []byte {
	t.Helper()
	if keyID != event.PrehashKeyID(key.Public().(ed25519.PublicKey)) {
		return ed25519.Sign(key, message)
	}
	digest := event.Prehash(message)
	sig, err := key.Sign(nil, digest[:], &ed25519.Options{Hash: crypto.SHA512})
	if err != nil {
		t.Fatal(err)
	}
	return sig
}
