package rule

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/trust"
)

// The HTTP statuses of add-checkpoint.
const (
	StatusSyntax    = 400 // not a request, or an old size above the checkpoint's
	StatusForbidden = 403 // signatures
	StatusUnknown   = 404 // origin
	StatusConflict  = 409 // wrong old size; the body is the right one
	StatusUnproven  = 422 // roots or proof
)

// State is what a witness knows of one log: the size and root of the latest
// checkpoint that it cosigned. The zero State is that of a log that was never
// cosigned, which is the same as the empty tree.
type State struct {
	Size uint64
	Root [HashSize]byte // of no meaning at size 0
}

// EmptyRoot is the root of the empty tree.
func EmptyRoot() [HashSize]byte { return sha256.Sum256(nil) }

// root is the root at any size.
func (s State) root() [HashSize]byte {
	if s.Size == 0 {
		return EmptyRoot()
	}
	return s.Root
}

// Refusal is an answer other than 200.
type Refusal struct {
	// Status is the HTTP status.
	Status int
	// Detail says why, in one line, without a status.
	Detail string
	// Size is the size of the latest cosigned checkpoint; of meaning at
	// StatusConflict.
	Size uint64
	// Evidence is the kind of disagreement that the request shows, empty if it
	// shows none. It may be set at StatusConflict too: a tree of the stored size
	// with another root disagrees whatever old size came with it.
	Evidence Kind
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (status %d)", r.Detail, r.Status) }

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Decide is the whole decision on a request. keys are the keys trusted for the
// checkpoint's origin; none means that the origin is unknown. It returns nil if
// the checkpoint is to be cosigned and stored.
func Decide(keys []trust.VerifierKey, stored State, r *Request) *Refusal {
	if _, refusal := Authenticate(keys, r); refusal != nil {
		return refusal
	}
	return Advance(stored, r)
}

// Authenticate verifies every line of the note that names a trusted key, and
// returns the first line of each key that signed. Lines of other keys are
// ignored.
func Authenticate(keys []trust.VerifierKey, r *Request) ([]trust.NoteSignature, *Refusal) {
	if len(keys) == 0 {
		return nil, refuse(StatusUnknown, "unknown origin")
	}
	var lines []trust.NoteSignature
	for _, k := range keys {
		v, err := r.Note.VerifyBy(k)
		if err != nil {
			return nil, refuse(StatusForbidden, "a signature of a trusted key does not verify: key %s, id %08x", k.Name, k.ID)
		}
		if v.Lines == 0 {
			continue
		}
		for _, s := range r.Note.Signatures {
			if s.ID == k.ID && s.Name == k.Name {
				lines = append(lines, s)
				break
			}
		}
	}
	if len(lines) == 0 {
		return nil, refuse(StatusForbidden, "no signature by a trusted key of this origin")
	}
	return lines, nil
}

// Advance decides on an authenticated request: whether its checkpoint follows
// from the stored one.
func Advance(stored State, r *Request) *Refusal {
	c := r.Checkpoint
	if r.Old > c.Size {
		return refuse(StatusSyntax, "old size %d is above the checkpoint's size %d", r.Old, c.Size)
	}
	fork := Kind("")
	switch {
	case c.Size == 0 && c.Root != EmptyRoot():
		fork = KindEmptyRoot
	case c.Size == stored.Size && c.Root != stored.root():
		fork = KindSameSize
	}
	if r.Old != stored.Size {
		refusal := refuse(StatusConflict, "old size %d is not the size %d of the latest cosigned checkpoint", r.Old, stored.Size)
		refusal.Size, refusal.Evidence = stored.Size, fork
		return refusal
	}
	var refusal *Refusal
	switch {
	case fork == KindEmptyRoot:
		refusal = refuse(StatusUnproven, "the root of a tree of size 0 is not SHA-256 of nothing")
	case fork == KindSameSize:
		refusal = refuse(StatusUnproven, "another root than that of the latest cosigned checkpoint at size %d", c.Size)
	case r.Old == 0 && len(r.Proof) > 0:
		return refuse(StatusUnproven, "a proof of %d hashes from size 0; it must be empty", len(r.Proof))
	default:
		kind, err := consistent(stored, c, r.Proof)
		if err == nil {
			return nil
		}
		refusal, fork = refuse(StatusUnproven, "the consistency proof from %d to %d does not verify", r.Old, c.Size), kind
	}
	refusal.Evidence = fork
	return refusal
}

// consistent verifies the proof from an old tree to a checkpoint that is not
// smaller. On an error it returns what the pair of trees with the proof shows.
func consistent(old State, c trust.Checkpoint, hashes [][]byte) (Kind, error) {
	oldRoot := old.root()
	err := proof.VerifyConsistency(rfc6962.DefaultHasher, old.Size, c.Size, hashes, oldRoot[:], c.Root[:])
	if err == nil {
		return "", nil
	}
	if old.Size == c.Size {
		return "", err // same root: a proof that should be empty shows nothing
	}
	// A proof whose hashes give the new root, but another root at the old size,
	// shows that the new tree does not hold the old one: those hashes are nodes
	// of the new tree.
	var mismatch proof.RootMismatchError
	if errors.As(err, &mismatch) && bytes.Equal(mismatch.ExpectedRoot, oldRoot[:]) {
		if proof.VerifyConsistency(rfc6962.DefaultHasher, old.Size, c.Size, hashes, mismatch.CalculatedRoot, c.Root[:]) == nil {
			return KindRewritten, err
		}
	}
	return KindUnproven, err
}
