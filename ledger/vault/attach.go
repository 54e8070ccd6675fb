package vault

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// What a vault keeps about its log, in rows that are its own:
//
//	x vault    its name among the vaults of the log, 16 random bytes
//	x log      ID of the log
//	x applied  sequence up to which its rows follow the log
//	x flushed  sequence up to which they do on the disk, whatever happened
//	x seed     name of the vault that is giving the log its rows ‖ name of the last
//	           row that it gave; none if no vault is
func sharedRow(what string) []byte { return append([]byte{rowShared}, what...) }

// place is the content of those rows.
type place struct {
	vault, seed      []byte
	log              string
	applied, flushed uint64
	empty            bool // the vault has no rows of a log
}

// seedBytes is how much a message of a seed holds, or a little more. An erasure
// replaces whole messages, so they are small.
const seedBytes = 64 << 10

// attachIdle is how long Open waits for a log that gives nothing new.
const attachIdle = 30 * time.Second

func (v *Vault) readPlace() (p place, err error) {
	err = v.look(func(txn *badger.Txn) error {
		var log, applied, flushed []byte
		for what, to := range map[string]*[]byte{"vault": &p.vault, "seed": &p.seed, "log": &log, "applied": &applied, "flushed": &flushed} {
			val, err := get(txn, sharedRow(what))
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			*to = val
		}
		p.log = string(log)
		for val, to := range map[*[]byte]*uint64{&applied: &p.applied, &flushed: &p.flushed} {
			if *val == nil {
				continue
			}
			if len(*val) != 8 {
				return fmt.Errorf("%w: a sequence of %d bytes", ErrCorrupt, len(*val))
			}
			*to = binary.BigEndian.Uint64(*val)
		}
		if n := len(p.vault); n != 0 && n != vaultIDSize || p.seed != nil && len(p.seed) < vaultIDSize {
			return fmt.Errorf("%w: what it keeps about its log", ErrCorrupt)
		}
		rows := rowsAfter(txn, nil, 1)
		p.empty = len(rows) == 0
		return nil
	})
	return p, err
}

// rowsAfter lists rows that travel, in the order of their names, from the one after
// a name on, of size bytes or a little more.
func rowsAfter(txn *badger.Txn, name []byte, size int) (rows []kv) {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Seek(append(bytes.Clone(name), 0)); it.Valid() && size > 0; it.Next() {
		key := it.Item().KeyCopy(nil)
		if !rowKinds[key[0]] {
			continue
		}
		val, err := it.Item().ValueCopy([]byte{})
		if err != nil {
			continue // the store itself says so when it is read
		}
		rows = append(rows, kv{key, val})
		size -= len(key) + len(val)
	}
	return rows
}

// attach brings the vault to where its log is. A vault that had rows before it had
// a log gives them to the log if that is empty.
func (v *Vault) attach() error {
	s := v.shared
	p, err := v.readPlace()
	if err != nil {
		return err
	}
	var own []kv
	if p.vault == nil {
		p.vault = make([]byte, vaultIDSize)
		if _, err := io.ReadFull(v.seal.random, p.vault); err != nil {
			return fmt.Errorf("read randomness: %w", err)
		}
		own = append(own, kv{sharedRow("vault"), p.vault})
	}
	s.id = [vaultIDSize]byte(p.vault)
	ctx, cancel := context.WithTimeout(s.ctx, attachIdle)
	defer cancel()
	last, err := s.log.Last(ctx)
	if err != nil {
		return unavailable(err)
	}
	const wipe = "hint: if the log is the one to go by, take away the directory of the vault, and it is filled from the log"
	switch {
	case p.log == "" && (p.empty || last == 0):
		own = append(own, kv{sharedRow("log"), []byte(s.log.ID())})
		if !p.empty {
			p.seed = p.vault
			own = append(own, kv{sharedRow("seed"), p.seed})
		}
	case p.log == "":
		return fmt.Errorf("%w: the directory has rows of before, and the log has rows of another vault (%s)", ErrForeign, wipe)
	case p.log != s.log.ID():
		return fmt.Errorf("%w: %w: the rows are of log %q, this is %q (%s)", ErrForeign, ErrOtherLog, p.log, s.log.ID(), wipe)
	case last < p.applied:
		return fmt.Errorf("%w: the rows follow it up to message %d, it ends at %d: it lost messages that it had acknowledged (hint: restore the log's servers)", ErrForeign, p.applied, last)
	}
	if own != nil {
		if err := v.do(&op{local: true, always: true, rows: own}); err != nil {
			return err
		}
	}
	seeder := p.seed != nil && bytes.HasPrefix(p.seed, p.vault)
	if seeder {
		if err := v.beginSeed(ctx, last); err != nil {
			return err
		}
	}
	s.seeding.Store(p.seed != nil)
	s.applied.Store(p.flushed)
	v.workers.Go(func() {
		_ = s.log.Follow(s.ctx, p.flushed+1, func(seq uint64, body []byte) {
			select {
			case s.incoming <- published{seq, body}:
			case <-s.ctx.Done():
			}
		})
	})
	if err := v.progress(func() bool { return s.applied.Load() >= last }); err != nil {
		return err
	}
	if seeder {
		err = v.seed()
	} else {
		err = v.progress(func() bool { return !s.seeding.Load() })
	}
	if err == nil {
		v.workers.Go(v.keepUp)
	}
	return err
}

