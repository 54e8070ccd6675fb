package archive

import (
	"context"
	"io"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

// MaxBody bounds a body: the largest artifact that is kept whole.
const MaxBody = 256 << 20

// Store is the archive as an admission and a review run see it. [Archive]
// implements it. It is safe for concurrent use and retries nothing: the archive
// phase of an admission repeats its own write (ADM-31), which is safe.
type Store interface {
	// Put keeps a body, streamed from r, and says where it is. The owner must be
	// an attempt that the ledger has begun. The same body under the same owner
	// and role again is no error; the later end of retention counts. A body that
	// fails is not kept in part. Errors are *[Failure]; an error of r itself
	// comes back wrapped and is none. A write is durable after [Store.Sync].
	Put(ctx context.Context, item Item, r io.Reader) (Entry, error)
	// Absent records that an admission had nothing in a role (ARC-12).
	Absent(ctx context.Context, item Item, reason string) (Entry, error)
	// Open streams a body back. What comes out has been compared with its digest
	// piece by piece; damage is an error of Read, never other bytes. Errors:
	// [ErrAbsent], *[Gone], *[Failure]. Close it.
	Open(ctx context.Context, digest string) (io.ReadCloser, error)
	// List lists what an owner refers to, sorted by role and digest, with what
	// became of it. It reads no body. Nothing is an empty list; an owner that the
	// ledger does not know is [ErrAbsent], one that was erased *[Gone].
	List(ctx context.Context, owner string) ([]Entry, error)
	// Sync makes everything durable whose Put or Absent has returned. A receipt
	// counts as kept after it.
	Sync(ctx context.Context) error
}

// Item is what a body is kept as.
type Item struct {
	// Owner is the attempt of the admission, att_….
	Owner string
	// Role is what the body is in that admission: a name of a record
	// (registry_snapshot, artifact_binding, evidence_bundle, policy_decision,
	// spanning_set), receipt, a class of an external (registry_entry, artifact,
	// evidence, trust_material), verifier_log, summary, or another lower_snake
	// word of up to 64 bytes.
	Role string
	// Digest is what the content must have, sha256:…; empty takes it as it is.
	Digest string
	// Retention is mandatory (ARC-06).
	Retention Retention
	// Sensitive is set for a privileged tool and one that reads secrets: such
	// evidence is never kept as telemetry (ARC-07).
	Sensitive bool
	// At is the time of storage, from which retention counts.
	At time.Time
}

// Retention is a retention class as a policy document defines it.
type Retention struct {
	// Class is the name of the class, up to 64 bytes.
	Class string
	// Kind is event.RetentionEvidence or event.RetentionTelemetry.
	Kind string
	// Days is how long it is kept, 1 to [MaxDays].
	Days int
}

// MaxDays bounds a retention: a hundred years.
const MaxDays = event.MaxRetentionDays

// Entry is a reference of an owner to a body.
type Entry struct {
	// Digest of the content, sha256:…; empty if State is [Absent].
	Digest string `json:"digest,omitempty"`
	Owner  string `json:"owner"`
	Role   string `json:"role"`
	Size   int64  `json:"size"` // in bytes
	State  State  `json:"state"`
	// Reason says why it is absent.
	Reason    string    `json:"reason,omitempty"`
	Class     string    `json:"class"`
	Kind      string    `json:"kind"`
	StoredAt  time.Time `json:"storedAt"`
	KeptUntil time.Time `json:"keptUntil"`
}

// State is what became of a body.
type State string

// States of a body. All but Kept read as unavailable, never as failed.
const (
	Kept      State = "kept"
	Absent    State = "absent"    // it was never there
	Expired   State = "expired"   // its retention ended
	Erased    State = "erased"    // by an erasure
	Compacted State = "compacted" // a summary stands for it
)

// Code is a reason code of gate archive.
type Code = admission.Code
