package toolcontract

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// lengths are written out by hand: the expectation knows nothing of the code.
func sum(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{0, 0, 0, 0, 0, 0, byte(len(p) >> 8), byte(len(p))})
		h.Write([]byte(p))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func TestDigestsAreAsDocumented(t *testing.T) {
	d, value := Digest([]byte(`{"title":"T","outputSchema":{},"name":"a\u0062","inputSchema":{"b":1.50,"a":[]},"annotations":{"readOnlyHint":true}}`))
	def := `{"inputSchema":{"a":[],"b":1.5},"name":"ab","outputSchema":{}}`
	if want := sum("counterfoil.tool.v1", def); d.Definition != want || string(value) != def {
		t.Errorf("definition %s of %s, want %s", d.Definition, value, want)
	}
	if want := sum("counterfoil.tool-presentation.v1", `{"annotations":{"readOnlyHint":true},"title":"T"}`); d.Presentation != want {
		t.Errorf("presentation %s, want %s", d.Presentation, want)
	}
	for _, raw := range []string{`{"name":"a","inputSchema":{"maximum":9007199254740993}}`, `{"name":"a","name":"a"}`} {
		if d, value := Digest([]byte(raw)); d.Definition != sum("counterfoil.tool-raw.v1", raw) || d.Presentation != sum("counterfoil.tool-presentation.v1", `{}`) || string(value) != raw {
			t.Errorf("%s: %+v", raw, d)
		}
	}
	raw := `{"name":"a","x":1,"x":1}`
	if d, _ := Digest([]byte(raw)); d.Definition != sum("counterfoil.tool.v1", `{"name":"a"}`) || d.Presentation != sum("counterfoil.tool-raw.v1", raw) {
		t.Errorf("%s: %+v", raw, d)
	}
	if got, want := DigestList(map[string]string{"b": "sha256:2", "a": "sha256:1"}), sum("counterfoil.tools.v1", "a", "sha256:1", "b", "sha256:2"); got != want {
		t.Errorf("tools %s, want %s", got, want)
	}
}

func TestWhatChangesADigest(t *testing.T) {
	base := `{"name":"a","description":"d","inputSchema":{"type":"object"}}`
	b, _ := Digest([]byte(base))
	for tool, want := range map[string][2]bool{
		`{"inputSchema":{"type":"object"}, "description":"d","name":"a"}`:                {false, false},
		`{"name":"a","description":"d.","inputSchema":{"type":"object"}}`:                {true, false},
		`{"name":"a","inputSchema":{"type":"object"}}`:                                   {true, false},
		`{"name":"a","description":"d","inputSchema":{"type":"object"},"title":"A"}`:     {false, true},
		`{"name":"a","description":"d","inputSchema":{"type":"object"},"_meta":{"x":1}}`: {false, true},
		`{"name":"a","description":"d","inputSchema":{"type":["object"]}}`:               {true, false},
	} {
		d, _ := Digest([]byte(tool))
		if got := [2]bool{d.Definition != b.Definition, d.Presentation != b.Presentation}; got != want {
			t.Errorf("%s: %v, want %v", tool, got, want)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	list := `{"tools":[` + strings.Repeat(`{"name":"a"},`, MaxTools) + `{"name":"a"}]}`
	if _, err := Tools([]byte(list)); err == nil {
		t.Error("a list above the bound is read")
	}
	for in, n := range map[string]int{`{"tools":[]}`: 0, `{"tools":[7,{"name":""},{"name":"x"},null]}`: 1} {
		if tools, err := Tools([]byte(in)); err != nil || len(tools) != n {
			t.Errorf("%s: %v, %v", in, tools, err)
		}
	}
	for _, in := range []string{``, `[]`, `{}`, `{"tools":7}`} {
		if _, err := Tools([]byte(in)); err == nil {
			t.Errorf("%s is read", in)
		}
	}
}
