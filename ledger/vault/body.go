package vault

import (
	"cmp"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"counterfoil/ledger/commit"

	"github.com/dgraph-io/badger/v4"
)

const (
	// MaxBody is the largest private value, as the intake admits it.
	MaxBody = 16 << 20
	maxSlot = 1 << 10
	maxName = 128
	// chunkSize is the piece in which bodies are stored; Badger copies a value
	// at every compaction, and below its value threshold of 1 MiB values lie in
	// the tables, where deletions take effect.
	chunkSize = 64 << 10
	// maxInline bodies lie in their head.
	maxInline   = chunkSize
	chunksPerOp = 4
	bodyIDSize  = 16
)

// Body is a private value as it was stored.
type Body struct {
	Encoding commit.Encoding
	Bytes    []byte
}

// BodyInfo describes a stored body.
type BodyInfo struct {
	Slot, Name string
	Encoding   commit.Encoding
	Size       int
}

// PutBody stores a private value of an attempt whose key is in the vault, up to
// [MaxBody] bytes, under a slot and a name as in [commit.DeriveSalt]. Storing
// the same again is no error; other bytes or another encoding in the same
// place are [ErrConflict] and the first stay. A body is there whole or not at
// all. See [Vault.Sync] for durability; a crash before it can leave pieces
// that nothing shows and that Erase removes.
func (v *Vault) PutBody(attemptID, slot, name string, body []byte, enc commit.Encoding) error {
	err := v.putBody(attemptID, slot, name, body, enc)
	if err != nil {
		return fmt.Errorf("keep %q of %s: %w", name, attemptID, err)
	}
	return nil
}

func (v *Vault) putBody(attemptID, slot, name string, body []byte, enc commit.Encoding) error {
	if err := checkPlace(attemptID, slot, name); err != nil {
		return err
	}
	if !enc.Valid() {
		return fmt.Errorf("%w: encoding %q", ErrInvalid, enc)
	}
	if len(body) > MaxBody {
		return fmt.Errorf("%w: body of %d bytes, at most %d", ErrTooLarge, len(body), MaxBody)
	}
	key, err := v.Key(attemptID)
	if err != nil {
		return err
	}
	aead, err := v.seal.bodies(key)
	if err != nil {
		return err
	}
	a := v.seal.attempt(attemptID)
	h := head{encoding: enc, size: len(body), digest: digest(enc, body), slot: slot, name: name}
	headName := v.seal.body(a, slot, name)

	// found reports whether the same body is there already; ours, that it is there
	// by this call.
	var ours bool
	found := func(txn *badger.Txn) (bool, error) {
		ours = false
		if _, err := v.readState(txn, row(rowKey, a)); err != nil {
			return false, err
		}
		have, err := v.readHead(txn, aead, headName)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if have.digest != h.digest {
			return false, ErrConflict
		}
		ours = h.chunked && have.chunks == h.chunks
		return true, nil
	}
	var there bool
	err = v.view(func(txn *badger.Txn) (err error) {
		there, err = found(txn)
		return err
	})
	if there || err != nil {
		return err
	}

	chunked := len(body) > maxInline
	if chunked {
		if err := v.putChunks(a, aead, &h, body); err != nil {
			return err
		}
	} else {
		h.inline = body
	}
	sealed, err := v.seal.lock(aead, headName, h.encode())
	if err == nil {
		// The commit point: with its head the body is there.
		err = v.do(&op{rows: []kv{{headName, sealed}}, check: func(txn *badger.Txn) (skip bool, err error) {
			there, err = found(txn)
			return there, err
		}})
	}
	if chunked && (there && !ours || err != nil) {
		// Another call was faster: the chunks belong to no head.
		return errors.Join(err, v.deleteChunks(a, h, func(txn *badger.Txn) (bool, error) {
			_, err := found(txn)
			return ours, ignore(err)
		}))
	}
	return err
}

func (v *Vault) putChunks(a attemptName, aead cipher.AEAD, h *head, body []byte) error {
	if _, err := io.ReadFull(v.seal.random, h.chunks[:]); err != nil {
		return fmt.Errorf("read randomness: %w", err)
	}
	h.chunked = true
	o := &op{check: func(txn *badger.Txn) (bool, error) {
		_, err := v.readState(txn, row(rowKey, a))
		return false, err
	}}
	number := 0
	for chunk := range slices.Chunk(body, chunkSize) {
		name := chunkRow(a, h.chunks, number)
		sealed, err := v.seal.lock(aead, name, chunk)
		if err != nil {
			return err
		}
		o.rows = append(o.rows, kv{name, sealed})
		number++
		if len(o.rows) == chunksPerOp || number == h.chunkCount() {
			if err := v.do(o); err != nil {
				return errors.Join(err, v.deleteChunks(a, *h, nil))
			}
			o = &op{check: o.check}
		}
	}
	return nil
}

// deleteChunks takes back the chunks of a body that got no head, unless keep says
// that it has one after all: what had no answer from a log may be in it. In a vault
// that failed, was closed or has no log now they stay; nothing shows them.
func (v *Vault) deleteChunks(a attemptName, h head, keep func(*badger.Txn) (bool, error)) error {
	o := &op{always: true, check: keep}
	for i := range h.chunkCount() {
		o.rows = append(o.rows, kv{name: chunkRow(a, h.chunks, i)})
	}
	return ignoreEnded(v.do(o))
}

