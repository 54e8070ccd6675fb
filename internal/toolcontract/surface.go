package toolcontract

import (
	"crypto/sha256"
	"slices"

	"counterfoil/internal/jsonrpc"
)

// Surface is everything that a server shows to a client, by digest.
type Surface struct {
	Tools     string // as [DigestList] gives it
	Resources string
	Templates string
	Prompts   string
	Digest    string // of the whole surface
}

// kind is a kind of item besides tools.
type kind struct {
	label, key string
	defining   []string
}

var (
	resourceKind = kind{"counterfoil.mcp-resource.v1", "uri", []string{"uri", "name", "description", "mimeType"}}
	templateKind = kind{"counterfoil.mcp-template.v1", "uriTemplate", []string{"uriTemplate", "name", "description", "mimeType"}}
	promptKind   = kind{"counterfoil.mcp-prompt.v1", "name", []string{"name", "description", "arguments"}}
)

// NewSurface digests the items of a server as it described them, in any order.
func NewSurface(tools []Tool, resources, templates, prompts [][]byte) Surface {
	byName := map[string][][]byte{}
	for _, t := range tools {
		byName[t.Name] = append(byName[t.Name], t.Raw)
	}
	definitions := map[string]string{}
	for name, raw := range byName {
		d, _ := Digest(raw...)
		definitions[name] = d.Definition
	}
	s := Surface{
		Tools: DigestList(definitions), Resources: resourceKind.digest(resources),
		Templates: templateKind.digest(templates), Prompts: promptKind.digest(prompts),
	}
	h := sha256.New()
	lp(h, []byte("counterfoil.mcp-surface.v1"))
	for _, d := range []string{s.Tools, s.Resources, s.Templates, s.Prompts} {
		lp(h, []byte(d))
	}
	s.Digest = text(h)
	return s
}

// digest digests items by their keys. An item without a key counts under "".
func (k kind) digest(items [][]byte) string {
	byKey := map[string][][]byte{}
	for _, raw := range items {
		f, _ := jsonrpc.Fields(raw, k.key)
		key := jsonrpc.Text(f[k.key])
		byKey[key] = append(byKey[key], raw)
	}
	h := sha256.New()
	lp(h, []byte(k.label))
	var keys []string
	for key := range byKey {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		item := sha256.New()
		for _, raw := range byKey[key] {
			def, _ := split(raw, k.defining)
			digestPart(item, k.label, def, raw)
		}
		part(h, key, []byte(text(item)))
	}
	return text(h)
}
