package gate

import "counterfoil/internal/toolcontract"

// tools is the newest whole list of the server's tools.
type tools struct {
	digest      string            // "" if what the server has now is not known
	definitions map[string]string // definition digests by name
}

// Shown is what one connection was shown of the server's tools. The zero Shown is
// nothing yet.
type Shown struct {
	any    bool
	digest string // of the newest whole list, "" if it does not count any more
}

// Saw takes a list of tools, or a page of one, before the client has it. before is
// what its connection was shown until now.
func (g *Gate) Saw(before Shown, list []toolcontract.Tool, whole bool) Shown {
	if g == nil {
		return before
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
		return Shown{true, g.seen.digest}
	}
	for name, d := range definitions {
		if g.seen.definitions[name] != d {
			g.seen = tools{}
			return Shown{any: true}
		}
	}
	return before
}

// Changed says that what the server has is not known any more: it said so, or its
// list could not be read.
func (g *Gate) Changed() Shown {
	if g == nil {
		return Shown{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = tools{}
	return Shown{any: true}
}

// differs compares what the server has, and what a connection was shown of it, with
// what is pinned.
func (g *Gate) differs(pinned string, s Shown) (got string, differs bool) {
	if s.any && s.digest != pinned {
		return s.digest, true
	}
	return g.seen.digest, g.seen.digest != pinned
}
