package tiles

import (
	"fmt"
	"strconv"
	"strings"
)

// Width is the number of hashes in a full tile and of entries in a full
// bundle. C2SP tlog-tiles fixes it.
const Width = 256

const (
	// HashSize is the length of a node hash in bytes.
	HashSize = 32
	// MaxEntry is the longest entry in bytes: its length is a uint16.
	MaxEntry = 65535
	// maxTile and maxBundle are the longest files that can be lawful, so no
	// read needs more than one byte beyond them.
	maxTile   = Width * HashSize
	maxBundle = Width * (2 + MaxEntry)
	// maxIndex keeps Index × Width below 2^64 at level 0.
	maxIndex = 1<<56 - 1
	// maxLevel is the highest level that tlog-tiles can name.
	maxLevel = 63
	// maxPath is longer than any lawful path ("tile/entries/" and seven groups
	// of four characters, "/", ".p/255"); longer input is refused unread.
	maxPath = 80
)

// Kind says what a path names.
type Kind uint8

// The three resources of a tiled log.
const (
	Checkpoint Kind = iota + 1 // the newest signed tree head
	Tile                       // up to 256 node hashes of one level
	Entries                    // up to 256 entries, a "bundle"
)

// Path names one resource of a tiled log (C2SP tlog-tiles). Its text is
// relative to the log's prefix, with "/" between elements:
//
//	checkpoint
//	tile/<L>/<N>[.p/<W>]
//	tile/entries/<N>[.p/<W>]
//
// L is the level, 0 to 63. N is the index, below 2^56, in groups of three
// digits, all but the last with an "x" before it (1234067 is x001/x234/067).
// W is the width of a partial tile, 1 to 255; a full tile has no W.
type Path struct {
	Kind  Kind
	Level int    // of a Tile, else 0
	Index uint64 // N; of a Checkpoint 0
	Width int    // 1 to 256; of a Checkpoint 0
}

// TilePath names the tile of that level and index; width 256 is the full one.
func TilePath(level int, index uint64, width int) Path {
	return Path{Kind: Tile, Level: level, Index: index, Width: width}
}

// EntriesPath names the bundle of that index; width 256 is the full one.
func EntriesPath(index uint64, width int) Path {
	return Path{Kind: Entries, Index: index, Width: width}
}

// Full reports whether p names a full tile or bundle. What it names never
// changes once its log has published a size that covers it.
func (p Path) Full() bool { return p.Width == Width }

// most is the longest lawful content, in bytes.
func (p Path) most() int64 {
	switch p.Kind {
	case Checkpoint:
		return maxCheckpoint
	case Tile:
		return maxTile
	default:
		return maxBundle
	}
}

// with is p with another width.
func (p Path) with(width int) Path {
	p.Width = width
	return p
}

// String is the text of the path, the one spelling that ParsePath accepts.
func (p Path) String() string {
	b := make([]byte, 0, maxPath)
	switch p.Kind {
	case Checkpoint:
		return "checkpoint"
	case Tile:
		b = append(b, "tile/"...)
		b = strconv.AppendInt(b, int64(p.Level), 10)
		b = append(b, '/')
	case Entries:
		b = append(b, "tile/entries/"...)
	default:
		return fmt.Sprintf("invalid path kind %d", p.Kind)
	}
	b = appendIndex(b, p.Index)
	if p.Width != Width {
		b = append(b, ".p/"...)
		b = strconv.AppendInt(b, int64(p.Width), 10)
	}
	return string(b)
}

func appendIndex(b []byte, n uint64) []byte {
	if n >= 1000 {
		b = appendGroups(b, n/1000)
	}
	return appendGroup(b, n%1000)
}

// appendGroups writes the leading groups, each with its x and its slash.
func appendGroups(b []byte, n uint64) []byte {
	if n >= 1000 {
		b = appendGroups(b, n/1000)
	}
	b = append(b, 'x')
	b = appendGroup(b, n%1000)
	return append(b, '/')
}

func appendGroup(b []byte, n uint64) []byte {
	return append(b, byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10))
}

// ParsePath reads the text of a path. It accepts exactly what String writes:
// no leading zeros, no leading slash, no empty or escaped element, nothing
// behind it.
func ParsePath(s string) (Path, error) {
	if len(s) > maxPath {
		return Path{}, fmt.Errorf("tile path: %d bytes, the longest lawful one has %d", len(s), maxPath)
	}
	p, ok := parsePath(s)
	if !ok || p.String() != s {
		return Path{}, fmt.Errorf("tile path %q: expected checkpoint, tile/<L>/<N>[.p/<W>] or tile/entries/<N>[.p/<W>]", s)
	}
	return p, nil
}

func parsePath(s string) (Path, bool) {
	if s == "checkpoint" {
		return Path{Kind: Checkpoint}, true
	}
	s, ok := strings.CutPrefix(s, "tile/")
	if !ok {
		return Path{}, false
	}
	level, s, ok := strings.Cut(s, "/")
	if !ok {
		return Path{}, false
	}
	p := Path{Kind: Entries, Width: Width}
	if level != "entries" {
		p.Kind = Tile
		p.Level, ok = number(level, maxLevel)
		if !ok {
			return Path{}, false
		}
	}
	s, width, partial := strings.Cut(s, ".p/")
	if partial {
		if p.Width, ok = number(width, Width-1); !ok || p.Width == 0 {
			return Path{}, false
		}
	}
	groups := strings.Split(s, "/")
	for i, g := range groups {
		if i < len(groups)-1 {
			if g, ok = strings.CutPrefix(g, "x"); !ok {
				return Path{}, false
			}
		}
		n, ok := number(g, 999)
		if !ok || len(g) != 3 || p.Index > maxIndex/1000 {
			return Path{}, false
		}
		p.Index = p.Index*1000 + uint64(n)
	}
	return p, p.Index <= maxIndex
}

// number reads up to three decimal digits.
func number(s string, most int) (int, bool) {
	if len(s) == 0 || len(s) > 3 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= most
}

// widthAt is how many nodes the tile has in a tree of that size, 0 if the tree
// does not reach it.
func widthAt(level int, index, size uint64) int {
	if 8*level > 63 {
		return 0
	}
	nodes := size >> (8 * level)
	switch full := nodes / Width; {
	case index < full:
		return Width
	case index == full:
		return int(nodes % Width)
	default:
		return 0
	}
}
