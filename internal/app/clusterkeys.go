package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/stream"
)

// sharedKeys is the registry of event keys that all nodes have, in a register.
type sharedKeys struct {
	reg *stream.Register

	mu  sync.Mutex
	rev uint64 // of what this node goes by
}

// shareRegistry makes the registry of event keys that of all nodes. The first node
// gives its own; the others take that.
func (l *Ledger) shareRegistry(ctx context.Context) error {
	for {
		value, rev, err := l.cluster.keys.reg.Get(ctx)
		if err != nil {
			return err
		}
		if rev > 0 {
			return l.takeRegistry(value, rev)
		}
		own, err := l.event.copy().Encode()
		if err != nil {
			return err
		}
		if _, err = l.cluster.keys.reg.Put(ctx, own, 0); err == nil || !errors.Is(err, stream.ErrRevision) {
			return err
		}
	}
}

// takeRegistry makes a registry that another node wrote this one's, unless it goes
// by a newer one. If it takes back what was counted here, index and views are made
// anew by a new start.
func (l *Ledger) takeRegistry(value []byte, rev uint64) error {
	next, err := keyring.ParseRegistry(value)
	if err != nil {
		return fmt.Errorf("the event keys of another node: %w", err)
	}
	k := &l.cluster.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	if rev <= k.rev {
		return nil
	}
	have := l.event.copy()
	if own, err := have.Encode(); err != nil {
		return err
	} else if bytes.Equal(own, value) {
		k.rev = rev
		return nil
	}
	seen := l.stream.LastSeen()
	back := l.signedThere(have.TakenBack(next, seen))
	if back {
		// First the note that what is derived does not fit any more, as for a change
		// of this node's own.
		if err := l.markStale(&notices{}); err != nil {
			return err
		}
	}
	if err := l.keepRegistryLocked(next, rev); err != nil {
		return err
	}
	l.log.Info("the event keys changed on another node")
	if now := l.stream.LastSeen(); !back && now > seen && l.signedThere(have.TakenBack(next, now)) {
		// It came between the look and the change, and may have been counted.
		if err := l.markStale(&notices{}); err != nil {
			return err
		}
		back = true
	}
	if back {
		l.partFailed("keys", errStale)
	}
	return nil
}

// maxLook bounds the messages that are read to see whether a key signed any of them:
// more come from a revocation that reaches back, of a key that signed there.
const maxLook = 1024

// signedThere reports whether a key signed leaves that it may not sign any more. The end
// of a key that does not sign any more lies behind all that it signed, and changes
// nothing here. What cannot be read counts as signed: then more is made anew than needed.
func (l *Ledger) signedThere(taken []keyring.Taken) bool {
	ctx, cancel := context.WithTimeout(l.run, missingLimit)
	defer cancel()
	for _, t := range taken {
		if t.To-t.From > maxLook {
			return true
		}
		for leaf := t.From; leaf < t.To; leaf++ {
			m, err := l.stream.Get(ctx, leaf+1)
			if err != nil {
				return true
			}
			rec, err := event.ParseRecord(m.Body)
			if err == nil && rec.Signatures[0].KeyID == t.KeyID {
				return true
			}
		}
	}
	return false
}

func (l *Ledger) keepRegistryLocked(next *keyring.Registry, rev uint64) error {
	if err := next.Save(l.paths.join("keys/" + keyring.RegistryFile)); err != nil {
		return err
	}
	if err := l.useRegistry(next); err != nil {
		return err
	}
	l.cluster.keys.rev = rev
	return nil
}

// followRegistry takes every change of the event keys that another node makes.
func (l *Ledger) followRegistry(ctx context.Context) error {
	err := l.cluster.keys.reg.Watch(ctx, l.takeRegistry)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// commitRegistry makes a changed registry the one that events are judged by: on all
// nodes, then here.
func (l *Ledger) commitRegistry(ctx context.Context, next *keyring.Registry) error {
	if l.cluster == nil {
		if err := next.Save(l.paths.join("keys/" + keyring.RegistryFile)); err != nil {
			return err
		}
		return l.useRegistry(next)
	}
	value, err := next.Encode()
	if err != nil {
		return err
	}
	k := &l.cluster.keys
	_, rev, err := k.reg.Get(ctx)
	if err == nil {
		rev, err = k.reg.Put(ctx, value, rev)
	}
	if err != nil {
		return l.explain(fmt.Errorf("share the event keys with the other nodes: %w", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if rev <= k.rev {
		return nil // the watch was faster
	}
	return l.keepRegistryLocked(next, rev)
}

// missingLimit bounds how long the event keys of all nodes may take to come.
const missingLimit = 10 * time.Second

// missingKey reads the event keys that all nodes have, for an event whose key is not
// among those known here: the node that signed it has shared them before.
func (l *Ledger) missingKey() {
	ctx, cancel := context.WithTimeout(l.run, missingLimit)
	defer cancel()
	value, rev, err := l.cluster.keys.reg.Get(ctx)
	if err == nil && rev > 0 {
		err = l.takeRegistry(value, rev)
	}
	if err != nil {
		l.log.Warn("the event keys of all nodes cannot be read", "error", err)
	}
}
