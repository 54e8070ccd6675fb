package vault

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/dgraph-io/badger/v4"
)

// An object is a body of evidence, named by the SHA-256 of its content and kept
// once however many owners refer to it. Its pieces lie under a random id and a
// random key of its own, both of which are in its head only: destroying the head
// shuts the pieces.
//
//	o ‖ N           head: state, key, size, id; N is HMAC(digest)
//	d ‖ id ‖ number 64 KiB of the content
//	q ‖ id          pieces that belong to no head: still being written, or to be
//	                deleted; Open deletes them
//	a ‖ A ‖ N ‖ R   reference of owner A in role R, sealed under the owner's key
//	r ‖ N ‖ A ‖ R   the same the other way; nothing in it

// ObjectState is what became of an object, or of a reference to it.
type ObjectState byte

// States of an object. All but Kept are final for the reference; the same content
// can be stored again.
const (
	ObjectKept      ObjectState = 1
	ObjectExpired   ObjectState = 2
	ObjectErased    ObjectState = 3
	ObjectCompacted ObjectState = 4
	ObjectAbsent    ObjectState = 5 // only of a reference: there never was one
)

// ErrDigest: the content has another digest than was said.
var ErrDigest = errors.New("content has another digest")

// GoneError: an object was there, and is not any more.
type GoneError struct{ State ObjectState }

func (e *GoneError) Error() string { return fmt.Sprintf("the object is gone, state %d", e.State) }

// objectHead is the content of an o row: version ‖ state ‖ key ‖ size ‖ id. All
// have the same length. Of an object that is gone, key and id are zero.
type objectHead struct {
	state ObjectState
	key   [KeySize]byte
	size  int64
	id    [bodyIDSize]byte
}

const objectHeadSize = 1 + 1 + KeySize + 8 + bodyIDSize

func (h objectHead) encode() []byte {
	out := append([]byte{headVersion, byte(h.state)}, h.key[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(h.size))
	return append(out, h.id[:]...)
}

func decodeObjectHead(in []byte) (objectHead, error) {
	if len(in) != objectHeadSize || in[0] != headVersion || in[1] < byte(ObjectKept) || in[1] > byte(ObjectCompacted) {
		return objectHead{}, fmt.Errorf("%w: the head of an object cannot be read", ErrCorrupt)
	}
	h := objectHead{state: ObjectState(in[1]), key: [KeySize]byte(in[2:]), size: int64(binary.BigEndian.Uint64(in[2+KeySize:]))}
	copy(h.id[:], in[2+KeySize+8:])
	if h.size < 0 {
		return objectHead{}, fmt.Errorf("%w: an object of size %d", ErrCorrupt, h.size)
	}
	return h, nil
}

func (n objectName) head() []byte { return append([]byte{rowObject}, n[:]...) }

func pieceRow(id [bodyIDSize]byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{rowPiece}, id[:]...), number)
}

func looseRow(id [bodyIDSize]byte) []byte { return append([]byte{rowLoose}, id[:]...) }

// readObject reads the head of an object: [ErrNotFound] or *[GoneError] if it is
// not there.
func (v *Vault) readObject(txn *badger.Txn, n objectName) (objectHead, error) {
	sealed, err := get(txn, n.head())
	if err != nil {
		return objectHead{}, err
	}
	content, err := v.seal.unlock(v.seal.rows, n.head(), sealed)
	if err != nil {
		return objectHead{}, err
	}
	h, err := decodeObjectHead(content)
	if err == nil && h.state != ObjectKept {
		err = &GoneError{h.state}
	}
	return h, err
}

