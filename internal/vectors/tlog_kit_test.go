package vectors

import (
	"encoding/hex"
	"strings"
	"testing"

	"counterfoil/ledger/trust"
)

// piece is a part of a byte string; see testdata/vectors/README.md.
type piece struct {
	text   string
	base64 string
	repeat string
	times  int
	use    string
}

func (p *piece) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return strict(b, &p.text)
	}
	var o struct {
		Base64 string `json:"base64"`
		Repeat string `json:"repeat"`
		Times  int    `json:"times"`
		Use    string `json:"use"`
	}
	err := strict(b, &o)
	p.base64, p.repeat, p.times, p.use = o.Base64, o.Repeat, o.Times, o.Use
	return err
}

type pieces []piece

type parts map[string]string

// join gives the bytes that stand in a vector file as pieces.
func (of parts) join(t *testing.T, list pieces) []byte {
	t.Helper()
	var b []byte
	for _, p := range list {
		b = append(b, p.text...)
		b = append(b, unb64(t, p.base64)...)
		b = append(b, strings.Repeat(p.repeat, p.times)...)
		if p.use != "" {
			text, ok := of[p.use]
			if !ok {
				t.Fatalf("no part is called %q", p.use)
			}
			b = append(b, text...)
		}
	}
	return b
}

func (of parts) text(t *testing.T, list pieces) string {
	t.Helper()
	return string(of.join(t, list))
}

// key reads a verifier key that the vectors rely on.
func (of parts) key(t *testing.T, list pieces) trust.VerifierKey {
	t.Helper()
	k, err := trust.ParseVerifierKey(of.text(t, list))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (of parts) keys(t *testing.T, list map[string]pieces) map[string]trust.VerifierKey {
	t.Helper()
	keys := map[string]trust.VerifierKey{}
	for name, p := range list {
		keys[name] = of.key(t, p)
	}
	return keys
}

// caseRule is what every case of tlog/ begins with.
type caseRule struct {
	Spec string `json:"spec"`
	Rule string `json:"rule"`
}

func (r caseRule) String() string { return r.Spec + ", " + r.Rule }

func hash32(t *testing.T, s string) (h [32]byte) {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		t.Fatalf("%q is no hash", s)
	}
	copy(h[:], b)
	return h
}
