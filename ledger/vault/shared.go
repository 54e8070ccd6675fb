package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// shared is the part of a vault whose changes go through a log that other vaults
// apply as well. The committer is the only one who applies: what others published,
// and what it published itself once the log has it. So every op is checked against
// a state that is exactly that of the log up to applied, and is published only if
// the log still ends there.
type shared struct {
	log Replica
	id  [vaultIDSize]byte // of this vault among those of the log

	// ctx ends after the committer; what reaches it comes in order.
	ctx      context.Context
	stop     context.CancelFunc
	incoming chan published
	ended    chan struct{} // closed when the committer has ended

	applied atomic.Uint64 // sequence up to which the store follows the log
	seeding atomic.Bool   // a vault is still giving the log its rows
	left    atomic.Bool   // something that ended here has to be deleted yet

	// Owned by the committer: what there is no disk space for, and why.
	held    []published
	heldFor error
	// And a message without an answer that may be in the log, and whether it came.
	awaited published
	met     bool
	// rivals is how many times more to give way to other nodes; see giveWay.
	rivals int

	mu    sync.Mutex
	moved chan struct{} // closed and replaced when applied moves
}

// published is a message of the log.
type published struct {
	seq  uint64
	body []byte
}

const (
	// publishWait bounds how long a group of ops tries to get into the log.
	publishWait = 20 * time.Second
	// readWait bounds how long a reader waits for the newest of the log.
	readWait = 2 * time.Second
	// lostAfter is after how long without a message that must be there the
	// committer asks for it.
	lostAfter = 500 * time.Millisecond
	// courtesy is how long a node that published waits for another one's message,
	// and rivalsFor after how many times in vain it waits no more.
	courtesy  = 2 * time.Millisecond
	rivalsFor = 16
	// heldRetry is how often a full disk is looked at again.
	heldRetry = time.Second
	// flushEvery is how often a vault notes that what it applied is on the disk.
	flushEvery = 2 * time.Second
	// vaultIDSize is the length of the name of a vault among those of a log.
	vaultIDSize = 16
)

func newShared(log Replica) *shared {
	s := &shared{log: log, incoming: make(chan published, 16), ended: make(chan struct{}), moved: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

func (s *shared) advance(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied.Store(seq)
	close(s.moved)
	s.moved = make(chan struct{})
}

// await waits until the store follows the log up to seq.
func (s *shared) await(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		moved := s.moved
		s.mu.Unlock()
		at := s.applied.Load()
		if at >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: the vault is at %d of %d", ErrUnavailable, at, seq)
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

// newest waits until the store has everything that the log had when it was called.
func (v *Vault) newest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(v.opt.patience, readWait))
	defer cancel()
	last, err := v.shared.log.Last(ctx)
	if err != nil {
		return unavailable(err)
	}
	return v.shared.await(ctx, last)
}

// unavailable words trouble of the log. A deadline inside is ours, not the caller's,
// so the cause is told and not wrapped.
func unavailable(cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %v", ErrUnavailable, cause)
}

// stale tells whether an answer may be another once the store has the newest of
// the log.
func stale(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, errNotWritten)
}

// commitShared is the committer of a vault with a log.
func (v *Vault) commitShared() {
	s := v.shared
	defer close(s.ended)
	var first *op // taken, and not in a group yet
	for {
		if first == nil {
			incoming, retry := s.incoming, (<-chan time.Time)(nil)
			if len(s.held) > 0 {
				incoming, retry = nil, time.After(heldRetry)
			}
			select {
			case o, ok := <-v.ops:
				if !ok {
					return
				}
				first = o
			case m := <-incoming:
				v.applyWaiting(m)
				continue
			case <-retry:
				v.applyWaiting()
				continue
			}
		}
		group, size := []*op{first}, first.size()
		first = nil
		alone := group[0].kind != 0
	gather:
		for !alone && len(group) < maxGroupOps {
			select {
			case o, ok := <-v.ops:
				if !ok {
					break gather
				}
				// A message must not grow by what one op more brings.
				if o.kind != 0 || size+o.size() > maxGroupBytes {
					first = o
					break gather
				}
				group, size = append(group, o), size+o.size()
			default:
				break gather
			}
		}
		for i, err := range v.commitGroup(group, size) {
			group[i].done <- err
		}
		if s.rivals > 0 {
			v.giveWay()
		}
	}
}