// PutObject stores the content of r, of at most max bytes, under its digest, with
// a reference of ref's owner, and fills in Digest, Size and State of the reference.
// If want is given, other content is [ErrDigest]. Content that is there already is
// not stored again. The owner must be an attempt whose key is in the vault:
// [ErrNotFound], [ErrErased] and [ErrRedacted] are about it. The same reference
// again is no error; the later end counts. Longer content is [ErrTooLarge]. An
// error of r comes back wrapped. An object is there whole or not at all. See
// [Vault.Sync] for durability.
func (v *Vault) PutObject(ref Ref, want *[sha256.Size]byte, r io.Reader, max int64) (Ref, error) {
	ref.State = ObjectKept
	if err := ref.check(); err != nil {
		return Ref{}, err
	}
	a := v.seal.attempt(ref.Owner)
	known := false
	if err := v.view(func(txn *badger.Txn) error {
		if _, err := v.readState(txn, row(rowKey, a)); err != nil {
			return fmt.Errorf("owner %s: %w", ref.Owner, err)
		}
		if want == nil {
			return nil
		}
		_, err := v.readObject(txn, v.seal.object(*want))
		known = err == nil
		return nil
	}); err != nil {
		return Ref{}, err
	}
	w := &pieceWriter{v: v, max: max, dry: known}
	err := w.read(r)
	if err == nil {
		ref.Digest, ref.Size = w.digest(), w.size
		if want != nil && ref.Digest != *want {
			err = fmt.Errorf("%w: expected %x, got %x", ErrDigest, *want, ref.Digest)
		}
	}
	used := false
	if err == nil {
		ref, used, err = v.refer(ref, w)
		if errors.Is(err, errNotWritten) {
			// It was there when we looked, and is not now.
			err = fmt.Errorf("%w: the object went meanwhile; store it again", ErrConflict)
		}
	}
	if used || w.dry {
		return ref, err
	}
	if cleanup := ignoreEnded(v.dropPieces(w.id)); err == nil {
		err = cleanup
	}
	return ref, err
}

// PutAbsent notes that an owner has nothing in a role.
func (v *Vault) PutAbsent(ref Ref) (Ref, error) {
	ref.State, ref.Digest, ref.Size = ObjectAbsent, [sha256.Size]byte{}, 0
	if err := ref.check(); err != nil {
		return Ref{}, err
	}
	ref, _, err := v.refer(ref, nil)
	return ref, err
}

// pieceWriter writes the pieces of an object under an id of its own.
type pieceWriter struct {
	v    *Vault
	max  int64
	dry  bool // only read and hash
	key  [KeySize]byte
	id   [bodyIDSize]byte
	sum  [sha256.Size]byte
	size int64
}

func (w *pieceWriter) digest() [sha256.Size]byte { return w.sum }

func (w *pieceWriter) read(r io.Reader) error {
	h := sha256.New()
	if !w.dry {
		for _, b := range [][]byte{w.key[:], w.id[:]} {
			if _, err := io.ReadFull(w.v.seal.random, b); err != nil {
				return fmt.Errorf("read randomness: %w", err)
			}
		}
	}
	aead, err := w.v.seal.pieces(w.key)
	if err != nil {
		return err
	}
	// Pieces that belong to no head are marked as such before they come.
	o := &op{}
	if !w.dry {
		o.rows = []kv{{looseRow(w.id), w.v.looseWritten()}}
	}
	buf := make([]byte, chunkSize)
	for number := uint32(0); ; number++ {
		n, err := io.ReadFull(r, buf)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("read the content: %w", err)
		}
		if w.size += int64(n); w.size > w.max {
			return fmt.Errorf("%w: content of over %d bytes", ErrTooLarge, w.max)
		}
		h.Write(buf[:n])
		if n > 0 && !w.dry {
			name := pieceRow(w.id, number)
			sealed, err := w.v.seal.lock(aead, name, buf[:n])
			if err != nil {
				return err
			}
			o.rows = append(o.rows, kv{name, sealed})
		}
		if !w.dry && (last || len(o.rows) >= chunksPerOp) {
			if err := w.v.do(o); err != nil {
				return err
			}
			o = &op{}
		}
		if last {
			h.Sum(w.sum[:0])
			return nil
		}
	}
}