// ignoreEnded drops the errors of a vault that can write nothing now.
func ignoreEnded(err error) error {
	for _, e := range []error{ErrFailed, ErrClosed, ErrUnavailable} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// ignore drops the errors that say what became of an attempt and its bodies.
func ignore(err error) error {
	for _, e := range []error{ErrNotFound, ErrErased, ErrRedacted, ErrConflict} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// Body gives a stored body: [ErrNotFound] if the attempt or the body is not
// there, [ErrErased] if the attempt was erased, [ErrCorrupt] if it is damaged.
func (v *Vault) Body(attemptID, slot, name string) (Body, error) {
	_, b, err := v.read(attemptID, slot, name)
	return b, err
}

// Opening gives a stored body with the salt of its commitment. Errors as in
// [Vault.Body].
func (v *Vault) Opening(attemptID, slot, name string) (commit.Opening, error) {
	key, b, err := v.read(attemptID, slot, name)
	if err != nil {
		return commit.Opening{}, err
	}
	return commit.Opening{
		Name:     name,
		Encoding: b.Encoding,
		Salt:     commit.DeriveSalt(key[:], attemptID, slot, name),
		Value:    b.Bytes,
	}, nil
}

func (v *Vault) read(attemptID, slot, name string) (key [KeySize]byte, b Body, err error) {
	if err = checkPlace(attemptID, slot, name); err == nil {
		err = v.view(func(txn *badger.Txn) (err error) {
			a := v.seal.attempt(attemptID)
			// Not from the cache: key and body must be of one state.
			if key, err = v.readState(txn, row(rowKey, a)); err != nil {
				return err
			}
			aead, err := v.seal.bodies(key)
			if err != nil {
				return err
			}
			h, err := v.readHead(txn, aead, v.seal.body(a, slot, name))
			if err != nil {
				return err
			}
			b, err = v.readBody(txn, aead, a, h)
			return err
		})
	}
	if err != nil {
		return key, Body{}, fmt.Errorf("read %q of %s: %w", name, attemptID, err)
	}
	return key, b, nil
}

func (v *Vault) readHead(txn *badger.Txn, aead cipher.AEAD, name []byte) (head, error) {
	sealed, err := get(txn, name)
	if err != nil {
		return head{}, err
	}
	content, err := v.seal.unlock(aead, name, sealed)
	if err != nil {
		return head{}, err
	}
	return decodeHead(content)
}

func (v *Vault) readBody(txn *badger.Txn, aead cipher.AEAD, a attemptName, h head) (Body, error) {
	b := Body{Encoding: h.encoding, Bytes: h.inline}
	if h.chunked {
		b.Bytes = make([]byte, 0, h.size)
		for i := range h.chunkCount() {
			name := chunkRow(a, h.chunks, i)
			sealed, err := get(txn, name)
			if errors.Is(err, ErrNotFound) {
				return Body{}, fmt.Errorf("%w: piece %d of %d of a body is missing", ErrCorrupt, i+1, h.chunkCount())
			} else if err != nil {
				return Body{}, err
			}
			chunk, err := v.seal.unlock(aead, name, sealed)
			if err != nil {
				return Body{}, err
			}
			b.Bytes = append(b.Bytes, chunk...)
		}
	}
	if len(b.Bytes) != h.size || digest(b.Encoding, b.Bytes) != h.digest {
		return Body{}, fmt.Errorf("%w: a body of %d bytes is not the one that was stored", ErrCorrupt, len(b.Bytes))
	}
	return b, nil
}

// Bodies lists the stored bodies of an attempt, sorted by slot and name: none
// is an empty list. [ErrNotFound] and [ErrErased] are about the attempt.
func (v *Vault) Bodies(attemptID string) ([]BodyInfo, error) {
	err := checkAttemptID(attemptID)
	list := []BodyInfo{}
	if err == nil {
		err = v.view(func(txn *badger.Txn) error {
			list = list[:0]
			a := v.seal.attempt(attemptID)
			key, err := v.readState(txn, row(rowKey, a))
			if err != nil {
				return err
			}
			aead, err := v.seal.bodies(key)
			if err != nil {
				return err
			}
			it := txn.NewIterator(badger.IteratorOptions{Prefix: row(rowBody, a)})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				h, err := v.readHead(txn, aead, it.Item().KeyCopy(nil))
				if err != nil {
					return err
				}
				list = append(list, BodyInfo{h.slot, h.name, h.encoding, h.size})
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("bodies of %s: %w", attemptID, err)
	}
	slices.SortFunc(list, func(a, b BodyInfo) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// digest tells bodies apart inside a sealed head; it is nothing public.
func digest(enc commit.Encoding, body []byte) [sha256.Size]byte {
	h := sha256.New()
	io.WriteString(h, string(enc)+"\x00")
	h.Write(body)
	return [sha256.Size]byte(h.Sum(nil))
}

func checkPlace(attemptID, slot, name string) error {
	if err := checkAttemptID(attemptID); err != nil {
		return err
	}
	if slot == "" || name == "" {
		return fmt.Errorf("%w: empty slot or name", ErrInvalid)
	}
	if len(slot) > maxSlot || len(name) > maxName {
		return fmt.Errorf("%w: slot of %d bytes, at most %d, and name of %d bytes, at most %d",
			ErrTooLarge, len(slot), maxSlot, len(name), maxName)
	}
	return nil
}
