package vectors

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// stringsOf collects every string of a document, names included.
func stringsOf(v any, into *strings.Builder) {
	switch v := v.(type) {
	case string:
		into.WriteString(v)
		into.WriteByte('\n')
	case []any:
		for _, x := range v {
			stringsOf(x, into)
		}
	case map[string]any:
		for name, x := range v {
			stringsOf(name, into)
			stringsOf(x, into)
		}
	}
}

// TestExamplesOfTheSpecificationStandInVectors holds every line of a block marked
// as an example to the vectors: it must stand in one of them, byte for byte.
func TestExamplesOfTheSpecificationStandInVectors(t *testing.T) {
	var known strings.Builder
	root := filepath.Join("..", "..", "testdata", "vectors")
	files, err := filepath.Glob(filepath.Join(root, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	bundles, err := filepath.Glob(filepath.Join(root, "bundle", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(some(t, "vectors", files), some(t, "bundles", bundles)...) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		known.Write(b)
		var v any
		if json.Unmarshal(b, &v) == nil { // some bundles are no JSON, on purpose
			stringsOf(v, &known)
		}
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "spec", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```example\n(.*?)```")
	checked := 0
	for _, page := range some(t, "pages", pages) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(b), -1) {
			for line := range strings.SplitSeq(strings.TrimSuffix(m[1], "\n"), "\n") {
				checked++
				if !strings.Contains(known.String(), line) {
					t.Errorf("%s: no vector holds %s", filepath.Base(page), line)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d lines of examples were found", checked)
	}
}

// TestLinksOfTheSpecification checks that every page and file that the
// specification names is there.
func TestLinksOfTheSpecification(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "spec")
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\[[^]]*\]\(([^)#:]+)\)`)
	mention := regexp.MustCompile(`\b([a-z]+\.md)\b`)
	vectors := regexp.MustCompile(`(?s)Vectors: .*?(?:\n\n|$)`)
	vector := regexp.MustCompile("`([a-z_/]+\\.json)`")
	found := 0
	for _, page := range some(t, "pages", pages) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			names = append(names, filepath.Join(dir, m[1]))
		}
		for _, m := range mention.FindAllStringSubmatch(link.ReplaceAllString(string(b), ""), -1) {
			names = append(names, filepath.Join(dir, m[1]))
		}
		for _, text := range vectors.FindAllString(string(b), -1) {
			for _, m := range vector.FindAllStringSubmatch(text, -1) {
				names = append(names, filepath.Join("..", "..", "testdata", "vectors", m[1]))
				found++
			}
		}
		for _, name := range names {
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s names %s: %v", filepath.Base(page), name, err)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d names of vector files were found", found)
	}
}
