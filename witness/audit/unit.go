package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
)

// unit is one bundle of leaves on its way from the source to the fold.
type unit struct {
	index uint64 // of the bundle
	width int    // leaves that the tree has of it
	// want is the hash of a full bundle's subtree, wantLeaves are the leaf hashes
	// of a partial one: proven from the signed root. Neither: the tiles do not
	// lead here.
	want       *tiles.Hash
	wantLeaves []tiles.Hash
	// inspectFrom is the first leaf that is to be judged; the ones before it are
	// read for the mirror alone.
	inspectFrom uint64

	leaves   []leaf
	findings []Finding // about its files, not about single leaves
	above    []Finding // about hash tiles on the way to it
	err      error
	done     chan struct{}
}

// leaf is a leaf with everything that can be said of it by itself.
type leaf struct {
	index uint64
	hash  tiles.Hash // that the tree has; zero if that is not known
	rec   *event.Record
	// digest is that of rec's event.
	digest event.Digest
	// damage says that the bytes are not those of the tree, fault that they are
	// no record; sig is why no signature counts.
	damage, fault *Finding
	sig           error
}

func (u *unit) first() uint64 { return u.index * tiles.Width }

// stored is a bundle and its hash tile as a source has them.
type stored struct {
	path    tiles.Path // of the bundle
	entries [][]byte   // those before a damage
	hashes  []tiles.Hash
	problem string // of the bundle's form

	tile        []tiles.Hash // nil of a partial bundle: the prover has compared that tile
	tileMissing bool
	tileProblem string
}

// load reads the files of a unit. A bundle that is not there now may be there
// later, so its absence is an error; a hash tile that is missing beside proven
// leaves is a finding.
func (u *unit) load(ctx context.Context, src tiles.Source) (*stored, error) {
	path := tiles.EntriesPath(u.index, u.width)
	s := &stored{path: path}
	data, got, err := readPath(ctx, src, path)
	var damage *tiles.DamageError
	switch {
	case errors.As(err, &damage):
		s.problem = damage.Problem
	case err != nil:
		return nil, fmt.Errorf("leaves %d to %d: %w", u.first(), u.first()+uint64(u.width)-1, err)
	default:
		s.path = got
		s.entries, s.problem = splitBundle(data, got.Width, u.width)
	}
	if u.width < tiles.Width {
		return s, nil
	}
	data, got, err = readPath(ctx, src, tiles.TilePath(0, u.index, u.width))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.tileMissing = true
		return s, nil
	case errors.As(err, &damage):
	case err != nil:
		return nil, err
	default:
		s.tile, err = splitTile(data, got, u.width)
	}
	if err != nil {
		s.tileProblem = err.Error()
	}
	return s, nil
}

// prove decides for each leaf whether its bytes are those of the tree, and reports
// whether all are.
func (u *unit) prove(s *stored) bool {
	s.hashes = make([]tiles.Hash, len(s.entries))
	for i, e := range s.entries {
		s.hashes[i] = tiles.LeafHashOf(e)
	}
	want := u.wantLeaves
	switch {
	case u.want == nil:
	case len(s.hashes) == u.width && subtree(s.hashes) == *u.want:
		want = s.hashes
	case len(s.tile) == u.width && subtree(s.tile) == *u.want:
		want = s.tile // some leaf is damaged, and the tile says which
	}
	u.leaves, u.findings = make([]leaf, u.width), nil
	intact := want != nil
	for i := range u.leaves {
		l := &u.leaves[i]
		l.index = u.first() + uint64(i)
		got := "unreadable: " + s.problem
		if i < len(s.hashes) {
			got = fmt.Sprintf("%x", s.hashes[i])
		}
		var f Finding
		switch {
		case want == nil:
			f = atLeaf(DamagedLeaf, l.index, "a leaf that the signed root proves", got,
				fmt.Sprintf("leaf %d cannot be proven: neither its bundle nor its hash tile leads to the signed root", l.index))
		case i >= len(s.hashes) || s.hashes[i] != want[i]:
			f = atLeaf(DamagedLeaf, l.index, fmt.Sprintf("%x", want[i]), got, fmt.Sprintf("leaf %d is not the leaf that the signed tree has there", l.index))
			l.hash = want[i]
		default:
			l.hash = want[i]
			continue
		}
		intact = false
		f.Path = s.path.String()
		if i < len(s.entries) {
			if rec, err := event.ParseRecord(s.entries[i]); err == nil {
				f.EventID, f.AttemptID = rec.Digest().EventID(), rec.Event.AttemptID
			}
		}
		l.damage = &f
	}
	if s.problem != "" && len(s.entries) == u.width {
		u.findings = append(u.findings, about(DamagedBundle, s.path.String(), "a bundle that ends with its last entry", s.problem, "%s: %s", s.path, s.problem))
	}
	if want != nil && u.width == tiles.Width {
		u.compareTile(s, want)
	}
	return intact
}

// compareTile compares the hash tile with the hashes that the tree has.
func (u *unit) compareTile(s *stored, want []tiles.Hash) {
	path := tiles.TilePath(0, u.index, u.width)
	switch {
	case s.tileMissing:
		u.findings = append(u.findings, about(MissingTile, path.String(), "the tile", "nothing", "hash tile %s is not served", path))
	case s.tileProblem != "":
		u.findings = append(u.findings, about(DamagedTile, path.String(), "256 hashes", s.tileProblem, "hash tile %s has no form", path))
	}
	for i := range s.tile {
		if s.tile[i] != want[i] {
			u.findings = append(u.findings, about(DamagedTile, path.String(), fmt.Sprintf("%x", want[i]), fmt.Sprintf("%x", s.tile[i]),
				"hash %d of tile %s is not the hash of leaf %d", i, path, u.first()+uint64(i)))
			return
		}
	}
}

// inspect parses the proven leaves and verifies their signatures: most of the
// work of an audit, and it needs no order.
func (u *unit) inspect(s *stored, check func(*event.Record, uint64) error) {
	for i := range u.leaves {
		l := &u.leaves[i]
		if l.index < u.inspectFrom || l.damage != nil {
			continue
		}
		rec, err := event.ParseRecord(s.entries[i])
		if err != nil {
			f := atLeaf(Unparseable, l.index, "one canonical record", err.Error(), fmt.Sprintf("leaf %d is no record", l.index))
			l.fault = &f
			continue
		}
		l.rec, l.digest = rec, rec.Digest()
		l.sig = check(rec, l.index)
	}
}
