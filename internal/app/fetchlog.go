package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/tlog/fetch"
	"counterfoil/ledger/trust"
)

// Fetched is what taking a log from other nodes came to.
type Fetched struct {
	Origin string
	// Had is the size of the log before, Size that of the checkpoint, Root its root in
	// hex.
	Had, Size uint64
	Root      string
	// From is where the checkpoint was read; Cosigned says how witnesses stand to it, ""
	// if no policy was given.
	From, Cosigned string
}

// FetchLog makes the log of a data directory, which is empty or a beginning, the one
// that other nodes have: from their tiles, proven by the newest checkpoint that the
// log's key signed. With cfg.WitnessPolicy it must have the cosignatures of a quorum.
// No ledger may run on the directory. from are addresses of nodes, or prefixes of
// tiles; one is enough. A run that was ended goes on where it was.
//
// Everything else of a node comes when it is started: private values from the vaults'
// stream, or the other vaults; the index and the views from the log and the stream.
func FetchLog(ctx context.Context, cfg Config, from []string, progress func(leaves, of uint64)) (_ *Fetched, err error) {
	l, unlock, err := openStopped(cfg, "a node keeps ledger.json and keys/; if they are lost, counterfoil node prepare on another node", true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := l.newest(ctx, from)
	if err != nil {
		return nil, err
	}
	out := &Fetched{Origin: l.id.Origin, Size: s.cp.Size, Root: hex.EncodeToString(s.cp.Root[:]), From: s.from, Cosigned: s.cosigned}
	if out.Had, err = l.fetchSigned(ctx, s, progress); err != nil {
		return nil, err
	}
	return out, nil
}

// fetchSigned takes the tree of s. It returns the size of the log before.
func (l *Ledger) fetchSigned(ctx context.Context, s *served, progress func(leaves, of uint64)) (had uint64, err error) {
	cfg := fetch.Config{Peers: s.peers, Progress: func(leaves uint64) { progress(leaves, s.cp.Size) }}
	if has, err := tlog.Inspect(l.paths.log(), l.paths.guard(), l.id.Origin); err == nil && has > s.cp.Size {
		root, err := tiles.NewReader(tiles.Dir(l.paths.log()), tiles.Options{}).Root(ctx, s.cp.Size)
		switch {
		case err != nil:
			return has, err
		case root != tiles.Hash(s.cp.Root):
			return has, fmt.Errorf("%w: at size %d it has root %x, the checkpoint of %s %x", tlog.ErrDisagrees, s.cp.Size, root, s.from, s.cp.Root)
		}
		return has, fmt.Errorf("the log here has %d leaves, the newest checkpoint of %s %d, which are the same: there is nothing to fetch", has, s.from, s.cp.Size)
	}
	// The last leaves before a crash are judged by the tree that the log signed.
	var signed *fetch.Tree
	judge := func(index uint64, leaf []byte) error {
		if signed == nil {
			known := cfg
			known.Size, known.Root, known.Logger = s.cp.Size, s.cp.Root, l.log
			if signed, err = fetch.Open(ctx, known); err != nil {
				return err
			}
		}
		want, err := signed.Reader().LeafHash(ctx, index, s.cp.Size)
		if err != nil {
			return err
		}
		if got := tiles.LeafHashOf(leaf); got != want {
			return &fetch.DifferError{Index: index, Own: got, Signed: want}
		}
		return nil
	}
	if isEmpty(l.paths.vault()) { // before there is a log that a start would miss it beside
		if err := durable.WriteFile(l.paths.fetched(), nil, 0o600); err != nil {
			return 0, err
		}
	}
	log, err := tlog.Open(ctx, tlog.Config{
		Dir: l.paths.log(), GuardDir: l.paths.guard(), Origin: l.id.Origin, Signer: l.keys.Log(), VerifierKey: l.keys.LogVerifierKey(),
		Join: true, Fence: noTurn{}, CheckLeaf: judge, Logger: l.log,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close(context.WithoutCancel(ctx))) }()
	had = log.Size()
	_, err = log.Fetch(ctx, s.cp.Note, cfg)
	return had, err
}

// noTurn is the fence of who signs nothing.
type noTurn struct{}

var errNoTurn = errors.New("a log that is fetched signs nothing")

func (noTurn) Reserve(context.Context, uint64, [32]byte) error { return errNoTurn }
func (noTurn) Publish(context.Context, []byte) error           { return errNoTurn }

// served is a checkpoint of this log that others serve.
type served struct {
	cp       tlog.Checkpoint
	from     string // where it was read
	cosigned string
	peers    []fetch.Peer // all that answered
}

// newest asks for the newest checkpoint that counts. Two of one size with different
// roots are two histories: nothing is taken.
func (l *Ledger) newest(ctx context.Context, from []string) (*served, error) {
	var policy *trust.Policy
	if l.cfg.WitnessPolicy != "" {
		var err error
		if policy, err = readPolicy(l.cfg.WitnessPolicy); err != nil {
			return nil, err
		}
		if err := l.event.trust.CheckPolicy(policy); err != nil {
			return nil, fmt.Errorf("witness policy %s: %w", l.cfg.WitnessPolicy, err)
		}
	}
	var out *served
	var peers []fetch.Peer
	errs := []error{errors.New("nobody serves a checkpoint of this log that counts")}
	for _, url := range from {
		src, raw, err := readCheckpoint(ctx, url, policy != nil)
		var s *served
		if err == nil {
			s, err = l.judgeCheckpoint(raw, policy)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", url, err))
			l.log.Warn("a node serves no checkpoint that counts", "from", url, "error", err)
			continue
		}
		s.from = url
		peers = append(peers, fetch.Peer{Name: url, Source: src})
		switch {
		case out != nil && out.cp.Size == s.cp.Size && out.cp.Root != s.cp.Root:
			return nil, fmt.Errorf("two histories: %s serves size %d with root %x, %s with root %x, both signed by the log's key (hint: docs/runbooks/cluster.md)", out.from, s.cp.Size, out.cp.Root, url, s.cp.Root)
		case out == nil || s.cp.Size > out.cp.Size:
			out = s
		}
	}
	if out == nil {
		return nil, errors.Join(errs...)
	}
	out.peers = peers
	return out, nil
}

// judgeCheckpoint believes what the log's key signed and, with a policy, a quorum
// cosigned.
func (l *Ledger) judgeCheckpoint(raw []byte, policy *trust.Policy) (*served, error) {
	note, err := trust.ParseNote(raw)
	if err != nil {
		return nil, err
	}
	if v, err := note.VerifyBy(l.event.trust.Log); err != nil || v.Lines == 0 {
		return nil, errors.Join(fmt.Errorf("its checkpoint is not signed by %s", l.event.trust.Log.Name), err)
	}
	cp, err := trust.ParseCheckpoint(note.Text)
	if err != nil {
		return nil, err
	}
	if cp.Origin != l.id.Origin {
		return nil, fmt.Errorf("its checkpoint is of log %q, not %q", cp.Origin, l.id.Origin)
	}
	s := &served{cp: tlog.Checkpoint{Size: cp.Size, Root: cp.Root, Note: raw}}
	if policy != nil {
		t := policy.Tally(note)
		if s.cosigned = t.String(); !t.Met() {
			return nil, fmt.Errorf("its checkpoint of size %d has no quorum: %s", cp.Size, t)
		}
	}
	return s, nil
}
