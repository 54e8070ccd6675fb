package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"counterfoil/ledger/tiles"
)

// ErrNoPeer: no peer is left that gives what the signed tree has. Beside it are the
// reasons why each was given up.
var ErrNoPeer = errors.New("no peer gives the tiles of the signed tree")

// Peer is a node, or anybody else, that serves the tiles of the log.
type Peer struct {
	Name   string // for people
	Source tiles.Source
}

// WrongError says that a peer gave something else than the signed tree has.
type WrongError struct {
	Where         string // a path, and the leaf if it is known
	Expected, Got string
}

func (e *WrongError) Error() string {
	return fmt.Sprintf("%s: expected %s, got %s", e.Where, e.Expected, e.Got)
}

// peers are those that still answer. It is safe for concurrent use.
type peers struct {
	log *slog.Logger

	mu   sync.Mutex
	left []Peer
	gone []error // one for each that was given up
}

// pick chooses a peer for a tile, another for the next one; false if none is left.
func (ps *peers) pick(p tiles.Path) (Peer, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.left) == 0 {
		return Peer{}, false
	}
	return ps.left[p.Index%uint64(len(ps.left))], true
}

// giveUp asks a peer no more.
func (ps *peers) giveUp(peer Peer, p tiles.Path, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for i, has := range ps.left {
		if has.Name != peer.Name {
			continue
		}
		ps.left = append(ps.left[:i:i], ps.left[i+1:]...)
		ps.gone = append(ps.gone, fmt.Errorf("%s: %w", peer.Name, err))
		ps.log.Warn("a node is not asked for tiles any more", "peer", peer.Name, "tile", p.String(), "error", err)
		return
	}
}

func (ps *peers) err() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return errors.Join(append([]error{ErrNoPeer}, ps.gone...)...)
}

// read returns the content of p, of exactly its width, from the first peer whose
// answer passes prove.
func (ps *peers) read(ctx context.Context, p tiles.Path, prove func([]byte) error) ([]byte, error) {
	for {
		peer, ok := ps.pick(p)
		if !ok {
			return nil, fmt.Errorf("read %s: %w", p, ps.err())
		}
		data, err := peer.read(ctx, p)
		if err == nil {
			err = prove(data)
		}
		if err == nil {
			return data, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		ps.giveUp(peer, p, err)
	}
}

// read asks one peer, and cuts a wider version down to what was asked for.
func (peer Peer) read(ctx context.Context, p tiles.Path) ([]byte, error) {
	data, got, err := peer.Source.Read(ctx, p)
	if err != nil || got == p {
		return data, err
	}
	same := got
	same.Width = p.Width
	if same != p || got.Width < p.Width || got.Width > tiles.Width {
		return nil, &WrongError{p.String(), "this tile", got.String()}
	}
	return tiles.Cut(got, data, p.Width)
}
