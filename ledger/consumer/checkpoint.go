package consumer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// signed is a checkpoint with the note that says it.
type signed struct {
	note []byte
	cp   trust.Checkpoint
}

// judge reads a note. The error is a *CheckpointError; the tally says whether
// the policy is met.
func (f *Follower) judge(raw []byte) (*signed, *trust.Tally, error) {
	cp, tally, err := verifyNote(raw, f.cfg.Trust, f.cfg.Policy)
	if err != nil {
		return nil, nil, &CheckpointError{Note: raw, Err: err}
	}
	return &signed{note: raw, cp: cp}, tally, nil
}

func verifyNote(raw []byte, file *trust.File, policy *trust.Policy) (cp trust.Checkpoint, tally *trust.Tally, err error) {
	n, err := trust.ParseNote(raw)
	if err != nil {
		return cp, nil, err
	}
	if cp, err = trust.ParseCheckpoint(n.Text); err != nil {
		return cp, nil, err
	}
	if cp.Origin != file.Origin() {
		return cp, nil, fmt.Errorf("it is of the log %q, expected %q", cp.Origin, file.Origin())
	}
	if cp.Size > trust.MaxIndex {
		return cp, nil, fmt.Errorf("size %d, expected at most %d", cp.Size, uint64(trust.MaxIndex))
	}
	own, err := n.VerifyBy(file.Log)
	if err != nil {
		return cp, nil, err
	}
	if own.Lines == 0 {
		return cp, nil, fmt.Errorf("no signature is by the trusted key of the log, %s+%08x", file.Log.Name, file.Log.ID)
	}
	if tally = policy.Tally(n); len(tally.Bad()) > 0 {
		return cp, nil, errors.New("a cosignature by a known witness does not verify: " + tally.String())
	}
	if cp.Size == 0 && cp.Root != sha256.Sum256(nil) {
		return cp, nil, fmt.Errorf("size 0 with root %x", cp.Root)
	}
	return cp, tally, nil
}

// look reads the newest checkpoint. moved says that there may be something to
// hand out now.
func (f *Follower) look(ctx context.Context) (moved bool, err error) {
	raw, _, err := f.cfg.Log.Read(ctx, tiles.Path{Kind: tiles.Checkpoint})
	if err != nil {
		err = sourceError("read the checkpoint", err)
		if !passing(err) {
			err = &CheckpointError{Err: err}
		}
		return false, err
	}
	// The same tree as before: only cosignatures can be new.
	same := f.seen != nil && bytes.Equal(raw, f.seen.note)
	if same && f.seen == f.good && f.anchored {
		return false, nil
	}
	c, tally, err := f.judge(raw)
	if err != nil {
		return false, err
	}
	if !same && f.seen != nil {
		if err := f.fits(ctx, f.seen, c); err != nil {
			return false, err
		}
	}
	f.seen = c
	if !tally.Met() {
		if f.good != nil && c.cp.Size <= f.good.cp.Size {
			return false, nil
		}
		lacking := &QuorumError{Size: c.cp.Size, Lacking: tally.String()}
		if c, err = f.witnessed(ctx); err != nil {
			return false, err
		}
		if c == nil {
			return false, lacking
		}
	}
	return f.accept(ctx, c)
}

// accept takes a checkpoint that meets the policy and fits all that were seen.
func (f *Follower) accept(ctx context.Context, c *signed) (moved bool, err error) {
	larger := f.good == nil || c.cp.Size > f.good.cp.Size
	if f.good == nil {
		f.end = c.cp.Size
	}
	f.good = c
	if f.anchored {
		moved = larger
	} else if moved, err = f.anchor(ctx); err != nil {
		return false, err
	}
	if moved {
		f.eager()
	}
	return moved, nil
}

