package vectors

import (
	"bytes"
	"errors"
	"testing"

	"counterfoil/ledger/lease"
)

func TestCLU01_Lease(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Accept      []struct {
			Rule   string `json:"rule"`
			Record string `json:"record"`
		} `json:"accept"`
		Reject []struct {
			Rule   string `json:"rule"`
			Record string `json:"recordBase64"`
			Blanks int    `json:"blanks"`
		} `json:"reject"`
	}
	load(t, "lease.json", &doc)
	if len(doc.Accept) < 5 || len(doc.Reject) < 20 {
		t.Fatalf("%d and %d cases", len(doc.Accept), len(doc.Reject))
	}
	for _, c := range doc.Accept {
		r, err := lease.Parse([]byte(c.Record))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		if b, err := r.Encode(); err != nil || string(b) != c.Record {
			t.Errorf("%s: written as %q, %v", c.Rule, b, err)
		}
	}
	for _, c := range doc.Reject {
		data := append(bytes.Repeat([]byte(" "), c.Blanks), unb64(t, c.Record)...)
		if _, err := lease.Parse(data); !errors.Is(err, lease.ErrRecord) {
			t.Errorf("%s: %v, expected %v", c.Rule, err, lease.ErrRecord)
		}
	}
}
