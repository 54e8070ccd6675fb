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

// TakesBack reports whether a key may sign fewer of the first size leaves under next
// than under r: what was judged under r is then to be judged anew.
func (r *Registry) TakesBack(next *Registry, size uint64) bool {
	for _, e := range r.keys {
		n, ok := next.Lookup(e.KeyID)
		if !ok || n.FromIndex > e.FromIndex && e.FromIndex < size || n.end() < min(e.end(), size) {
			return true
		}
	}
	return false
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
