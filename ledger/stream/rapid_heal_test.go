package stream

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/internal/testkit/rapidkit"
)

// healModel is what a stream may be, beside the stream.
type healModel struct {
	dir, aside string
	all        leaves   // what the stream should hold, in order
	logged     int      // of them, those that the log has: they come back whatever happens
	copies     []leaves // what old copies hold
	born       int      // leaves made so far, so that no two are equal
}

var errCut = errors.New("cut off")

// heal opens the stream, heals it, at times cut off at a random step and begun
// again, compares it with the model, and lets it grow. What is beyond the log may be less than it was, in
// the same order.
func (m *healModel) heal(t *testing.T, rt *rapid.T) {
	cuts := rapid.IntRange(0, 2).Draw(rt, "cuts")
	var r *Report
	for r == nil {
		s, err := Open(t.Context(), testConfig(m.dir))
		if err != nil {
			rt.Fatal(err)
		}
		if left := rapid.IntRange(0, 12).Draw(rt, "steps"); cuts > 0 {
			cuts--
			s.hook = func(string) error {
				if left--; left < 0 {
					return errCut
				}
				return nil
			}
		}
		r, err = s.Heal(t.Context(), healConfig(m.all[:m.logged], m.aside))
		if err == nil {
			m.compare(t, rt, s, r)
			m.grow(t, rt, s)
		} else if !errors.Is(err, errCut) {
			rt.Fatalf("heal: %v", err)
		}
		closeStream(t, s)
	}
}

func (m *healModel) compare(t *testing.T, rt *rapid.T, s *Stream, r *Report) {
	st, err := s.State(t.Context())
	if err != nil {
		rt.Fatal(err)
	}
	if st.Last < uint64(m.logged) || st.Messages != st.Last || st.Last > 0 && st.First != 1 {
		rt.Fatalf("state %+v with a log of %d: %+v", st, m.logged, r)
	}
	var holds leaves
	next := m.logged // of the unlogged ones
	err = s.scan(t.Context(), 1, st.Last, func(seq uint64, msg *Message) error {
		if msg == nil {
			return fmt.Errorf("message %d is missing", seq)
		}
		if seq > uint64(m.logged) {
			for next < len(m.all) && !bytes.Equal(m.all[next], msg.Body) {
				next++
			}
		} else {
			next = int(seq) - 1
		}
		if next == len(m.all) || !bytes.Equal(m.all[next], msg.Body) || msg.Subject != leafSubject(msg.Body) {
			return fmt.Errorf("message %d is %.40q", seq, msg.Body)
		}
		next++
		if seq == uint64(m.logged) {
			next = m.logged
		}
		holds = append(holds, msg.Body)
		return nil
	})
	if err != nil {
		rt.Fatalf("%v: %+v", err, r)
	}
	if r.Action == Rebuilt && uint64(len(holds)-m.logged) != r.Reappended {
		rt.Errorf("%d messages beyond the log, the report says %d", len(holds)-m.logged, r.Reappended)
	}
	m.all = holds
}

// TestINV3_HealAgainstAModel lets a stream grow, be logged, be damaged in its files
// and be replaced by old copies, in any order, and heals it each time, also after
// heals that were cut off. Every logged leaf is at its place, byte for byte, and
// what follows are unlogged messages in their order, none twice.
func TestINV3_HealAgainstAModel(t *testing.T) {
	rapidkit.Check(t, 10, func(rt *rapid.T) {
		m := &healModel{dir: filepath.Join(t.TempDir(), "stream"), aside: filepath.Join(t.TempDir(), "aside")}
		for range rapid.IntRange(2, 5).Draw(rt, "rounds") {
			m.heal(t, rt)
			m.damage(t, rt)
		}
		m.heal(t, rt)
	})
}

// grow publishes some messages and logs some of what is there.
func (m *healModel) grow(t *testing.T, rt *rapid.T, s *Stream) {
	w := s.window()
	// Some blocks of messages in a round, and some rounds without one.
	size := rapid.SampledFrom([]int{40, 700, bigBody}).Draw(rt, "size")
	for range rapid.IntRange(0, 200).Draw(rt, "messages") {
		body := leaf(m.born, size)
		m.born++
		if err := w.put(t.Context(), Msg{leafSubject(body), body}, uint64(len(m.all))+1); err != nil {
			rt.Fatal(err)
		}
		m.all = append(m.all, body)
	}
	if err := w.flush(t.Context()); err != nil {
		rt.Fatal(err)
	}
	m.logged = rapid.IntRange(m.logged, len(m.all)).Draw(rt, "logged")
}

// damage does something to the files of the stopped stream.
func (m *healModel) damage(t *testing.T, rt *rapid.T) {
	var files []string
	for _, pattern := range []string{"*.blk", "index.db"} {
		names, err := filepath.Glob(filepath.Join(streamDir(m.dir), "msgs", pattern))
		if err != nil {
			rt.Fatal(err)
		}
		files = append(files, names...)
	}
	what := rapid.SampledFrom([]string{"nothing", "cut", "emptied", "deleted", "a byte", "all", "copied", "restored"}).Draw(rt, "damage")
	pick := func() string {
		if len(files) == 0 {
			rt.Skip("no files")
		}
		return rapid.SampledFrom(files).Draw(rt, "file")
	}
	var err error
	switch what {
	case "cut":
		name := pick()
		var fi os.FileInfo
		if fi, err = os.Stat(name); err == nil {
			err = os.Truncate(name, rapid.Int64Range(0, fi.Size()).Draw(rt, "to"))
		}
	case "emptied":
		err = os.Truncate(pick(), 0)
	case "deleted":
		err = os.Remove(pick())
	case "a byte":
		err = flip(rt, pick())
	case "all":
		err = os.RemoveAll(m.dir)
	case "copied":
		m.copies = append(m.copies, slices.Clone(m.all))
		err = os.CopyFS(m.copy(len(m.copies)-1), os.DirFS(m.dir))
	case "restored":
		if len(m.copies) > 0 {
			err = m.restore(rapid.IntRange(0, len(m.copies)-1).Draw(rt, "copy"))
		}
	}
	if err != nil {
		rt.Fatal(err)
	}
}

// restore puts an old copy back, unless it has unlogged messages that were lost
// since, in places where the log has others: that is a disagreement, and refused.
func (m *healModel) restore(n int) error {
	old := m.copies[n]
	for i := range min(len(old), m.logged) {
		if !bytes.Equal(old[i], m.all[i]) {
			return nil
		}
	}
	m.all = append(slices.Clone(m.all[:m.logged]), old[min(len(old), m.logged):]...)
	return errors.Join(os.RemoveAll(m.dir), os.CopyFS(m.dir, os.DirFS(m.copy(n))))
}

func (m *healModel) copy(n int) string { return fmt.Sprintf("%s.%d", m.dir, n) }

func flip(rt *rapid.T, name string) error {
	b, err := os.ReadFile(name)
	if err != nil || len(b) == 0 {
		return err
	}
	b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
	return os.WriteFile(name, b, 0o600)
}
