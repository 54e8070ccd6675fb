package lease

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"counterfoil/ledger/trust"
)

const (
	recordVersion = 1
	// MaxRecord bounds the record, in bytes: both notes in base64 and some names.
	MaxRecord = 64 << 10
	// MaxCheckpoint bounds the checkpoint note: it has one signature of the log.
	MaxCheckpoint = 8 << 10
	// MaxWitnessed bounds the note with cosignatures: a hundred of Ed25519, or nine
	// of ML-DSA-44.
	MaxWitnessed = 32 << 10
	// maxOrigin bounds a log's name.
	maxOrigin = 512
	// maxCount is the largest integer of our formats.
	maxCount      = 1<<53 - 1
	instanceBytes = 16
)

// Record is what the register holds.
type Record struct {
	// Origin is the log's.
	Origin string
	// Epoch counts the holders, from 1.
	Epoch uint64
	// Node and Instance say who holds the lease: the node's name, and 32 hex digits
	// that are random for every process. Both are empty after a release.
	Node, Instance string
	// Beat counts the writes of an epoch, from 1, so that no two records are equal.
	Beat uint64
	// Guard is the largest tree that may have been signed.
	Guard Guard
	// Checkpoint is the newest checkpoint note, nil before the first. Its tree is
	// the guard's or a smaller one.
	Checkpoint []byte
	// Witnessed is the newest note with enough cosignatures, nil before the first.
	// Its tree is Checkpoint's or a smaller one.
	Witnessed []byte
}

// Vacant reports whether nobody holds the lease.
func (r Record) Vacant() bool { return r.Instance == "" }

type recordJSON struct {
	Version    int       `json:"version"`
	Origin     string    `json:"origin"`
	Epoch      uint64    `json:"epoch"`
	Node       string    `json:"node"`
	Instance   string    `json:"instance"`
	Beat       uint64    `json:"beat"`
	Guard      guardJSON `json:"guard"`
	Checkpoint []byte    `json:"checkpoint,omitempty"`
	Witnessed  []byte    `json:"witnessed,omitempty"`
}

type guardJSON struct {
	Size uint64 `json:"size"`
	Root []byte `json:"root"`
}

// Encode writes the one spelling of the record. It refuses what Parse would.
func (r Record) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	b, err := r.spell()
	if err == nil && len(b) > MaxRecord {
		err = fmt.Errorf("%d bytes, limit %d", len(b), MaxRecord)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return b, nil
}

func (r Record) spell() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(recordJSON{
		recordVersion, r.Origin, r.Epoch, r.Node, r.Instance, r.Beat,
		guardJSON{r.Guard.Size, r.Guard.Root[:]}, r.Checkpoint, r.Witnessed,
	})
	return b.Bytes(), err
}

// Parse reads a record and accepts what Encode writes and nothing else. Every
// refusal is an ErrRecord. It verifies no signature.
func Parse(data []byte) (Record, error) {
	r, err := parse(data)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return r, nil
}

func parse(data []byte) (Record, error) {
	if len(data) > MaxRecord {
		return Record{}, fmt.Errorf("%d bytes, limit %d", len(data), MaxRecord)
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Record{}, err
	}
	if version.Version != recordVersion {
		return Record{}, fmt.Errorf("version %d, this program knows %d", version.Version, recordVersion)
	}
	var j recordJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return Record{}, err
	}
	if len(j.Guard.Root) != sha256.Size {
		return Record{}, fmt.Errorf("the guard's root has %d bytes, expected %d", len(j.Guard.Root), sha256.Size)
	}
	r := Record{j.Origin, j.Epoch, j.Node, j.Instance, j.Beat, Guard{j.Guard.Size, [32]byte(j.Guard.Root)}, j.Checkpoint, j.Witnessed}
	again, err := r.spell()
	if err != nil {
		return Record{}, err
	}
	if !bytes.Equal(again, data) {
		return Record{}, errors.New("it is not in the one spelling of a record")
	}
	return r, r.check()
}

func (r Record) check() error {
	if r.Origin == "" || len(r.Origin) > maxOrigin {
		return fmt.Errorf("origin has %d bytes, expected 1 to %d", len(r.Origin), maxOrigin)
	}
	for name, n := range map[string]uint64{"epoch": r.Epoch, "beat": r.Beat} {
		if n < 1 || n > maxCount {
			return fmt.Errorf("%s is %d, expected 1 to %d", name, n, uint64(maxCount))
		}
	}
	if (r.Node == "") != (r.Instance == "") {
		return errors.New("node and instance are not both given or both empty")
	}
	if raw, err := hex.DecodeString(r.Instance); r.Instance != "" &&
		(!nodeName.MatchString(r.Node) || err != nil || len(raw) != instanceBytes || hex.EncodeToString(raw) != r.Instance) {
		return fmt.Errorf("node %q instance %q is not a name of 1 to 64 of A-Z a-z 0-9 _ - and %d hex digits", r.Node, r.Instance, 2*instanceBytes)
	}
	if r.Guard.Size > maxCount {
		return fmt.Errorf("the guard's size is %d, at most %d", r.Guard.Size, uint64(maxCount))
	}
	if err := emptyRoot(r.Guard.Size, r.Guard.Root); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	published, err := within(r.Checkpoint, r.Origin, MaxCheckpoint, r.Guard)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if len(r.Checkpoint) == 0 && len(r.Witnessed) > 0 {
		return errors.New("there is a cosigned checkpoint and none without")
	}
	if _, err := within(r.Witnessed, r.Origin, MaxWitnessed, published); err != nil {
		return fmt.Errorf("cosigned checkpoint: %w", err)
	}
	return nil
}

// within reads a note of the record, if there is one, and checks that its tree
// can be a beginning of another.
func within(note []byte, origin string, most int, of Guard) (Guard, error) {
	if len(note) == 0 {
		return Guard{}, nil
	}
	_, g, err := readNote(note, origin, most)
	switch {
	case err != nil:
		return Guard{}, err
	case g.Size > of.Size, g.Size == of.Size && g.Root != of.Root:
		return Guard{}, fmt.Errorf("it has %s, which is no beginning of %s", g, of)
	}
	return g, nil
}

// readNote reads a checkpoint note, without extension lines, and the tree that it
// is about.
func readNote(raw []byte, origin string, most int) (*trust.Note, Guard, error) {
	if len(raw) > most {
		return nil, Guard{}, fmt.Errorf("%d bytes, limit %d", len(raw), most)
	}
	n, err := trust.ParseNote(raw)
	if err != nil {
		return nil, Guard{}, err
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return nil, Guard{}, err
	}
	switch {
	case cp.Origin != origin:
		return nil, Guard{}, fmt.Errorf("origin %q, expected %q", cp.Origin, origin)
	case cp.Extension != "":
		return nil, Guard{}, errors.New("it has extension lines")
	case cp.Size > maxCount:
		return nil, Guard{}, fmt.Errorf("size %d, at most %d", cp.Size, uint64(maxCount))
	}
	return n, Guard{cp.Size, cp.Root}, emptyRoot(cp.Size, cp.Root)
}

// emptyRoot refuses a root of no leaves that is not the one.
func emptyRoot(size uint64, root [32]byte) error {
	if size == 0 && root != sha256.Sum256(nil) {
		return fmt.Errorf("root %x at size 0", root)
	}
	return nil
}
