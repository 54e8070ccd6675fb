// Package toolcontract digests what an MCP server says about itself: its tools,
// one by one and as a list, and with its resources and prompts as a whole. Whoever
// watches a server, the proxy in front of it or an admission of it, computes the
// same digests.
//
// # Digests
//
// lp(x) is the length of x as eight bytes, big endian, and x. Digests are
// written "sha256:" and 64 hex digits.
//
//	definition   = SHA-256( lp("counterfoil.tool.v1") ‖ lp(D) )
//	presentation = SHA-256( lp("counterfoil.tool-presentation.v1") ‖ lp(P) )
//	tools        = SHA-256( lp("counterfoil.tools.v1") ‖ lp(name) ‖ lp(definition) … )
//
// D is the canonical JSON of an object with those of the members name,
// description, inputSchema and outputSchema that the tool has, P the same with
// all its other members (title, annotations …). One of them that canonical JSON
// cannot carry exactly has lp("counterfoil.tool-raw.v1") ‖ lp(the tool as it
// passed) in its place. The tools of a list are sorted by the bytes of their names;
// a name that stands in a list twice has all its definitions, in their order.
//
// The surface of a server is everything that it shows to a client:
//
//	surface = SHA-256( lp("counterfoil.mcp-surface.v1") ‖ lp(tools) ‖ lp(resources)
//	          ‖ lp(templates) ‖ lp(prompts) )
//	items   = SHA-256( lp(label) ‖ lp(key) ‖ lp(item) … )
//	item    = SHA-256( lp(label) ‖ lp(D) )
//
// where items are the resources, templates or prompts, each sorted by its key, and
//
//	          label                              key          members of D
//	resource  counterfoil.mcp-resource.v1        uri          uri, name, description, mimeType
//	template  counterfoil.mcp-template.v1        uriTemplate  uriTemplate, name, description, mimeType
//	prompt    counterfoil.mcp-prompt.v1          name         name, description, arguments
//
// Items with equal keys and what has no canonical form are treated as with tools.
package toolcontract

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/internal/jsonrpc"
	"counterfoil/ledger/canon"
)

// MaxTools bounds the tools of a server that are watched.
const MaxTools = 1 << 14

// Tool is a tool as a server described it.
type Tool struct {
	Name string
	Raw  []byte // the JSON object
}

// Tools reads the tools of a tools/list result. Elements without a name are left
// out.
func Tools(result []byte) ([]Tool, error) {
	f, _ := jsonrpc.Fields(result, "tools")
	if f["tools"] == nil {
		return nil, errors.New("a list of tools without tools")
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(f["tools"], &raw, jsonrpc.Lax...); err != nil {
		return nil, fmt.Errorf("a list of tools: %w", err)
	}
	tools := make([]Tool, 0, len(raw))
	for _, t := range raw {
		f, _ := jsonrpc.Fields(t, "name")
		if name := jsonrpc.Text(f["name"]); name != "" {
			tools = append(tools, Tool{name, t})
		}
	}
	if len(tools) > MaxTools {
		return nil, fmt.Errorf("a list of %d tools, expected at most %d", len(tools), MaxTools)
	}
	return tools, nil
}

// Digests are the two digests of a tool.
type Digests struct {
	Definition   string `json:"definition"`
	Presentation string `json:"presentation"`
}

// definition members of a tool; every other member is its presentation.
var defining = []string{"name", "description", "inputSchema", "outputSchema"}

// Digest digests the definitions of one name and returns the bytes that the
// first of the two digests is over.
func Digest(definitions ...[]byte) (d Digests, value []byte) {
	defined, presented := sha256.New(), sha256.New()
	for _, raw := range definitions {
		def, rest := split(raw, defining)
		value = append(value, digestPart(defined, "counterfoil.tool.v1", def, raw)...)
		digestPart(presented, "counterfoil.tool-presentation.v1", rest, raw)
	}
	return Digests{text(defined), text(presented)}, value
}

// digestPart adds one part of a tool, nil if it has no canonical form, and
// returns what was added.
func digestPart(h hash.Hash, label string, canonical, raw []byte) []byte {
	if canonical == nil {
		label, canonical = "counterfoil.tool-raw.v1", raw
	}
	part(h, label, canonical)
	return canonical
}

// DigestList digests a list by the definition digests of its tools.
func DigestList(definitions map[string]string) string {
	h := sha256.New()
	lp(h, []byte("counterfoil.tools.v1"))
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		part(h, name, []byte(definitions[name]))
	}
	return text(h)
}

// split returns the canonical forms of the members that define an item and of the
// rest, nil for what has none.
func split(raw []byte, defining []string) (def, rest []byte) {
	var d, r []byte
	err := jsonrpc.Members(raw, func(name string, value []byte) error {
		to := &r
		if slices.Contains(defining, name) {
			to = &d
		}
		quoted, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return err
		}
		*to = append(append(append(append(*to, ','), quoted...), ':'), value...)
		return nil
	})
	if err != nil {
		return nil, nil
	}
	return canonical(d), canonical(r)
}

// canonical makes an object of members, each with a comma before it.
func canonical(members []byte) []byte {
	object := append([]byte{'{'}, members[min(1, len(members)):]...)
	c, err := canon.Private.Canonical(append(object, '}'))
	if err != nil {
		return nil
	}
	return c
}

func part(h hash.Hash, label string, value []byte) {
	lp(h, []byte(label))
	lp(h, value)
}

func lp(h hash.Hash, b []byte) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
	h.Write(b)
}

func text(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }
