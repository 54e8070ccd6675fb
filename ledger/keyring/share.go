package keyring

import "fmt"

// Encode is the registry as [LoadRegistry] reads it from a file: the same registry
// always gives the same bytes.
func (r *Registry) Encode() ([]byte, error) { return r.encode() }

// ParseRegistry reads what Encode gives and nothing else; [ErrMalformed] otherwise.
func ParseRegistry(data []byte) (*Registry, error) {
	if len(data) > maxRegistry {
		return nil, fmt.Errorf("key registry: %w: %d bytes, at most %d", ErrMalformed, len(data), maxRegistry)
	}
	return parseRegistry(data)
}

// Taken are leaves that a key might sign before and may not sign any more: from From
// on, up to and without To.
type Taken struct {
	KeyID    string
	From, To uint64
}

// TakenBack are those of the first size leaves that a key may sign under r and not
// under next, in the order of r's keys: what those keys signed there, if anything, is
// to be judged anew.
func (r *Registry) TakenBack(next *Registry, size uint64) []Taken {
	var all []Taken
	take := func(id string, from, to uint64) {
		if from < to {
			all = append(all, Taken{id, from, to})
		}
	}
	for _, e := range r.keys {
		to := min(e.end(), size)
		n, ok := next.Lookup(e.KeyID)
		if !ok {
			take(e.KeyID, e.FromIndex, to)
			continue
		}
		take(e.KeyID, e.FromIndex, min(n.FromIndex, to))
		take(e.KeyID, max(e.FromIndex, n.end()), to)
	}
	return all
}

// end is the first leaf that the key may not sign any more.
func (e Entry) end() uint64 {
	end := ^uint64(0)
	for _, p := range []*uint64{e.ToIndex, e.RevokedFromIndex} {
		if p != nil {
			end = min(end, *p)
		}
	}
	return end
}
