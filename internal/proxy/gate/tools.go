package gate

import "counterfoil/internal/toolcontract"

// tools is the newest whole list of the server's tools.
type tools struct {
	digest      string            // "" if what the server has now is not known
	definitions map[string]string // definition digests by name
}

// Saw takes a list of tools, or a page of one, before the client has it.
func (g *Gate) Saw(list []toolcontract.Tool, whole bool) {
	if g == nil {
		return
	}
	byName := map[string][][]byte{}
	for _, t := range list {
		byName[t.Name] = append(byName[t.Name], t.Raw)
	}
	definitions := make(map[string]string, len(byName))
	for name, raw := range byName {
		d, _ := toolcontract.Digest(raw...)
		definitions[name] = d.Definition
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if whole {
		g.seen = tools{toolcontract.DigestList(definitions), definitions}
		return
	}
	for name, d := range definitions {
		if g.seen.definitions[name] != d {
			g.seen = tools{}
			return
		}
	}
}

// Changed says that what the server has is not known any more: it said so, or its
// list could not be read.
func (g *Gate) Changed() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = tools{}
}
