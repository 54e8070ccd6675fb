package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/durable"
	"counterfoil/ledger/trust"
)

// Bounds of what is kept.
const (
	// maxIncidents is how many incidents are kept of one witness: the first ones.
	maxIncidents = 16
	// maxIncident bounds one file: two notes and the rest, with JSON's escapes.
	maxIncident = 8 << 20
	// maxCosigned bounds cosigned.json: a note of 64 ML-DSA-44 lines takes 210 kB.
	maxCosigned = 32 << 20

	timeLayout = "2006-01-02T15:04:05.000Z"
)

// CosignedSchema is the schemaVersion of the file cosigned.json.
const CosignedSchema = "counterfoil.cosigned.v1"

// cosigned is that file: the anchor records of the log (what was cosigned,
// where, when).
type cosigned struct {
	SchemaVersion string         `json:"schemaVersion"`
	Origin        string         `json:"origin"`
	Checkpoints   []cosignedNote `json:"checkpoints"` // by size
}

type cosignedNote struct {
	Note         string   `json:"note"` // with the log's signature, then the cosignatures
	Cosignatures []anchor `json:"cosignatures"`
}

// anchor is where and when a line of the note was made.
type anchor struct {
	Witness    string `json:"witness"` // its name in the policy
	VKey       string `json:"vkey"`
	URL        string `json:"url"`
	Time       uint64 `json:"time"`       // as the witness states it, seconds since 1970
	ReceivedAt string `json:"receivedAt"` // our clock
}

// store is the directory of a gatherer:
//
//	cosigned.json          the newest cosigned checkpoints, see cosigned
//	incidents/<id>.json    incidents, see Incident
//	stopped.json           the incident after which nothing is signed
type store struct {
	dir string

	mu   sync.Mutex
	kept map[string]int // incidents by verifier key
}

func (s *store) cosignedFile() string { return filepath.Join(s.dir, "cosigned.json") }
func (s *store) incidentsDir() string { return filepath.Join(s.dir, "incidents") }
func (s *store) stoppedFile() string  { return filepath.Join(s.dir, "stopped.json") }

func openStore(dir string) (*store, error) {
	s := &store{dir: dir, kept: map[string]int{}}
	return s, errors.Join(durable.MkdirAll(dir, 0o700), durable.MkdirAll(s.incidentsDir(), 0o700))
}

// save replaces cosigned.json.
func (s *store) save(c *cosigned) error {
	b, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(s.cosignedFile(), append(b, '\n'), 0o600)
}

// load reads cosigned.json; nil if there is none. A file that cannot be
// understood is moved aside: it can be asked for again.
func (s *store) load(origin string) (c *cosigned, aside error, err error) {
	b, err := durable.ReadFile(s.cosignedFile(), maxCosigned)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	c = new(cosigned)
	if err = json.Unmarshal(b, c, json.RejectUnknownMembers(true)); err == nil {
		switch {
		case c.SchemaVersion != CosignedSchema:
			err = fmt.Errorf("schemaVersion %q, expected %q", c.SchemaVersion, CosignedSchema)
		case c.Origin != origin:
			err = fmt.Errorf("origin %q, expected %q", c.Origin, origin)
		}
	}
	if err != nil {
		to := s.cosignedFile() + ".damaged"
		return nil, fmt.Errorf("%s is not usable and was moved to %s: %w", s.cosignedFile(), to, err), durable.Rename(s.cosignedFile(), to)
	}
	return c, nil, nil
}

// incident keeps one, unless it is there or its witness has as many as are kept.
func (s *store) incident(i *Incident) (isNew bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[i.VKey] >= maxIncidents && !i.final() {
		return false, nil
	}
	b, err := json.Marshal(i, json.Deterministic(true))
	if err != nil {
		return false, err
	}
	err = durable.Create(filepath.Join(s.incidentsDir(), i.id()+".json"), append(b, '\n'), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("keep the incident: %w", err)
	}
	s.kept[i.VKey]++
	return true, nil
}

