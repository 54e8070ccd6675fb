package stream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"counterfoil/internal/durable"
)

// journalFile says that a rebuild is in progress. While it is there, the
// stream's content means nothing: everything is in the log and in the file that
// the journal names.
const journalFile = "rebuild.json"

const journalSchema = "counterfoil.rebuild.v1"

// journal is written before the old stream is deleted, and removed once the new
// one is complete.
type journal struct {
	Schema      string    `json:"schema"`
	Stream      string    `json:"stream"`
	LogSize     uint64    `json:"logSize"`
	Aside       string    `json:"aside,omitempty"` // name of the file beside the journal
	AsideDigest string    `json:"asideDigest,omitempty"`
	Messages    uint64    `json:"messages"` // set aside
	Lost        Sequences `json:"lost"`
	MaybeLost   bool      `json:"maybeLost"`
}

// asideMessage is one line of a file of messages set aside.
type asideMessage struct {
	Seq     uint64 `json:"seq"`
	Subject string `json:"subject"`
	Body    []byte `json:"bodyBase64"`
}

func (h *healer) path(name string) string { return filepath.Join(h.cfg.AsideDir, name) }

func (h *healer) readJournal() (*journal, error) {
	b, err := os.ReadFile(h.path(journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal of a rebuild: %w", err)
	}
	var j journal
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return nil, fmt.Errorf("journal of a rebuild %s: %w", h.path(journalFile), err)
	}
	if j.Schema != journalSchema || j.Stream != h.s.cfg.Name || j.Aside != filepath.Base(j.Aside) && j.Aside != "" {
		return nil, fmt.Errorf("journal of a rebuild %s: schema %q of stream %q, expected %q of %q", h.path(journalFile), j.Schema, j.Stream, journalSchema, h.s.cfg.Name)
	}
	if j.LogSize > h.size {
		return nil, fmt.Errorf("a rebuild of the stream was interrupted when the log had %d leaves, now it has %d (hint: the log lost leaves; restore it)", j.LogSize, h.size)
	}
	return &j, nil
}

func (h *healer) writeJournal(j *journal) error {
	if err := h.s.step("journal-write"); err != nil {
		return err
	}
	b, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("journal of a rebuild: %w", err)
	}
	if err := durable.WriteFile(h.path(journalFile), b, 0o600); err != nil {
		return fmt.Errorf("journal of a rebuild: %w", err)
	}
	return nil
}

func (h *healer) removeJournal() error {
	if err := durable.Remove(h.path(journalFile)); err != nil {
		return fmt.Errorf("journal of a rebuild: %w", err)
	}
	return nil
}

// setAside compares what is readable up to the end of the log with the leaves,
// and writes what is readable beyond to a file, durably. The file is named by
// its content, so doing it again makes no second one.
func (h *healer) setAside(ctx context.Context) (*journal, error) {
	if err := durable.MkdirAll(h.cfg.AsideDir, 0o700); err != nil {
		return nil, fmt.Errorf("directory for messages set aside: %w", err)
	}
	j := &journal{Schema: journalSchema, Stream: h.s.cfg.Name, LogSize: h.size, MaybeLost: h.report.MaybeLost}
	tmp, err := os.CreateTemp(h.cfg.AsideDir, ".messages.*.tmp")
	if err != nil {
		return nil, fmt.Errorf("set messages aside: %w", err)
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	defer tmp.Close()
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(tmp, sum), 1<<20)
	enc := json.NewEncoder(w)
	st := h.report.Before
	if st.First > h.size+1 { // missing at the front, beyond the log
		j.Lost.Count = st.First - h.size - 1
		for seq := h.size + 1; seq < st.First && len(j.Lost.First) < listMax; seq++ {
			j.Lost.First = append(j.Lost.First, seq)
		}
	}
	err = h.s.scan(ctx, max(st.First, 1), st.Last, func(seq uint64, m *Message) error {
		switch {
		case m == nil && seq > h.size:
			j.Lost.add(seq)
			return nil
		case m == nil:
			return nil
		case seq <= h.size:
			return h.compare(ctx, m)
		}
		j.Messages++
		return enc.Encode(asideMessage{m.Seq, m.Subject, m.Body})
	})
	if err != nil {
		return nil, err
	}
	if j.Messages == 0 {
		return j, nil
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("set messages aside: %w", err)
	}
	if err := tmp.Sync(); err != nil {
		return nil, fmt.Errorf("set messages aside: %w", err)
	}
	j.AsideDigest = formatSum(sum)
	j.Aside = "messages-" + j.AsideDigest[len("sha256:"):][:16] + ".jsonl"
	if err := h.s.step("aside"); err != nil {
		return nil, err
	}
	if err := durable.Rename(tmp.Name(), h.path(j.Aside)); err != nil {
		return nil, fmt.Errorf("set messages aside: %w", err)
	}
	return j, nil
}

func formatSum(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// lineMax bounds a line of a file of messages: a body of MaxBody bytes in
// base64, its subject and the names.
const lineMax = 128 << 10

// eachAside reads the messages set aside, in order. The file must be the one
// that the journal was written for.
func (h *healer) eachAside(j *journal, f func(asideMessage) error) error {
	if j.Aside == "" {
		return nil
	}
	file, err := os.Open(h.path(j.Aside))
	if err != nil {
		return fmt.Errorf("messages set aside: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("messages set aside: %w", err)
	}
	if got := formatSum(sum); got != j.AsideDigest {
		return fmt.Errorf("messages set aside in %s have digest %s, the journal says %s (hint: restore the file, or remove the journal to give the messages up)", file.Name(), got, j.AsideDigest)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("messages set aside: %w", err)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 64<<10), lineMax)
	for lines.Scan() {
		var m asideMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("messages set aside in %s: %w", file.Name(), err)
		}
		if err := f(m); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("messages set aside in %s: %w", file.Name(), err)
	}
	return nil
}

// judgeAside asks Chains about every message set aside.
func (h *healer) judgeAside(j *journal) (keep []bool, err error) {
	err = h.eachAside(j, func(m asideMessage) error {
		ok := true
		switch {
		case m.Seq <= h.size:
			// Logged since: a leaf has its place already.
			ok = false
		case h.cfg.Chains != nil:
			if err := h.cfg.Chains(m.Body); errors.Is(err, ErrNotJudged) {
				return fmt.Errorf("message %d: %w", m.Seq, err)
			} else if err != nil {
				h.s.log.Warn("an unlogged message does not follow any more", "sequence", m.Seq, "reason", err)
				h.report.Unchained.add(m.Seq)
				ok = false
			}
		}
		keep = append(keep, ok)
		return nil
	})
	return keep, err
}
