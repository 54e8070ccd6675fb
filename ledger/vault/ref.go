package vault

import (
	"bytes"
	"cmp"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/go-json-experiment/json"
)

// Ref is a reference of an owner, an attempt, to an object in a role: who needs
// it, as what, and until when.
type Ref struct {
	Owner, Role string
	Digest      [sha256.Size]byte
	Size        int64 // in bytes
	State       ObjectState
	// Class and Kind are words of the caller about the retention, Reason about
	// an absence: up to 255 bytes each.
	Class, Kind, Reason string
	// Stored and Until are in milliseconds of Unix time.
	Stored, Until int64
}

// refRow is the content of an a row, as JSON.
type refRow struct {
	Owner  string            `json:"owner"`
	Role   string            `json:"role"`
	Digest [sha256.Size]byte `json:"digest"`
	Size   int64             `json:"size"`
	State  ObjectState       `json:"state"`
	Class  string            `json:"class"`
	Kind   string            `json:"kind"`
	Reason string            `json:"reason,omitempty"`
	Stored int64             `json:"stored"`
	Until  int64             `json:"until"`
}

// maxRefRow bounds what an a row takes, sealed and with its names.
const maxRefRow = 4 << 10

func (r *Ref) check() error {
	if err := checkPlace(r.Owner, r.Role, "-"); err != nil {
		return err
	}
	for _, s := range []string{r.Role, r.Class, r.Kind, r.Reason} {
		if len(s) > 255 {
			return fmt.Errorf("%w: a word of %d bytes in a reference, at most 255", ErrTooLarge, len(s))
		}
	}
	return nil
}

// refNames are the two rows of a reference, and the object's name.
type refNames struct {
	object    objectName
	ref, back []byte
}

func (v *Vault) refNames(r *Ref) refNames {
	a, role := v.seal.attempt(r.Owner), mac(v.seal.nameKey, "role", r.Role)
	n := v.seal.object(r.Digest)
	if r.State == ObjectAbsent {
		n = objectName(mac(v.seal.nameKey, "absent"))
	}
	return refNames{n, slices.Concat(row(rowRef, a), n[:], role), slices.Concat([]byte{rowBackRef}, n[:], a[:], role)}
}

// splitRef takes the name of an a row apart.
func splitRef(name []byte) (refNames, error) {
	if len(name) != 1+3*nameSize {
		return refNames{}, fmt.Errorf("%w: a row of kind %q has a name of %d bytes", ErrCorrupt, name[0], len(name))
	}
	a, n, role := name[1:1+nameSize], name[1+nameSize:1+2*nameSize], name[1+2*nameSize:]
	return refNames{objectName(n), name, slices.Concat([]byte{rowBackRef}, n, a, role)}, nil
}

// errNotWritten: an object is not there, and its pieces were not written.
var errNotWritten = errors.New("the object is not there")

// refer writes a reference, and the head of its object if there is none; w has its
// pieces. used says whether the pieces belong to a head now.
func (v *Vault) refer(ref Ref, w *pieceWriter) (_ Ref, used bool, err error) {
	names := v.refNames(&ref)
	o := &op{more: maxRefRow}
	given := ref
	o.check = func(txn *badger.Txn) (bool, error) {
		ref, used = given, false
		aead, err := v.ownerSeal(txn, v.seal.attempt(ref.Owner))
		if err != nil {
			return false, fmt.Errorf("owner %s: %w", ref.Owner, err)
		}
		old, err := v.readRef(txn, aead, names.ref)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return false, err
		case old.State == ref.State:
			ref.Stored = min(ref.Stored, old.Stored)
			if old.Until > ref.Until {
				ref.Until, ref.Class, ref.Kind = old.Until, old.Class, old.Kind
			}
		}
		sealed, err := v.sealRef(aead, names.ref, ref)
		if err != nil {
			return false, err
		}
		o.rows = []kv{{names.ref, sealed}}
		if ref.State == ObjectAbsent {
			return false, nil
		}
		o.rows = append(o.rows, kv{names.back, []byte{sealVersion}})
		var gone *GoneError
		h, err := v.readObject(txn, names.object)
		switch {
		case err == nil:
			// It may be ours, of a send to the log that got no answer.
			used = !w.dry && h.id == w.id
			return false, nil
		case !errors.Is(err, ErrNotFound) && !errors.As(err, &gone):
			return false, err
		case w.dry:
			return false, errNotWritten
		}
		if v.shared != nil {
			// Another node that took ours for dead may be deleting the pieces.
			if _, err := get(txn, looseRow(w.id)); err != nil {
				return false, fmt.Errorf("its pieces: %w", err)
			}
		}
		head, err := v.seal.lock(v.seal.rows, names.object.head(), objectHead{ObjectKept, w.key, w.size, w.id}.encode())
		if err != nil {
			return false, err
		}
		// The commit point: with its head the object is there, and its pieces are
		// not loose any more.
		o.rows = append(o.rows, kv{names.object.head(), head}, kv{name: looseRow(w.id)})
		used = true
		return false, nil
	}
	if err := v.do(o); err != nil {
		return Ref{}, false, err
	}
	return ref, used, nil
}

