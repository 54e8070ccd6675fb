package arch

import (
	_ "embed"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed requirements.txt
var requirements string

var (
	requirementLine = regexp.MustCompile(`^([A-Z]{3}-\d{2}) \S`)
	testFunc        = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w*)\(`)
	idInName        = regexp.MustCompile(`[A-Z]{3}\d{2}`)
	idInScript      = regexp.MustCompile(`\b[A-Z]{3}-\d{2}\b`)
)

// requirementIDs returns the ids of requirements.txt in its order.
func requirementIDs(t *testing.T) []string {
	t.Helper()
	var ids []string
	for line := range strings.Lines(requirements) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := requirementLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("requirements.txt: %q is not an id and a rule", line)
			continue
		}
		if slices.Contains(ids, m[1]) {
			t.Errorf("requirements.txt: %s twice", m[1])
		}
		ids = append(ids, m[1])
	}
	return ids
}

// collectGo adds the ids in the names of a file's test functions: ATT14 in
// TestATT14_RefusesSymlinks stands for ATT-14.
func collectGo(found map[string]bool, src []byte) {
	for _, m := range testFunc.FindAllSubmatch(src, -1) {
		for _, id := range idInName.FindAllString(string(m[1]), -1) {
			found[id[:3]+"-"+id[3:]] = true
		}
	}
}

// collectScript adds the ids in the comment that heads a script.
func collectScript(found map[string]bool, src []byte) {
	for line := range strings.Lines(string(src)) {
		if !strings.HasPrefix(line, "#") {
			return
		}
		for _, id := range idInScript.FindAllString(line, -1) {
			found[id] = true
		}
	}
}

func TestEveryRequirementHasATest(t *testing.T) {
	found := make(map[string]bool)
	eachText(t, func(file, text string) {
		switch {
		case strings.HasPrefix(file, "internal/arch/") && file != "internal/arch/imports_test.go":
			// the examples of its own tests
		case strings.HasSuffix(file, "_test.go"):
			collectGo(found, []byte(text))
		case path.Ext(file) == ".txtar" || path.Ext(file) == ".txt" && strings.Contains(file, "testdata/"):
			collectScript(found, []byte(text))
		}
	})
	ids := requirementIDs(t)
	var missing []string
	for _, id := range ids {
		if !found[id] {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d requirements have no test that carries their id: %s", len(missing), len(ids), strings.Join(missing, " "))
	}
}
