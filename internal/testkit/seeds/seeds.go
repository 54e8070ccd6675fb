// Package seeds gives fuzz targets the test vectors to start from, those that are to
// be refused too.
package seeds

import (
	"encoding/base64"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxSeed leaves out what is large on purpose: it would slow down every run.
	maxSeed = 16 << 10
	// maxSeeds bounds the seeds of a target: they all run with every go test, and
	// before a fuzzer tries anything of its own. Of more, as many are taken at even
	// distances.
	maxSeeds = 300
)

// Add adds what is in files and folders below testdata/vectors: each document as it
// is, and, of the tables of vectors, every text, what it is in base64, and every
// object.
func Add(f *testing.F, names ...string) {
	f.Helper()
	root, err := vectors()
	if err != nil {
		f.Fatal(err)
	}
	c := &collector{seen: map[string]bool{}}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var v any
			if err := json.Unmarshal(b, &v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err == nil {
				c.walk(v)
			}
			c.add(b)
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	if len(c.seeds) == 0 {
		f.Fatalf("no seeds in %v", names)
	}
	n := min(len(c.seeds), maxSeeds)
	for i := range n {
		f.Add(c.seeds[i*len(c.seeds)/n])
	}
}

type collector struct {
	seen  map[string]bool
	seeds [][]byte
}

func (c *collector) add(b []byte) {
	if len(b) <= maxSeed && !c.seen[string(b)] {
		c.seen[string(b)] = true
		c.seeds = append(c.seeds, b)
	}
}

func (c *collector) walk(v any) {
	switch v := v.(type) {
	case string:
		if len(v) < 2 {
			return
		}
		c.add([]byte(v))
		if b, err := base64.StdEncoding.DecodeString(v); err == nil && len(b) > 8 {
			c.add(b)
		}
	case []any:
		for _, e := range v {
			c.walk(e)
		}
	case map[string]any:
		if b, err := json.Marshal(v, json.Deterministic(true)); err == nil {
			c.add(b)
		}
		for _, name := range sorted(v) {
			c.walk(v[name])
		}
	}
}

// vectors is testdata/vectors of the module that the test is in.
func vectors() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "testdata", "vectors")
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || strings.TrimSuffix(dir, string(filepath.Separator)) == filepath.VolumeName(dir) {
			return path, nil
		}
	}
}

func sorted(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