// witnessed returns the newest checkpoint that the log knows to be cosigned, if
// it meets our policy and is newer than what we have; nil otherwise.
func (f *Follower) witnessed(ctx context.Context) (*signed, error) {
	if f.cfg.Witnessed == nil {
		return nil, nil
	}
	raw, err := f.cfg.Witnessed(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &UnavailableError{Doing: "read the witnessed checkpoint", Err: err}
	}
	w, tally, err := f.judge(raw)
	if err != nil {
		return nil, err
	}
	if !tally.Met() || f.good != nil && w.cp.Size <= f.good.cp.Size || f.cfg.Cursor != nil && w.cp.Size < f.next {
		return nil, nil
	}
	if w.cp.Size > f.seen.cp.Size {
		if err = f.fits(ctx, f.seen, w); err == nil {
			f.seen = w
		}
	} else {
		err = f.fits(ctx, w, f.seen)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// fits checks that the tree of shown begins with that of known. After an error
// of the source known stays what shown is compared with.
func (f *Follower) fits(ctx context.Context, known, shown *signed) error {
	e := &HistoryError{Known: known.note, Shown: shown.note, Before: known.cp, After: shown.cp}
	switch {
	case shown.cp.Size < known.cp.Size:
		e.Kind = Rollback
		return e
	case shown.cp.Size == known.cp.Size:
		if shown.cp.Root != known.cp.Root {
			e.Kind = OtherRoot
			return e
		}
		return nil
	case known.cp.Size == 0:
		return nil
	}
	for fresh := false; ; fresh = true {
		before, after, err := f.rootsAt(ctx, known.cp.Size, shown.cp.Size)
		if err != nil && passing(err) {
			return err
		}
		switch {
		case err == nil && after == shown.cp.Root && before == known.cp.Root:
			return nil
		case !fresh:
			f.freshTiles() // those that are kept may be of another tree
			continue
		case err != nil:
			return &TreeError{To: shown.cp.Size, Size: shown.cp.Size, Err: err}
		case after == shown.cp.Root:
			e.Kind, e.Root = Fork, before
		default:
			e.Kind, e.Root = Unproven, after
		}
		return e
	}
}

// rootsAt computes the roots at two sizes from the tiles of the larger one.
func (f *Follower) rootsAt(ctx context.Context, before, after uint64) (a, b tiles.Hash, err error) {
	r := ranges.NewEmptyRange(0)
	if err := f.join(ctx, r, before, after); err != nil {
		return a, b, err
	}
	a = rootOf(r)
	if err := f.join(ctx, r, after, after); err != nil {
		return a, b, err
	}
	return a, rootOf(r), nil
}

// join adds the leaves from the end of r up to a place, as the tiles of a size
// have them.
func (f *Follower) join(ctx context.Context, r *compact.Range, to, size uint64) error {
	hashes, err := f.reader.Range(ctx, r.End(), to, size)
	if err != nil {
		return sourceError(fmt.Sprintf("read the tree of size %d", size), err)
	}
	part, err := ranges.NewRange(r.End(), to, nodesOf(hashes))
	if err != nil {
		panic("consumer: a range of the tiles has the wrong length: " + err.Error())
	}
	if err := r.AppendRange(part, nil); err != nil {
		panic("consumer: ranges do not join: " + err.Error())
	}
	return nil
}

// anchor finds the edge under the root of good, once: the start of a follower
// that begins in the middle, or what a cursor says. moved is false if the log
// does not reach so far yet.
func (f *Follower) anchor(ctx context.Context) (moved bool, err error) {
	size := f.good.cp.Size
	if f.next > size {
		return false, nil
	}
	own := f.cfg.Cursor == nil
	edge := ranges.NewEmptyRange(0)
	if err := f.join(ctx, edge, f.next, size); err != nil {
		return false, treeError(f.next, size, err)
	}
	start := cloneRange(edge)
	if err := f.join(ctx, edge, size, size); err != nil {
		return false, treeError(f.next, size, err)
	}
	switch got := rootOf(edge); {
	case got != f.good.cp.Root:
		return false, &TreeError{From: f.next, To: max(size, f.next+1), Size: size, Expected: f.good.cp.Root, Got: got}
	case !own && !f.edge.Equal(start):
		return false, &CursorError{Detail: fmt.Sprintf("its range is not that of the first %d leaves of the log: expected root %x, got %x", f.next, rootOf(start), rootOf(f.edge))}
	}
	f.edge, f.anchored = start, true
	return true, nil
}

// treeError makes the final one of an error of the tiles.
func treeError(from, size uint64, err error) error {
	if passing(err) {
		return err
	}
	return &TreeError{From: from, To: max(size, from+1), Size: size, Err: err}
}

func rootOf(r *compact.Range) (root tiles.Hash) {
	h, err := r.GetRootHash(nil)
	if err != nil {
		panic("consumer: a range does not begin at 0: " + err.Error())
	}
	if h == nil {
		return sha256.Sum256(nil)
	}
	copy(root[:], h)
	return root
}

func cloneRange(r *compact.Range) *compact.Range {
	c, err := ranges.NewRange(r.Begin(), r.End(), append([][]byte(nil), r.Hashes()...))
	if err != nil {
		panic("consumer: a range cannot be copied: " + err.Error())
	}
	return c
}

func nodesOf(hashes []tiles.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}

func foldBytes(l, r []byte) []byte { return rfc6962.DefaultHasher.HashChildren(l, r) }