// commitGroup gets a group into the log and applies it. It ends with an answer for
// each op; an op whose answer is nil is in the log, or had nothing to change.
func (v *Vault) commitGroup(group []*op, size int) []error {
	s := v.shared
	errs := make([]error, len(group))
	all := func(err error) []error {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
		return errs
	}
	ctx, cancel := context.WithTimeout(s.ctx, cmp.Or(v.opt.patience, publishWait))
	defer cancel()
	for fresh := false; ; {
		clear(errs)
		if err := v.failed(); err != nil {
			return all(err)
		}
		if len(s.held) > 0 {
			if v.applyWaiting(); len(s.held) > 0 {
				return all(s.heldFor)
			}
		}
		spaceErr := v.space.admit(size)
		txn := v.db.NewTransaction(true)
		c := change{kind: changeRows}
		again := false
		for i, o := range group {
			if spaceErr != nil && !o.always {
				errs[i] = spaceErr
				continue
			}
			if o.check != nil {
				skip, err := o.check(txn)
				errs[i] = err
				if again = again || !fresh && stale(err); skip || err != nil {
					continue
				}
			}
			if s.seeding.Load() && !o.local && o.kind == 0 {
				errs[i] = fmt.Errorf("%w: another node is still giving it its rows", ErrUnavailable)
				continue
			}
			if o.kind != 0 {
				c.kind = o.kind
			}
			for _, r := range o.rows {
				if o.kind != 0 {
					break // they are there
				}
				if err := set(txn, r); err != nil {
					txn.Discard()
					return all(v.fail("write", err))
				}
			}
			if !o.local {
				c.rows = append(c.rows, o.rows...)
			}
		}
		if again {
			// What was not found may be in messages that are on their way.
			txn.Discard()
			last, err := s.log.Last(ctx)
			if err == nil {
				_, err = v.receive(ctx, last, nil)
			}
			if err != nil {
				return v.giveUp(group, errs, err)
			}
			fresh = true
			continue
		}
		if len(c.rows) == 0 && c.kind != changeEnd {
			if err := txn.Commit(); err != nil {
				return all(v.fail("write", err))
			}
			return errs
		}
		body := c.encode()
		if len(body) > MaxChange {
			txn.Discard()
			return all(fmt.Errorf("%w: a change of %d bytes, at most %d", ErrTooLarge, len(body), MaxChange))
		}
		expect := s.applied.Load()
		seq, last, err := s.log.Publish(ctx, body, expect)
		switch {
		case err != nil:
			// It may be in the log all the same: then it comes back as every
			// other message, and if not, it never gets in after the next one.
			txn.Discard()
			return all(unavailable(err))
		case seq == 0:
			// Another node was faster, or our own message without an answer.
			txn.Discard()
			ours, err := v.receive(ctx, last, body)
			if err != nil {
				return all(err)
			}
			if ours {
				return errs
			}
			fresh = true
			continue
		case seq != expect+1:
			txn.Discard()
			return all(v.fail("publish", fmt.Errorf("the log stored after sequence %d at %d", expect, seq)))
		}
		// The commit point: the log has it, durably, for every node. From here on
		// a crash loses nothing: Open applies it from there.
		if err := v.note(txn, seq, c); err != nil {
			txn.Discard()
			return all(v.fail("write", err))
		}
		if err := txn.Commit(); err != nil {
			return all(v.fail("write", err))
		}
		s.advance(seq)
		return errs
	}
}

// giveUp answers when the log does not: what the ops were refused for may not hold.
func (v *Vault) giveUp(group []*op, errs []error, cause error) []error {
	for i := range group {
		if errs[i] == nil || stale(errs[i]) {
			errs[i] = unavailable(cause)
		}
	}
	return errs
}

func set(txn *badger.Txn, r kv) error {
	if r.value == nil {
		return txn.Delete(r.name)
	}
	return txn.Set(r.name, r.value)
}
