package app

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/api"
	"counterfoil/internal/durable"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/trust"
)

// eventKeys are the registered event keys and who signs. A change is announced by
// an attempt of kind key, made durable in the registry, and then has its outcome:
// an attempt without one was perhaps not made, and the registry tells.
type eventKeys struct {
	change sync.Mutex // one change at a time

	mu       sync.Mutex
	registry *keyring.Registry
	signer   keyring.Signer
	trust    *trust.File
}

// Keys lists the registered event keys.
func (l *Ledger) Keys(context.Context) api.Keys {
	l.event.mu.Lock()
	defer l.event.mu.Unlock()
	out := api.Keys{SchemaVersion: api.KeysSchema, Signing: l.event.signer.KeyID()}
	for _, e := range l.event.registry.Entries() {
		out.Keys = append(out.Keys, keyOf(e))
	}
	return out
}

func keyOf(e keyring.Entry) api.Key {
	return api.Key{KeyID: e.KeyID, PublicKey: base64.StdEncoding.EncodeToString(e.PublicKey), Status: string(e.Status),
		FromIndex: e.FromIndex, ToIndex: e.ToIndex, RevokedFromIndex: e.RevokedFromIndex}
}

// trustFile is what a verifier needs to know of this ledger now.
func (l *Ledger) trustFile() *trust.File {
	l.event.mu.Lock()
	defer l.event.mu.Unlock()
	return l.event.trust
}

// RegisterKey registers a public key that may sign from the next leaf on. A key
// that is registered stays as it is.
func (l *Ledger) RegisterKey(ctx context.Context, keyID string, pub []byte) (api.Key, error) {
	if err := l.mayChange(); err != nil {
		return api.Key{}, err
	}
	l.event.change.Lock()
	defer l.event.change.Unlock()
	return l.registerKey(ctx, keyID, pub)
}

func (l *Ledger) registerKey(ctx context.Context, keyID string, pub []byte) (api.Key, error) {
	next := l.event.copy()
	at, err := l.streamLast(ctx)
	if err != nil {
		return api.Key{}, err
	}
	e, added, err := next.Register(keyID, pub, at)
	if err != nil {
		return api.Key{}, explainKey(err)
	}
	if !added {
		return keyOf(e), nil
	}
	change := event.KeyChange{Change: event.KeyRegistered, KeyID: keyID, PublicKey: base64.StdEncoding.EncodeToString(pub), Index: int64(at)}
	return keyOf(e), l.changeKey(ctx, change, func(context.Context) (*keyring.Registry, error) { return next, nil })
}

// RotateKey makes a new event key, signs with it from now on, and retires the one
// before. It returns the new key. After an error the new key may sign already; the
// old one can then be retired by itself.
func (l *Ledger) RotateKey(ctx context.Context) (api.Key, error) {
	if l.cfg.EventKeyID != "" || l.cluster != nil {
		return api.Key{}, api.NewConflict("this ledger signs with a key that its configuration names, or that all its nodes have",
			"make the new key where the old one is, register it, start the ledger with it, then retire the old one")
	}
	if err := l.mayChange(); err != nil {
		return api.Key{}, err
	}
	l.event.change.Lock()
	defer l.event.change.Unlock()
	old := l.signingKey()
	fresh, err := keyring.GenerateEvent(l.paths.keys(), l.cfg.Random)
	if err != nil {
		return api.Key{}, err
	}
	key, err := l.registerKey(ctx, fresh.KeyID(), fresh.Public())
	if err != nil {
		return api.Key{}, err
	}
	// From here on a new start signs with the new key, and so does this process
	// from the next line on.
	if err := keyring.Choose(l.paths.keys(), fresh.KeyID()); err != nil {
		return api.Key{}, err
	}
	l.event.mu.Lock()
	l.event.signer = fresh
	l.event.mu.Unlock()
	if err := l.intake.SignWith(ctx, fresh); err != nil {
		return api.Key{}, fmt.Errorf("the new key signs, the old one is not retired: %w", err)
	}
	if _, err := l.setKeyStatus(ctx, old, keyring.Retired, nil); err != nil {
		return api.Key{}, fmt.Errorf("the new key signs, the old one is not retired: %w", err)
	}
	return key, nil
}

// SetKeyStatus retires, revokes or disables a key that does not sign. from is the
// first leaf to which that applies; nil is the next one. Only a revocation may
// reach back: then the index and the views are made anew, by a new start.
func (l *Ledger) SetKeyStatus(ctx context.Context, keyID, status string, from *uint64) (api.Key, error) {
	if err := l.mayChange(); err != nil {
		return api.Key{}, err
	}
	l.event.change.Lock()
	defer l.event.change.Unlock()
	if keyID == l.signingKey() {
		return api.Key{}, api.NewConflict("this key signs", "rotate first, then the old key can be taken out of use")
	}
	if from != nil && status != string(keyring.Revoked) {
		return api.Key{}, api.NewConflict("only a revocation may reach back", "leave out fromIndex")
	}
	return l.setKeyStatus(ctx, keyID, keyring.Status(status), from)
}

