package vault

import (
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/dgraph-io/badger/v4"
)

// OpenObject streams an object back: [ErrNotFound] if it was never stored,
// *[GoneError] if it is not there any more. The reader compares the whole content
// with the digest and gives [ErrCorrupt] instead of io.EOF if it is another; no
// piece that was changed comes out at all. An object that is erased while it is
// read ends with *[GoneError].
func (v *Vault) OpenObject(digest [sha256.Size]byte) (*ObjectReader, error) {
	r := &ObjectReader{v: v, name: v.seal.object(digest), want: digest, sum: sha256.New()}
	err := v.view(func(txn *badger.Txn) (err error) {
		r.head, err = v.readObject(txn, r.name)
		return err
	})
	if err == nil {
		r.aead, err = v.seal.pieces(r.head.key)
	}
	if err != nil {
		return nil, fmt.Errorf("read object %x: %w", digest, err)
	}
	return r, nil
}

// StatObject tells the size of an object without reading it. Errors as in
// [Vault.OpenObject].
func (v *Vault) StatObject(digest [sha256.Size]byte) (size int64, err error) {
	r, err := v.OpenObject(digest)
	if err != nil {
		return 0, err
	}
	return r.head.size, nil
}

// ObjectReader reads one object, piece by piece. It is not safe for concurrent use
// and holds nothing that must be given back.
type ObjectReader struct {
	v      *Vault
	name   objectName
	head   objectHead
	aead   cipher.AEAD
	want   [sha256.Size]byte
	sum    hash.Hash
	piece  []byte
	number uint32
	read   int64
	err    error
}

// Size is the length of the content in bytes.
func (r *ObjectReader) Size() int64 { return r.head.size }

// Read implements io.Reader.
func (r *ObjectReader) Read(p []byte) (int, error) {
	for len(r.piece) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.piece) == 0 {
		return 0, r.err
	}
	n := copy(p, r.piece)
	r.piece = r.piece[n:]
	return n, nil
}

// next reads the next piece, or ends with io.EOF if the whole was right.
func (r *ObjectReader) next() error {
	if r.read == r.head.size {
		if [sha256.Size]byte(r.sum.Sum(nil)) != r.want {
			return fmt.Errorf("%w: object %x has other content", ErrCorrupt, r.want)
		}
		return io.EOF
	}
	return r.v.view(func(txn *badger.Txn) error {
		h, err := r.v.readObject(txn, r.name)
		if err != nil {
			return err
		}
		name := pieceRow(r.head.id, r.number)
		sealed, err := get(txn, name)
		if errors.Is(err, ErrNotFound) && h.id != r.head.id {
			return &GoneError{ObjectErased} // and stored again since
		} else if errors.Is(err, ErrNotFound) {
			return fmt.Errorf("%w: piece %d of object %x is missing", ErrCorrupt, r.number, r.want)
		} else if err != nil {
			return err
		}
		if r.piece, err = r.v.seal.unlock(r.aead, name, sealed); err != nil {
			return err
		}
		if r.read += int64(len(r.piece)); r.read > r.head.size || len(r.piece) == 0 {
			r.piece = nil
			return fmt.Errorf("%w: object %x is longer than its head says", ErrCorrupt, r.want)
		}
		r.sum.Write(r.piece)
		r.number++
		return nil
	})
}
