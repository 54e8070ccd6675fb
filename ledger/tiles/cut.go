package tiles

// Paths lists the tiles and bundles of a tree of that size that are not full in a
// tree of size from: all of it for from = 0. Full ones come before the partial one
// of their row. from is at most size.
func Paths(from, size uint64, yield func(Path) bool) {
	for level := -1; level < 8; level++ { // -1 are the bundles
		nodes, had := size, from
		if level > 0 {
			nodes, had = size>>(8*level), from>>(8*level)
		}
		if nodes == 0 {
			return
		}
		for i := had / Width; i <= (nodes-1)/Width; i++ {
			p := EntriesPath(i, int(min(Width, nodes-i*Width)))
			if level >= 0 {
				p.Kind, p.Level = Tile, level
			}
			if i*Width+uint64(p.Width) == had { // it was there, and has not grown
				continue
			}
			if !yield(p) {
				return
			}
		}
	}
}

// Cut returns the first width hashes or entries of data, which is the content of
// got: what the file of that width holds.
func Cut(got Path, data []byte, width int) ([]byte, error) {
	if got.Kind == Tile {
		if _, err := parseTile(got, data, width); err != nil {
			return nil, err
		}
		return data[:width*HashSize], nil
	}
	b, err := parseBundle(got, data, width)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, e := range b.entries {
		n += 2 + len(e)
	}
	return data[:n], nil
}

// In is p with the width that it has in a tree of that size; 0 if the tree does not
// reach it.
func (p Path) In(size uint64) Path { return p.with(widthAt(p.Level, p.Index, size)) }

// LeafHashes are the hashes of the entries in data, which is the content of the
// bundle p: exactly p.Width of them, and nothing behind the last.
func LeafHashes(p Path, data []byte) ([]Hash, error) {
	b, err := parseBundle(p, data, p.Width)
	if err != nil {
		return nil, err
	}
	out := make([]Hash, len(b.entries))
	for i, e := range b.entries {
		out[i] = LeafHashOf(e)
	}
	return out, nil
}
