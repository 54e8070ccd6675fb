package vault

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// receive applies what comes from the log up to last. ours tells whether the
// message right after the present state is body.
func (v *Vault) receive(ctx context.Context, last uint64, body []byte) (ours bool, err error) {
	s := v.shared
	s.awaited, s.met = published{s.applied.Load() + 1, body}, false
	lost := time.NewTimer(lostAfter)
	defer lost.Stop()
	for s.applied.Load() < last {
		var m published
		select {
		case m = <-s.incoming:
		case <-lost.C:
			// The messages up to last were erased, or do not come.
			if m, err = v.fetch(ctx, last); err != nil {
				return false, unavailable(err)
			}
		case <-ctx.Done():
			return false, fmt.Errorf("%w: message %d of %d does not come", ErrUnavailable, s.applied.Load()+1, last)
		}
		lost.Reset(lostAfter)
		v.applyWaiting(m)
		if err := v.failed(); err != nil {
			return false, err
		}
		if len(s.held) > 0 {
			return false, s.heldFor
		}
	}
	return s.met, nil
}

// fetch asks for the first message up to last that is not applied; a message
// without a body is at last if all were erased.
func (v *Vault) fetch(ctx context.Context, last uint64) (published, error) {
	for seq := v.shared.applied.Load() + 1; seq <= last; seq++ {
		body, err := v.shared.log.Get(ctx, seq)
		if err != nil {
			return published{}, err
		}
		if body != nil {
			return published{seq, body}, nil
		}
	}
	return published{seq: last}, nil
}

// applyWaiting applies messages and what else has come by now. Without disk space
// they are held; damage fails the vault.
func (v *Vault) applyWaiting(list ...published) {
	s := v.shared
	list = append(s.held, list...)
	s.held = nil
	size := 0
	for _, m := range list {
		size += len(m.body)
	}
	for len(list) > 0 && size < maxGroupBytes {
		select {
		case m := <-s.incoming:
			list, size = append(list, m), size+len(m.body)
			continue
		default:
		}
		break
	}
	// In transactions that the store admits.
	for len(list) > 0 && v.failed() == nil {
		n, size := 0, 0
		for n < len(list) && (n == 0 || size+len(list[n].body) <= maxGroupBytes) {
			size += len(list[n].body)
			n++
		}
		if err := v.space.admit(size); err != nil {
			v.opt.Log.Error("the vault cannot follow its log", "error", err)
			s.held, s.heldFor = slices.Clone(list), err
			return
		}
		if err := v.apply(list[:n]); err != nil {
			_ = v.fail("apply a message of the log", err)
		}
		list = list[n:]
	}
}

func (v *Vault) apply(list []published) error {
	s := v.shared
	txn := v.db.NewTransaction(true)
	defer txn.Discard()
	at, before := s.applied.Load(), s.applied.Load()
	lowered := false
	for _, m := range list {
		if m.seq <= at {
			continue
		}
		if m.body != nil {
			s.met = s.met || m.seq == s.awaited.seq && bytes.Equal(m.body, s.awaited.body)
			c, err := decodeChange(m.body)
			if err != nil {
				return fmt.Errorf("message %d: %w", m.seq, err)
			}
			for _, r := range c.rows {
				if c.kind == changeBegin {
					break
				}
				if r.name[0] == rowKey && !lowered {
					_, err := txn.Get(r.name)
					lowered = err == nil
				}
				if err := set(txn, r); err != nil {
					return err
				}
			}
			if err := v.note(txn, m.seq, c); err != nil {
				return err
			}
		}
		at = m.seq
	}
	if at == before {
		return nil
	}
	s.rivals = rivalsFor
	if err := setApplied(txn, at); err != nil {
		return err
	}
	if err := txn.Commit(); err != nil {
		return err
	}
	s.advance(at)
	if lowered {
		// Another node changed the state of an attempt, we cannot tell of which.
		v.forgetAll()
	}
	return nil
}

// note writes what this vault keeps about a message beside its rows.
func (v *Vault) note(txn *badger.Txn, seq uint64, c change) error {
	for _, r := range c.rows {
		if owner := ownerOf(r); owner != nil {
			if err := txn.Set(indexRow(owner, seq), []byte{}); err != nil {
				return err
			}
		}
	}
	if err := v.noteSeed(txn, c); err != nil {
		return err
	}
	return setApplied(txn, seq)
}

// giveWay lets another node publish first. Who published knows the end of the log
// before the others do, and would be the first again and again.
func (v *Vault) giveWay() {
	s := v.shared
	s.rivals--
	timer := time.NewTimer(courtesy)
	defer timer.Stop()
	for at := s.applied.Load(); s.applied.Load() == at && v.failed() == nil; {
		select {
		case m := <-s.incoming:
			v.applyWaiting(m) // may be what we published ourselves
		case <-timer.C:
			return
		}
	}
}

func setApplied(txn *badger.Txn, seq uint64) error {
	return txn.Set(sharedRow("applied"), binary.BigEndian.AppendUint64(nil, seq))
}

// keepUp finishes erasures that the log did not answer to, and notes from time to
// time up to where the store is on the disk. The
// rows of one transaction are there together or not at all after a power loss, but
// of two files of Badger's the newer may be there without the older. So after a
// start the log is applied again from what was noted: the last message about a row
// decides, however often it comes.
func (v *Vault) keepUp() {
	s := v.shared
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var flushed uint64
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.left.Swap(false) {
			if v.finishErasures() != nil || v.dropLoose(false) != nil {
				s.left.Store(true)
			}
		}
		at := s.applied.Load()
		if at == flushed || v.flush() != nil {
			continue
		}
		if v.do(&op{local: true, always: true, rows: []kv{flushedAt(at)}}) == nil {
			flushed = at
		}
	}
}

func flushedAt(seq uint64) kv {
	return kv{sharedRow("flushed"), binary.BigEndian.AppendUint64(nil, seq)}
}