// progress waits for something that comes with the log, as long as more comes.
func (v *Vault) progress(done func() bool) error {
	s := v.shared
	for idle := time.Duration(0); !done(); {
		if err := v.failed(); err != nil {
			return err
		}
		s.mu.Lock()
		moved := s.moved
		s.mu.Unlock()
		timer := time.NewTimer(lostAfter)
		select {
		case <-moved:
			idle = 0
		case <-timer.C:
			if idle += lostAfter; idle > attachIdle {
				return fmt.Errorf("%w: nothing new after message %d for %v; another node may have to finish giving it its rows", ErrUnavailable, s.applied.Load(), attachIdle)
			}
			// Where the last messages were erased, nothing comes by itself.
			_ = v.do(&op{local: true, always: true, check: func(*badger.Txn) (bool, error) { return true, ErrNotFound }})
		}
		timer.Stop()
	}
	return nil
}

// beginSeed announces in an empty log that this vault gives it its rows, or finds
// that it did so before.
func (v *Vault) beginSeed(ctx context.Context, last uint64) error {
	s := v.shared
	begin := change{kind: changeBegin, rows: []kv{{name: s.id[:]}}}.encode()
	if last == 0 {
		if _, _, err := s.log.Publish(ctx, begin, 0); err != nil {
			return unavailable(err)
		}
	}
	first, err := s.log.Get(ctx, 1)
	if err != nil {
		return unavailable(err)
	}
	if bytes.Equal(first, begin) {
		return nil
	}
	forget := &op{local: true, always: true, rows: []kv{{name: sharedRow("log")}, {name: sharedRow("seed")}}}
	return errors.Join(v.do(forget), fmt.Errorf("%w: another vault began to fill the log first", ErrForeign))
}

// seed gives the log the rows of before, from where it was cut off.
func (v *Vault) seed() error {
	for done := false; !done; {
		o := &op{kind: changeSeed, always: true, more: seedBytes}
		o.check = func(txn *badger.Txn) (bool, error) {
			at, err := get(txn, sharedRow("seed"))
			if err != nil {
				return false, fmt.Errorf("%w: it lost its place", ErrFailed)
			}
			o.rows = rowsAfter(txn, at[vaultIDSize:], seedBytes)
			done = len(o.rows) == 0
			return done, nil
		}
		if err := v.do(o); err != nil {
			return fmt.Errorf("give the log the rows of before: %w", err)
		}
	}
	if err := v.do(&op{kind: changeEnd, always: true}); err != nil {
		return fmt.Errorf("give the log the rows of before: %w", err)
	}
	return nil
}

// noteSeed keeps what a message says about a vault that gives its rows.
func (v *Vault) noteSeed(txn *badger.Txn, c change) error {
	s := v.shared
	name := sharedRow("seed")
	switch c.kind {
	case changeBegin:
		s.seeding.Store(true)
		at, err := get(txn, name)
		if err == nil && bytes.HasPrefix(at, c.rows[0].name) {
			return nil
		}
		return txn.Set(name, c.rows[0].name)
	case changeSeed:
		at, err := get(txn, name)
		if errors.Is(err, ErrNotFound) || len(c.rows) == 0 {
			return nil // applied again, after the end
		} else if err != nil {
			return err
		}
		return txn.Set(name, append(at[:vaultIDSize:vaultIDSize], c.rows[len(c.rows)-1].name...))
	case changeEnd:
		s.seeding.Store(false)
		return txn.Delete(name)
	}
	return nil
}
