package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"counterfoil/internal/durable"
	"counterfoil/witness/rule"
)

// How many documents are kept of one log. What came first stays: later ones say
// less. Documents that convict nobody have a limit of their own, because anyone
// can cause them.
const (
	MaxConclusive   = 16
	MaxInconclusive = 4
)

// evidence is the directory of equivocation documents. A file is named
// KIND-ID.json.
type evidence struct {
	dir string
	*evidenceIndex
}

type evidenceIndex struct {
	mu   sync.Mutex
	have map[string][]string // origin's hash → names
}

func evidenceDir(dir string) string { return filepath.Join(dir, "evidence") }

// OriginHash is how an origin stands in paths: hex of SHA-256(origin).
func OriginHash(origin string) string {
	h := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(h[:])
}

func openEvidence(dir string) (evidence, error) {
	e := evidence{evidenceDir(dir), &evidenceIndex{have: map[string][]string{}}}
	err := walkEvidence(dir, func(origin, name string) error {
		e.have[origin] = append(e.have[origin], name)
		return nil
	})
	return e, err
}

// walkEvidence calls f for every document, in order of origin's hash and name.
func walkEvidence(dir string, f func(origin, name string) error) error {
	logs, err := os.ReadDir(evidenceDir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list evidence: %w", err)
	}
	for _, l := range logs {
		files, err := os.ReadDir(filepath.Join(evidenceDir(dir), l.Name()))
		if err != nil {
			return fmt.Errorf("list evidence: %w", err)
		}
		for _, d := range files {
			if strings.HasPrefix(d.Name(), ".") || !strings.HasSuffix(d.Name(), ".json") {
				continue
			}
			if err := f(l.Name(), d.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keep stores an equivocation document durably. It returns false without an
// error if the document is there already or the log has as many as are kept.
func (s *Store) Keep(e *rule.Evidence) (bool, error) {
	origin, name := OriginHash(e.Origin), string(e.Kind)+"-"+e.ID()+".json"
	s.evidence.mu.Lock()
	defer s.evidence.mu.Unlock()
	have := s.evidence.have[origin]
	if slices.Contains(have, name) {
		return false, nil
	}
	n, most := 0, MaxInconclusive
	if e.Kind.Conclusive() {
		most = MaxConclusive
	}
	for _, h := range have {
		kind, _, _ := strings.Cut(h, "-")
		if rule.Kind(kind).Conclusive() == e.Kind.Conclusive() {
			n++
		}
	}
	if n >= most {
		return false, nil
	}
	b, err := e.Marshal()
	if err != nil {
		return false, err
	}
	if len(b) > rule.MaxEvidenceBytes {
		return false, fmt.Errorf("evidence of %d bytes, limit %d", len(b), rule.MaxEvidenceBytes)
	}
	dir := filepath.Join(s.evidence.dir, origin)
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("keep evidence: %w", err)
	}
	if err := durable.Create(filepath.Join(dir, name), append(b, '\n'), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("keep evidence: %w", err)
	}
	s.evidence.have[origin] = append(have, name)
	return true, nil
}

// EvidenceCount is the number of documents of all logs.
func (s *Store) EvidenceCount() int {
	s.evidence.mu.Lock()
	defer s.evidence.mu.Unlock()
	n := 0
	for _, names := range s.evidence.have {
		n += len(names)
	}
	return n
}

// Evidence is a document and the bytes of its file, which end in a newline.
type Evidence struct {
	ID  string
	Doc *rule.Evidence
	Raw []byte
}

// ReadEvidence reads the equivocation documents of a state directory, whether
// or not a witness serves from it, in order of their files.
func ReadEvidence(dir string) ([]Evidence, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	var out []Evidence
	err := walkEvidence(dir, func(origin, name string) error {
		path := filepath.Join(evidenceDir(dir), origin, name)
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("read evidence: %w", err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, rule.MaxEvidenceBytes+2))
		if err != nil {
			return fmt.Errorf("read evidence: %w", err)
		}
		doc, err := rule.ParseEvidence(b)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		out = append(out, Evidence{ID: doc.ID(), Doc: doc, Raw: b})
		return nil
	})
	return out, err
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