func (l *Ledger) setKeyStatus(ctx context.Context, keyID string, status keyring.Status, from *uint64) (api.Key, error) {
	last, err := l.streamLast(ctx)
	if err != nil {
		return api.Key{}, err
	}
	at, back := last, false
	if from != nil {
		if *from > last {
			return api.Key{}, api.NewConflict(fmt.Sprintf("leaf %d is not there yet, the log will have %d leaves", *from, last), "give the index of a leaf that is there, or none")
		}
		at, back = *from, *from < last
	}
	next := l.event.copy()
	entry, err := next.SetStatus(keyID, status, at)
	if err != nil {
		return api.Key{}, explainKey(err)
	}
	change := event.KeyChange{Change: string(status), KeyID: keyID, Index: int64(at)}
	err = l.changeKey(ctx, change, func(ctx context.Context) (*keyring.Registry, error) {
		if back {
			// First the note that what is derived does not fit any more: a crash
			// from here on costs a rebuild and nothing else.
			lost, err := l.signedNotices(ctx, keyID, at)
			if err != nil {
				return nil, err
			}
			return next, l.markStale(lost)
		}
		return next, l.nothingLate(ctx, keyID, last)
	})
	if err == nil && !back && l.nothingLate(ctx, keyID, last) != nil {
		// It came between the look and the change, and may have been counted.
		back, err = true, l.markStale(&notices{})
	}
	if err == nil && back {
		l.partFailed("keys", errStale)
	}
	return keyOf(entry), err
}

var errStale = errors.New("the key's end reaches back to leaves that were counted: a new start makes index and views anew")

// markStale notes that index and views were made under other keys, and which
// notices have to be announced again.
func (l *Ledger) markStale(again *notices) error {
	b, err := json.Marshal(again)
	if err != nil {
		return err
	}
	return durable.WriteFile(l.paths.stale(), append(b, '\n'), 0o600)
}

// nothingLate makes sure that no event of a key that ends at last came behind it.
// One can only come from a call that ended without the stream's answer.
func (l *Ledger) nothingLate(ctx context.Context, keyID string, last uint64) error {
	now, err := l.streamLast(ctx)
	if err != nil {
		return err
	}
	for seq := last + 1; seq <= now; seq++ {
		m, err := l.stream.Get(ctx, seq)
		if err != nil {
			return fmt.Errorf("read sequence %d: %w", seq, err)
		}
		rec, err := event.ParseRecord(m.Body)
		if err == nil && rec.Signatures[0].KeyID == keyID {
			return api.NewConflict(fmt.Sprintf("an event that the key signed came late, at leaf %d", seq-1), "do the same again")
		}
	}
	return nil
}

// changeKey announces a change, makes it, and says that it was made.
func (l *Ledger) changeKey(ctx context.Context, change event.KeyChange, decide func(context.Context) (*keyring.Registry, error)) error {
	id := fmt.Sprintf("key.%s:%s:%s", change.Change, change.KeyID, event.FormatTime(l.cfg.Now()))
	res, err := l.intake.KeyNotice(ctx, id, change)
	if err == nil {
		err = l.seq.Wait(ctx, res.Seq)
	}
	if err != nil {
		return l.explain(fmt.Errorf("announce the change of key %s: %w", change.KeyID, err))
	}
	next, err := decide(ctx)
	if err != nil {
		return err
	}
	// The commit point. A crash before it leaves an attempt without outcome.
	if err := l.commitRegistry(ctx, next); err != nil {
		return err
	}
	l.log.Info("an event key changed", "key", change.KeyID, "change", change.Change, "index", change.Index)
	if res, err = l.intake.KeyApplied(ctx, res.Rec.Event.AttemptID); err == nil {
		err = l.seq.Wait(ctx, res.Seq)
	}
	return l.explain(err)
}

// useRegistry makes a registry the one that events are judged by.
func (l *Ledger) useRegistry(r *keyring.Registry) error {
	set, err := eventKeysOf(r)
	if err != nil {
		return err
	}
	l.event.mu.Lock()
	defer l.event.mu.Unlock()
	file := *l.event.trust
	file.EventKeys = set
	l.event.registry, l.event.trust = r, &file
	l.check.use(set)
	return nil
}

func (k *eventKeys) copy() *keyring.Registry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registry.Clone()
}

func (l *Ledger) signingKey() string {
	l.event.mu.Lock()
	defer l.event.mu.Unlock()
	return l.event.signer.KeyID()
}

func (l *Ledger) streamLast(ctx context.Context) (uint64, error) {
	st, err := l.stream.State(ctx)
	if err != nil {
		return 0, l.explain(err)
	}
	return st.Last, nil
}

// clearStale deletes what was derived under keys that do not count any more.
func (l *Ledger) clearStale(context.Context) error {
	if !exists(l.paths.stale()) {
		return nil
	}
	l.log.Warn("a key was revoked for leaves that were counted; index and views are made anew")
	raw, err := os.ReadFile(l.paths.stale())
	if err != nil {
		return err
	}
	if err := l.keepNotices(raw); err != nil {
		return err
	}
	for _, dir := range []string{l.paths.index(), l.paths.views()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("delete what was derived under a revoked key: %w", err)
		}
	}
	return durable.Remove(l.paths.stale())
}

// explainKey words what the registry refuses.
func explainKey(err error) error {
	switch {
	case errors.Is(err, keyring.ErrConflict), errors.Is(err, keyring.ErrTransition):
		return api.NewConflict(err.Error(), "counterfoil keys list shows the keys")
	case errors.Is(err, keyring.ErrNotRegistered):
		return api.NewNotFound(err.Error(), "counterfoil keys list shows the keys")
	case errors.Is(err, keyring.ErrMismatch), errors.Is(err, keyring.ErrMalformed):
		return api.NewInvalid("", "the id is ed25519: or ed25519ph: and the hex SHA-256 of the 32 bytes", err.Error())
	}
	return err
}
