package rule

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/trust"
)

// EvidenceSchema is the schemaVersion of an equivocation document.
const EvidenceSchema = "counterfoil.equivocation.v1"

// MaxEvidenceBytes bounds an equivocation document: two notes and a proof.
const MaxEvidenceBytes = 2 << 20

// ErrEvidence is what every refusal of [ParseEvidence] wraps.
var ErrEvidence = errors.New("malformed equivocation document")

// Kind says what an equivocation document shows.
type Kind string

const (
	// KindSameSize: the log signed two roots for one size.
	KindSameSize Kind = "same_size"
	// KindRewritten: the log signed a larger tree whose first leaves are not
	// those of the smaller tree that it signed. The proof gives the root of the
	// larger tree, and at the smaller size another root than the signed one.
	KindRewritten Kind = "rewritten"
	// KindEmptyRoot: the log signed a tree of no leaves with a root that is not
	// SHA-256 of nothing. It needs no second checkpoint.
	KindEmptyRoot Kind = "empty_root"
	// KindUnproven: the log signed two trees of different sizes, and the proof
	// offered does not connect them. Anyone can offer a bad proof, so this
	// convicts nobody: the log owes a good one.
	KindUnproven Kind = "unproven"
)

// Conclusive reports whether a document of the kind, once verified, shows by
// itself that the log broke its promise.
func (k Kind) Conclusive() bool {
	return k == KindSameSize || k == KindRewritten || k == KindEmptyRoot
}

// Evidence is the portable document counterfoil.equivocation.v1: canonical JSON
// (RFC 8785) of the members below, without Cosigned where Kind is
// KindEmptyRoot and the witness had none, and without an empty Proof.
type Evidence struct {
	// Cosigned is the signed note of the checkpoint that the witness cosigned:
	// the log's signatures and the witness's. An auditor, who cosigns nothing, puts
	// the one here that it has seen before.
	Cosigned string `json:"cosigned,omitzero"`
	Kind     Kind   `json:"kind"`
	// ObservedAt is when the witness saw Offered; its word, not part of the
	// proof. RFC 3339, UTC, milliseconds.
	ObservedAt string `json:"observedAt"`
	// Offered is the signed note of the checkpoint that does not fit.
	Offered string `json:"offered"`
	Origin  string `json:"origin"`
	// Proof is the consistency proof that came with Offered: base64, in order.
	Proof  []string `json:"proof,omitempty"`
	Schema string   `json:"schemaVersion"`
	// Witness is the verifier key of the witness that reports; absent if it is an
	// auditor who reports.
	Witness string `json:"witness,omitzero"`
}

// TimeLayout is the one spelling of ObservedAt.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// NewEvidence builds the document of a refused request. cosigned is the note of
// the latest cosigned checkpoint, empty if there is none; lines are what
// [Authenticate] returned. Lines of other keys are left out.
func NewEvidence(kind Kind, cosigned string, r *Request, lines []trust.NoteSignature, witness trust.VerifierKey, at time.Time) *Evidence {
	e := &Evidence{
		Cosigned: cosigned, Kind: kind, ObservedAt: at.UTC().Format(TimeLayout), Origin: r.Checkpoint.Origin,
		Offered: string((&trust.Note{Text: r.Note.Text, Signatures: lines}).Append(nil)),
		Schema:  EvidenceSchema, Witness: witness.String(),
	}
	if kind == KindRewritten || kind == KindUnproven {
		for _, h := range r.Proof {
			e.Proof = append(e.Proof, b64.EncodeToString(h))
		}
	}
	return e
}

