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