// ownerSeal opens the references of an owner.
func (v *Vault) ownerSeal(txn *badger.Txn, a attemptName) (cipher.AEAD, error) {
	key, err := v.readState(txn, row(rowKey, a))
	if err != nil {
		return nil, err
	}
	return v.seal.bodies(key)
}

func (v *Vault) sealRef(aead cipher.AEAD, name []byte, r Ref) ([]byte, error) {
	content, err := json.Marshal(refRow(r))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return v.seal.lock(aead, name, content)
}

func (v *Vault) readRef(txn *badger.Txn, aead cipher.AEAD, name []byte) (Ref, error) {
	sealed, err := get(txn, name)
	if err != nil {
		return Ref{}, err
	}
	content, err := v.seal.unlock(aead, name, sealed)
	if err != nil {
		return Ref{}, err
	}
	var r refRow
	if err := json.Unmarshal(content, &r, json.RejectUnknownMembers(true)); err != nil {
		return Ref{}, fmt.Errorf("%w: a reference cannot be read: %w", ErrCorrupt, err)
	}
	return Ref(r), nil
}

// Refs lists the references of an owner, sorted by role and digest: none is an
// empty list. [ErrNotFound], [ErrErased] and [ErrRedacted] are about the owner.
func (v *Vault) Refs(owner string) ([]Ref, error) {
	if err := checkAttemptID(owner); err != nil {
		return nil, err
	}
	out := []Ref{}
	err := v.view(func(txn *badger.Txn) error {
		out = out[:0]
		a := v.seal.attempt(owner)
		aead, err := v.ownerSeal(txn, a)
		if err != nil {
			return err
		}
		it := txn.NewIterator(badger.IteratorOptions{Prefix: row(rowRef, a)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			r, err := v.readRef(txn, aead, it.Item().KeyCopy(nil))
			if err != nil {
				return err
			}
			out = append(out, r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("references of %s: %w", owner, err)
	}
	slices.SortFunc(out, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), bytes.Compare(a.Digest[:], b.Digest[:]))
	})
	return out, nil
}

// EachRef calls f with every reference, in no order that means anything. What
// comes or goes meanwhile may be in it or not. f may change references.
func (v *Vault) EachRef(f func(Ref) error) error {
	const page = 1024
	after := []byte{rowRef}
	for {
		var refs []Ref
		var at []byte
		err := v.view(func(txn *badger.Txn) error {
			refs, at = nil, after
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{rowRef}})
			defer it.Close()
			for it.Seek(after); it.Valid() && len(refs) < page; it.Next() {
				name := it.Item().KeyCopy(nil)
				at = append(bytes.Clone(name), 0)
				if _, err := splitRef(name); err != nil {
					return err
				}
				aead, err := v.ownerSeal(txn, attemptName(name[1:]))
				if errors.Is(err, ErrErased) || errors.Is(err, ErrRedacted) {
					continue // its end is under way
				} else if err != nil {
					return err
				}
				r, err := v.readRef(txn, aead, name)
				if err != nil {
					return err
				}
				refs = append(refs, r)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read references: %w", err)
		}
		if len(refs) == 0 {
			return nil
		}
		after = at
		for _, r := range refs {
			if err := f(r); err != nil {
				return err
			}
		}
	}
}

// ChangeRef replaces what a reference says about its retention, if it is still
// kept, as decide says: false leaves it. decide sees the reference as it is now. With
// a log it may be called several times, and the last one counts.
func (v *Vault) ChangeRef(ref Ref, decide func(*Ref) bool) error {
	id, err := v.changeRef(ref, decide)
	if err == nil && id != [bodyIDSize]byte{} {
		err = v.dropPieces(id)
	}
	if err != nil {
		return fmt.Errorf("change a reference of %s: %w", ref.Owner, err)
	}
	return nil
}

// changeRef returns the id of pieces that belong to no head any more, zero if there
// are none.
func (v *Vault) changeRef(ref Ref, decide func(*Ref) bool) (id [bodyIDSize]byte, err error) {
	names := v.refNames(&ref)
	o := &op{more: maxRefRow, always: true}
	o.check = func(txn *badger.Txn) (bool, error) {
		id = [bodyIDSize]byte{}
		aead, err := v.ownerSeal(txn, v.seal.attempt(ref.Owner))
		if errors.Is(err, ErrErased) || errors.Is(err, ErrRedacted) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		now, err := v.readRef(txn, aead, names.ref)
		if err != nil {
			return false, err
		}
		changed := now
		if now.State != ObjectKept || !decide(&changed) {
			return true, nil
		}
		sealed, err := v.sealRef(aead, names.ref, changed)
		if err != nil {
			return false, err
		}
		o.rows = []kv{{names.ref, sealed}}
		if changed.State == ObjectKept {
			return false, nil
		}
		var rows []kv
		rows, id, err = v.endRows(txn, names, changed.State)
		o.rows = append(o.rows, rows...)
		return false, err
	}
	return id, v.do(o)
}

// endRows are the rows that end the reference's hold on its object, and the object
// itself if no other reference has one. id is that of its pieces, zero if it stays.
func (v *Vault) endRows(txn *badger.Txn, names refNames, state ObjectState) (rows []kv, id [bodyIDSize]byte, err error) {
	rows = []kv{{name: names.back}}
	it := txn.NewIterator(badger.IteratorOptions{Prefix: append([]byte{rowBackRef}, names.object[:]...)})
	others := false
	for it.Rewind(); it.Valid() && !others; it.Next() {
		others = !bytes.Equal(it.Item().Key(), names.back)
	}
	it.Close()
	if others {
		return rows, id, nil
	}
	h, err := v.readObject(txn, names.object)
	var gone *GoneError
	if errors.Is(err, ErrNotFound) || errors.As(err, &gone) {
		return rows, id, nil
	} else if err != nil {
		return nil, id, err
	}
	head, err := v.seal.lock(v.seal.rows, names.object.head(), objectHead{state: state}.encode())
	if err != nil {
		return nil, id, err
	}
	// The commit point of its end: the key of the pieces is in no row any more.
	return append(rows, kv{names.object.head(), head}, kv{looseRow(h.id), v.looseEnded(names.object)}), h.id, nil
}

// endAllRefs ends the references of an attempt that was redacted or purged. Their
// content is not read: its key may be gone.
func (v *Vault) endAllRefs(a attemptName) error {
	for {
		list, err := v.names(row(rowRef, a), 1)
		if err != nil || len(list) == 0 {
			return err
		}
		names, err := splitRef(list[0])
		if err != nil {
			return err
		}
		var id [bodyIDSize]byte
		o := &op{more: maxRefRow, always: true}
		o.check = func(txn *badger.Txn) (bool, error) {
			var rows []kv
			var err error
			rows, id, err = v.endRows(txn, names, ObjectErased)
			o.rows = append(rows, kv{name: names.ref})
			return false, err
		}
		if err := v.do(o); err != nil {
			return err
		}
		if id != [bodyIDSize]byte{} {
			if err := v.dropPieces(id); err != nil {
				return err
			}
		}
	}
}