// incidents reads what is kept, and what could not be read of it.
func (s *store) incidents() (list []*Incident, errs []error) {
	entries, err := os.ReadDir(s.incidentsDir())
	if err != nil {
		return nil, []error{err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		i, err := readIncident(filepath.Join(s.incidentsDir(), e.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.kept[i.VKey]++
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b *Incident) int { return strings.Compare(a.ObservedAt, b.ObservedAt) })
	return list, errs
}

func readIncident(path string) (*Incident, error) {
	b, err := durable.ReadFile(path, maxIncident)
	if err != nil {
		return nil, err
	}
	i := new(Incident)
	if err := json.Unmarshal(b, i); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return i, nil
}

// stop makes the end of signing last.
func (s *store) stop(i *Incident) error {
	b, err := json.Marshal(i, json.Deterministic(true))
	if err == nil {
		err = durable.WriteFile(s.stoppedFile(), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note that nothing is signed any more: %w", err)
	}
	return nil
}

// stopped returns the incident of stopped.json, nil without the file. A file
// that cannot be understood stops all the same.
func (s *store) stopped() *Incident {
	if _, err := os.Lstat(s.stoppedFile()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	i, err := readIncident(s.stoppedFile())
	if err != nil {
		return &Incident{Verdict: VerdictSetBack, Detail: "what happened cannot be read: " + err.Error()}
	}
	return i
}

// document is the board as it is stored: checkpoints with cosignatures. Of those
// that are behind the newest that meets the quorum, only the lines of witnesses
// that have signed nothing larger.
func (b *board) document(origin string) *cosigned {
	c := &cosigned{SchemaVersion: CosignedSchema, Origin: origin, Checkpoints: []cosignedNote{}}
	for _, s := range b.sheets {
		latest := b.latest(s)
		n := trust.Note{Text: s.note.Text, Signatures: slices.Clone(s.note.Signatures)}
		var list []anchor
		for i, l := range s.lines {
			if l.time == 0 || s.cp.Size < b.metSize && !slices.Contains(latest, i) {
				continue
			}
			w := b.quorum.policy.Witnesses[i]
			n.Signatures = append(n.Signatures, l.line)
			list = append(list, anchor{w.Name, w.Key.String(), w.URL, l.time, l.receivedAt.UTC().Format(timeLayout)})
		}
		if list != nil {
			c.Checkpoints = append(c.Checkpoints, cosignedNote{string(n.Append(nil)), list})
		}
	}
	return c
}

// restore reads one stored checkpoint. Only what verifies counts.
func (g *Gatherer) restore(c cosignedNote) (*sheet, error) {
	n, cp, err := g.signed([]byte(c.Note))
	if err != nil {
		return nil, err
	}
	s := &sheet{cp: cp, note: &trust.Note{Text: n.Text}, lines: make([]cosig, len(g.witnesses))}
	for _, sig := range n.Signatures {
		if sig.Name == g.cfg.Log.Name && sig.ID == g.cfg.Log.ID {
			s.note.Signatures = append(s.note.Signatures, sig)
			continue
		}
		for i, w := range g.witnesses {
			k := w.policy.Key
			if sig.Name != k.Name || sig.ID != k.ID {
				continue
			}
			at, ok := k.Verify(n.Text, sig.Sig)
			if !ok || at == 0 {
				return nil, fmt.Errorf("the stored cosignature of %s does not verify", w.policy.Name)
			}
			if at > s.lines[i].time {
				s.lines[i] = cosig{sig, at, time.Unix(int64(min(at, 1<<40)), 0)}
			}
		}
	}
	for _, a := range c.Cosignatures {
		for i, w := range g.witnesses {
			if t, err := time.Parse(timeLayout, a.ReceivedAt); err == nil && a.VKey == w.policy.Key.String() && s.has(i) {
				s.lines[i].receivedAt = t
			}
		}
	}
	return s, nil
}
