package vectors

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

func TestBND01_BND02_BND05_BND06_BND08_BND09_Bundle(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Cases       []struct {
			Rule         string  `json:"rule"`
			Bundle       string  `json:"bundle"`
			Trust        *string `json:"trust"`
			MinSize      uint64  `json:"minSize"`
			Newest       string  `json:"newest"`
			AllowPartial bool    `json:"allowPartial"`
			MaxAge       int64   `json:"maxAge"`
			Now          int64   `json:"now"`
			Status       string  `json:"status"`
			Fails        []struct {
				Check     string  `json:"check"`
				LeafIndex *uint64 `json:"leafIndex"`
			} `json:"fails"`
			Only bool `json:"only"`
		} `json:"cases"`
	}
	load(t, "bundle.json", &doc)
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	failed := map[string]bool{} // check names that some case fails
	for _, c := range some(t, "cases", doc.Cases) {
		t.Run(c.Rule, func(t *testing.T) {
			var file *trust.File
			if c.Trust != nil {
				var err error
				if file, err = trust.Parse(read(*c.Trust)); err != nil {
					t.Fatal(err)
				}
			}
			opts := receipt.Options{MinSize: c.MinSize, AllowPartial: c.AllowPartial}
			if c.MaxAge > 0 {
				opts.MaxAge, opts.Now = time.Duration(c.MaxAge)*time.Second, time.Unix(c.Now, 0)
			}
			if c.Newest != "" {
				opts.Newest = []byte(c.Newest)
			}
			raw := read(c.Bundle)
			r := receipt.Verify(raw, file, opts)
			if string(r.Status) != c.Status {
				t.Errorf("status %s, want %s", r.Status, c.Status)
			}
			for _, f := range c.Fails {
				failed[f.Check] = true
				if !slices.ContainsFunc(r.Failures(f.Check), func(got receipt.Check) bool {
					return f.LeafIndex == nil || got.LeafIndex != nil && *got.LeafIndex == *f.LeafIndex
				}) {
					t.Errorf("%s does not fail as it should: %+v", f.Check, r.Failures(f.Check))
				}
			}
			for _, got := range r.Checks {
				wanted := false
				for _, f := range c.Fails {
					wanted = wanted || f.Check == got.Name
				}
				if got.Status == receipt.Fail && !wanted && (c.Only || c.Status != string(receipt.Failed)) {
					t.Errorf("%s fails as well: %s", got.Name, got.Detail)
				}
			}
			if b, err := receipt.Parse(raw); c.Status == string(receipt.Verified) {
				if err != nil {
					t.Fatal(err)
				}
				if again, err := receipt.Build(b.Entries, b.Checkpoint); err != nil || string(again) != string(raw) {
					t.Errorf("built again it has other bytes, %v", err)
				}
			}
		})
	}
	for _, name := range receipt.CheckNames() {
		if !failed[name] && name != receipt.CheckTrust {
			t.Errorf("no vector fails the check %s", name)
		}
	}
}