// ID names the evidence by what it shows, whoever reports it and when: hex of
// SHA-256 over kind, both checkpoint texts (without signatures) and proof, each
// with its length (8 bytes, big-endian) before it.
func (e *Evidence) ID() string {
	h := sha256.New()
	put := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	put(EvidenceSchema)
	put(string(e.Kind))
	for _, text := range []string{e.Cosigned, e.Offered} {
		if n, err := trust.ParseNote([]byte(text)); err == nil {
			text = n.Text
		}
		put(text)
	}
	if e.Kind != KindUnproven { // one bad proof is as good as another
		for _, p := range e.Proof {
			put(p)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Marshal returns the canonical bytes, without a newline at the end.
func (e *Evidence) Marshal() ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode an equivocation document: %w", err)
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("encode an equivocation document: %w", err)
	}
	return v, nil
}

// ParseEvidence reads a document in its one spelling; one newline may follow
// it. It verifies nothing: see [Evidence.Verify].
func ParseEvidence(b []byte) (*Evidence, error) {
	if len(b) > MaxEvidenceBytes {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrEvidence, len(b), MaxEvidenceBytes)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	e := new(Evidence)
	if err := json.Unmarshal(b, e, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	if e.Schema != EvidenceSchema {
		return nil, fmt.Errorf("%w: schemaVersion is %q, want %q", ErrEvidence, e.Schema, EvidenceSchema)
	}
	again, err := e.Marshal()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	if !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: it is not canonical JSON in the one spelling", ErrEvidence)
	}
	if t, err := time.Parse(TimeLayout, e.ObservedAt); err != nil || t.Format(TimeLayout) != e.ObservedAt {
		return nil, fmt.Errorf("%w: observedAt is not a time like %s", ErrEvidence, TimeLayout)
	}
	if _, err := trust.ParseVerifierKey(e.Witness); err != nil && e.Witness != "" {
		return nil, fmt.Errorf("%w: witness: %w", ErrEvidence, err)
	}
	return e, nil
}

// Verify checks that the document shows what its kind says, under the keys that
// are trusted for its origin. They must come from elsewhere. A nil error for a
// conclusive kind means that the holder of those keys signed two histories; for
// [KindUnproven] only that the document is what it says.
func (e *Evidence) Verify(keys []trust.VerifierKey) error {
	offered, err := e.checkpoint("offered", e.Offered, keys)
	if err != nil {
		return err
	}
	var hashes [][]byte
	if len(e.Proof) > MaxProofHashes {
		return fmt.Errorf("proof has %d hashes, limit %d", len(e.Proof), MaxProofHashes)
	}
	for i, p := range e.Proof {
		h, err := decodeHash(p)
		if err != nil {
			return fmt.Errorf("proof hash %d: %w", i, err)
		}
		hashes = append(hashes, h)
	}
	if e.Kind == KindEmptyRoot {
		if offered.Size != 0 || offered.Root == EmptyRoot() || len(hashes) > 0 {
			return errors.New("the offered checkpoint is not one of size 0 with a root that is not SHA-256 of nothing")
		}
		return nil
	}
	cosigned, err := e.checkpoint("cosigned", e.Cosigned, keys)
	if err != nil {
		return err
	}
	switch e.Kind {
	case KindSameSize:
		if cosigned.Size != offered.Size || cosigned.Root == offered.Root || len(hashes) > 0 {
			return errors.New("the checkpoints are not two roots of one size")
		}
		return nil
	case KindRewritten, KindUnproven:
		if cosigned.Size >= offered.Size || cosigned.Size == 0 {
			return fmt.Errorf("sizes %d and %d: expected a smaller tree that is not empty, and a larger one", cosigned.Size, offered.Size)
		}
		kind, err := consistent(State{cosigned.Size, cosigned.Root}, offered, hashes)
		if err == nil {
			return errors.New("the proof connects the two checkpoints: nothing is wrong")
		}
		if kind != e.Kind {
			return fmt.Errorf("the proof shows %q, not %q", kind, e.Kind)
		}
		return nil
	}
	return fmt.Errorf("unknown kind %q", string(e.Kind))
}

func (e *Evidence) checkpoint(member, text string, keys []trust.VerifierKey) (trust.Checkpoint, error) {
	n, err := trust.ParseNote([]byte(text))
	if err != nil {
		return trust.Checkpoint{}, fmt.Errorf("%s: %w", member, err)
	}
	c, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return c, fmt.Errorf("%s: %w", member, err)
	}
	if c.Origin != e.Origin {
		return c, fmt.Errorf("%s is of %q, the document is about %q", member, c.Origin, e.Origin)
	}
	if _, refusal := Authenticate(keys, &Request{Note: n, Checkpoint: c}); refusal != nil {
		return c, fmt.Errorf("%s: %s", member, refusal.Detail)
	}
	return c, nil
}
