package event

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// TestATT30_CLM01_RegistriesAreWhatTheSpecificationSays compares the registries
// with the tables of docs/spec/registries.md and with the data file that other
// languages read. All three are written by hand.
func TestATT30_CLM01_RegistriesAreWhatTheSpecificationSays(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../docs/spec/registries.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (.+) \\|$")
	tables := map[string]map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		tables[title] = map[string]string{}
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			if _, twice := tables[title][m[1]]; twice {
				t.Errorf("%s: code %s twice", title, m[1])
			}
			tables[title][m[1]] = m[2]
		}
	}
	if d := cmp.Diff(claimBoundaries, tables["Claim boundaries"]); d != "" {
		t.Errorf("claim boundaries (code, then page): %s", d)
	}
	if d := cmp.Diff(reasonCodes, tables["Reason codes"]); d != "" {
		t.Errorf("reason codes (code, then page): %s", d)
	}

	data, err := os.ReadFile(filepath.FromSlash("../../testdata/vectors/registries.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Description     string            `json:"description"`
		ClaimBoundaries map[string]string `json:"claimBoundaries"`
		ReasonCodes     map[string]string `json:"reasonCodes"`
	}
	if err := json.Unmarshal(data, &doc, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(claimBoundaries, doc.ClaimBoundaries); d != "" {
		t.Errorf("claim boundaries (code, then data file): %s", d)
	}
	if d := cmp.Diff(reasonCodes, doc.ReasonCodes); d != "" {
		t.Errorf("reason codes (code, then data file): %s", d)
	}
	for code := range maps.Keys(reasonCodes) {
		if !ValidReasonCode(code) {
			t.Errorf("registered reason code %q has not the form of one", code)
		}
	}
}
