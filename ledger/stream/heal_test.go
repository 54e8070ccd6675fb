package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// leaves is a log in memory.
type leaves [][]byte

func (l leaves) Size() uint64 { return uint64(len(l)) }

func (l leaves) Leaf(_ context.Context, i uint64) ([]byte, error) {
	if i >= uint64(len(l)) {
		return nil, fmt.Errorf("no leaf %d", i)
	}
	return l[i], nil
}

// Test leaves are "<shard>|<text>"; their subject is a function of the bytes.
func leaf(i int, size int) []byte {
	b := fmt.Appendf(nil, "%02x|leaf %d|", i%256, i)
	return append(b, bytes.Repeat([]byte("."), max(0, size-len(b)))...)
}

func leafSubject(b []byte) string {
	return "counterfoil.v1.default.tool_action.attempt." + string(b[:2])
}

func makeLeaves(n, size int) leaves {
	l := make(leaves, n)
	for i := range l {
		l[i] = leaf(i, size)
	}
	return l
}

// fill publishes leaves in order.
func fill(t testing.TB, s *Stream, l leaves) {
	t.Helper()
	w := s.window()
	for i, b := range l {
		if err := w.put(t.Context(), Msg{leafSubject(b), b}, uint64(i)+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// filled makes a store that holds the leaves, and returns its directory.
func filled(t testing.TB, l leaves) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "stream")
	s, err := Open(t.Context(), testConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, l)
	closeStream(t, s)
	return dir
}

// bigLeaves fill three blocks.
var bigLeaves = makeLeaves(300, bigBody)

// bigStore holds bigLeaves; made once.
var bigStore struct {
	once sync.Once
	dir  string
}

// filledBig is filled for bigLeaves, by a copy.
func filledBig(t testing.TB) string {
	t.Helper()
	bigStore.once.Do(func() {
		dir, err := os.MkdirTemp("", "counterfoil-stream-test-")
		must(t, err)
		s, err := Open(t.Context(), testConfig(dir))
		must(t, err)
		fill(t, s, bigLeaves)
		closeStream(t, s)
		bigStore.dir = dir
	})
	dir := filepath.Join(t.TempDir(), "stream")
	must(t, os.CopyFS(dir, os.DirFS(bigStore.dir)))
	return dir
}

func healConfig(l leaves, aside string) HealConfig {
	return HealConfig{Leaves: l, SubjectOf: leafSubject, AsideDir: aside}
}

func mustHeal(t testing.TB, s *Stream, cfg HealConfig) *Report {
	t.Helper()
	r, err := s.Heal(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustHold checks that the stream holds exactly these bodies, and that each is
// where its subject says.
func mustHold(t testing.TB, s *Stream, want leaves) {
	t.Helper()
	st, err := s.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := uint64(len(want)); st != (State{First: min(1, n), Last: n, Messages: n}) {
		t.Fatalf("state %+v, expected a whole stream of %d", st, n)
	}
	err = s.scan(t.Context(), 1, st.Last, func(seq uint64, m *Message) error {
		if m == nil || !bytes.Equal(m.Body, want[seq-1]) || m.Subject != leafSubject(m.Body) {
			return fmt.Errorf("message %d is %.60v, expected %.40q", seq, m, want[seq-1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func streamDir(dir string) string {
	return filepath.Join(dir, storeName, account, "streams", DefaultName)
}

// blocks returns the files that hold the messages, oldest first. With bodies of
// bigBody bytes about 139 messages share one.
func blocks(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	for i := 1; ; i++ {
		p := filepath.Join(streamDir(dir), "msgs", fmt.Sprint(i, ".blk"))
		if _, err := os.Stat(p); err != nil {
			break
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		t.Fatal("no message blocks")
	}
	return out
}

const bigBody = 60_000

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func truncateBy(t testing.TB, path string, n int64) {
	t.Helper()
	fi, err := os.Stat(path)
	must(t, err)
	must(t, os.Truncate(path, max(0, fi.Size()-n)))
}

func count(from, to uint64) Sequences {
	var s Sequences
	for q := from; q <= to; q++ {
		s.add(q)
	}
	return s
}

// Real damage to the files of a stream, and what the stream is after it was
// healed from a log that holds the first `logged` of its `stored` messages.
func TestDUR_StreamHealsFromRealDamage(t *testing.T) {
	const stored, logged = 300, 250
	all := bigLeaves
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   Report // Action, Republished, Reappended, Lost, MaybeLost
		tail   []int  // indexes of the unlogged messages that are kept
		holds  [2]uint64
	}{
		{
			name:   "none",
			damage: func(*testing.T, string) {},
			want:   Report{Action: Nothing}, tail: span(logged, stored),
		},
		{
			name:   "stream directory deleted",
			damage: func(t *testing.T, dir string) { must(t, os.RemoveAll(streamDir(dir))) },
			want:   Report{Action: Refilled, Republished: logged, MaybeLost: true},
		},
		{
			name:   "store deleted",
			damage: func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
			want:   Report{Action: Refilled, Republished: logged, MaybeLost: true},
		},
		{
			name:   "first block deleted",
			damage: func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[0])) },
			want:   Report{Action: Rebuilt, Republished: logged, Reappended: stored - logged}, tail: span(logged, stored),
		},
		{
			name:   "middle block deleted",
			damage: func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[1])) },
			want:   Report{Action: Rebuilt, Republished: logged, Reappended: 22, Lost: count(251, 278)}, tail: span(278, stored),
		},
		{
			name:   "last block deleted",
			damage: func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[2])) },
			want:   Report{Action: Rebuilt, Republished: logged, Reappended: 28, Lost: count(279, 300)}, tail: span(logged, 278),
		},
		{
			name:   "middle block truncated",
			damage: func(t *testing.T, dir string) { truncateBy(t, blocks(t, dir)[1], 100) },
			want:   Report{Action: Rebuilt, Republished: logged, Reappended: 49, Lost: count(278, 278)}, tail: append(span(logged, 277), span(278, stored)...),
		},
		{
			name:   "last block truncated",
			damage: func(t *testing.T, dir string) { truncateBy(t, blocks(t, dir)[2], 100) },
			want:   Report{Action: Rebuilt, Republished: logged, Reappended: 49, Lost: count(300, 300)}, tail: span(logged, 299),
		},
		{
			name: "last block truncated, and the state that knew its end is gone",
			damage: func(t *testing.T, dir string) {
				truncateBy(t, blocks(t, dir)[2], 100)
				must(t, os.Remove(filepath.Join(streamDir(dir), "msgs", "index.db")))
			},
			want: Report{Action: Nothing}, tail: span(logged, 299),
		},
		{
			name: "two blocks and the state gone: ends before the log",
			damage: func(t *testing.T, dir string) {
				bs := blocks(t, dir)
				must(t, errors.Join(os.Remove(bs[1]), os.Remove(bs[2]), os.Remove(filepath.Join(streamDir(dir), "msgs", "index.db"))))
			},
			want: Report{Action: Refilled, Republished: logged - 139, MaybeLost: true},
		},
		{
			name: "every block emptied",
			damage: func(t *testing.T, dir string) {
				for _, b := range blocks(t, dir) {
					must(t, os.Truncate(b, 0))
				}
			},
			want: Report{Action: Rebuilt, Republished: logged, Lost: count(251, 300)},
		},
		{
			name: "one byte of an unlogged message changed",
			damage: func(t *testing.T, dir string) {
				f, err := os.OpenFile(blocks(t, dir)[2], os.O_RDWR, 0)
				must(t, err)
				_, err = f.WriteAt([]byte("X"), 100_000) // message 280
				must(t, errors.Join(err, f.Close()))
			},
			want: Report{Action: Rebuilt, Republished: logged, Reappended: 49, Lost: count(280, 280)}, tail: append(span(logged, 279), span(280, stored)...),
		},
		{
			name: "one byte of a logged message changed",
			damage: func(t *testing.T, dir string) {
				f, err := os.OpenFile(blocks(t, dir)[1], os.O_RDWR, 0)
				must(t, err)
				_, err = f.WriteAt([]byte("X"), 100_000)
				must(t, errors.Join(err, f.Close()))
			},
			want: Report{Action: Rebuilt, Republished: logged, Reappended: 50}, tail: span(logged, stored),
		},
		{
			name:   "description of the stream deleted",
			damage: func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(streamDir(dir), "meta.inf"))) },
			want:   Report{Action: Nothing, Damaged: "damaged-1"}, tail: span(logged, stored),
		},
		{
			name: "messages replaced by a file: the server cannot read the stream",
			damage: func(t *testing.T, dir string) {
				p := filepath.Join(streamDir(dir), "msgs")
				must(t, errors.Join(os.RemoveAll(p), os.WriteFile(p, nil, 0o600)))
			},
			want: Report{Action: Refilled, Republished: logged, MaybeLost: true, Damaged: "damaged-1"},
		},
		{
			name: "consumers replaced by a file: the server would throw the messages away",
			damage: func(t *testing.T, dir string) {
				p := filepath.Join(streamDir(dir), "obs")
				must(t, errors.Join(os.RemoveAll(p), os.WriteFile(p, nil, 0o600)))
			},
			want: Report{Action: Nothing, Damaged: "damaged-1"}, tail: span(logged, stored),
		},
		{
			name: "store replaced by a file: the server does not start",
			damage: func(t *testing.T, dir string) {
				p := filepath.Join(dir, "jetstream")
				must(t, errors.Join(os.RemoveAll(p), os.WriteFile(p, []byte("junk"), 0o600)))
			},
			want: Report{Action: Refilled, Republished: logged, MaybeLost: true, Damaged: "damaged-1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filledBig(t)
			tc.damage(t, dir)
			s := open(t, testConfig(dir))
			aside := filepath.Join(t.TempDir(), "aside")
			r := mustHeal(t, s, healConfig(all[:logged], aside))
			want := tc.want
			want.Before, want.LogSize = r.Before, logged
			if want.Damaged != "" {
				want.Damaged = filepath.Join(dir, want.Damaged)
			}
			if len(tc.tail) > 0 && want.Action == Rebuilt {
				want.AsideFile = r.AsideFile
				mustSetAside(t, r.AsideFile, all, tc.tail)
			}
			if d := cmp.Diff(&want, r); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
			expected := append(leaves(nil), all[:logged]...)
			for _, i := range tc.tail {
				expected = append(expected, all[i])
			}
			mustHold(t, s, expected)
			if n := uint64(len(expected)); s.LastSeen() != n {
				t.Errorf("last seen %d, expected %d", s.LastSeen(), n)
			}
			if _, err := os.Stat(filepath.Join(aside, journalFile)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("journal: %v", err)
			}
			// A second run finds nothing to do, and the stream takes messages.
			if r := mustHeal(t, s, healConfig(all[:logged], aside)); r.Action != Nothing {
				t.Errorf("second run: %+v", r)
			}
			w := s.window()
			must(t, w.put(t.Context(), Msg{leafSubject(all[0]), all[0]}, uint64(len(expected))+1))
			must(t, w.flush(t.Context()))
		})
	}
}

func span(from, to int) []int {
	var out []int
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// mustSetAside checks the file against the format that is promised.
func mustSetAside(t testing.TB, path string, all leaves, want []int) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d messages set aside, expected %d", len(lines), len(want))
	}
	for i, line := range lines {
		var m struct {
			Seq        int    `json:"seq"`
			Subject    string `json:"subject"`
			BodyBase64 []byte `json:"bodyBase64"`
		}
		must(t, json.Unmarshal([]byte(line), &m))
		if m.Seq != want[i]+1 || m.Subject != leafSubject(all[want[i]]) || !bytes.Equal(m.BodyBase64, all[want[i]]) {
			t.Fatalf("line %d is message %d, expected %d", i+1, m.Seq, want[i]+1)
		}
	}
}

// An older copy of the whole directory is a clean prefix.
func TestDUR_StreamRestoredFromOlderCopy(t *testing.T) {
	all := makeLeaves(5000, 200)
	dir := filled(t, all[:1200])
	old := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(old, os.DirFS(dir)))
	s, err := Open(t.Context(), testConfig(dir))
	must(t, err)
	w := s.window()
	for i, b := range all[1200:] {
		must(t, w.put(t.Context(), Msg{leafSubject(b), b}, uint64(1201+i)))
	}
	must(t, w.flush(t.Context()))
	closeStream(t, s)
	must(t, errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(old))))

	s = open(t, testConfig(dir))
	r := mustHeal(t, s, healConfig(all, t.TempDir()))
	if r.Action != Refilled || r.Republished != 3800 || r.Before.Last != 1200 || !r.MaybeLost || !r.Announce() {
		t.Errorf("report %+v", r)
	}
	mustHold(t, s, all)
}

// A difference between log and stream stops everything and changes nothing,
// whatever else is wrong with the stream.
func TestDUR_StreamAndLogDisagree(t *testing.T) {
	all := bigLeaves
	for _, tc := range []struct {
		name   string
		index  int
		logged int
		damage func(t *testing.T, dir string)
	}{
		{"whole", 299, 300, nil},
		{"first of the compared", 200, 300, nil},
		{"ends before the log", 250, 320, nil},
		{"with a hole", 3, 300, func(t *testing.T, dir string) { must(t, os.Remove(blocks(t, dir)[1])) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filledBig(t)
			if tc.damage != nil {
				tc.damage(t, dir)
			}
			log := append(leaves(nil), makeLeaves(tc.logged, bigBody)...)
			log[tc.index] = append([]byte(nil), log[tc.index]...)
			log[tc.index][1000] ^= 1
			s := open(t, testConfig(dir))
			before, err := s.State(t.Context())
			must(t, err)
			cfg := healConfig(log, filepath.Join(t.TempDir(), "aside"))
			cfg.Compare = 100
			_, err = s.Heal(t.Context(), cfg)
			var d *DisagreeError
			if !errors.As(err, &d) {
				t.Fatalf("heal: %v, expected a DisagreeError", err)
			}
			want := DisagreeError{Index: uint64(tc.index), LeafDigest: digest(log[tc.index]), MessageDigest: digest(all[tc.index])}
			if *d != want {
				t.Errorf("got %+v, expected %+v", *d, want)
			}
			after, err := s.State(t.Context())
			must(t, err)
			if before != after {
				t.Errorf("state was %+v, is %+v", before, after)
			}
			if m, err := s.Get(t.Context(), uint64(tc.index)+1); err != nil || !bytes.Equal(m.Body, all[tc.index]) {
				t.Errorf("message was changed: %v", err)
			}
			if files, _ := os.ReadDir(cfg.AsideDir); len(files) > 0 {
				t.Errorf("left behind: %v", files)
			}
		})
	}
}

// Only the asked number of messages is compared, and at least the default.
func TestDUR_CompareIsBounded(t *testing.T) {
	all := makeLeaves(2000, 20)
	s := open(t, testConfig(filled(t, all)))
	for _, tc := range []struct {
		compare uint64
		index   int
		found   bool
	}{
		{0, 2000 - DefaultCompare, true},
		{0, 2000 - DefaultCompare - 1, false},
		{10, 1990, true},
		{10, 1989, false},
		{1 << 60, 0, true},
	} {
		log := append(leaves(nil), all...)
		log[tc.index] = []byte("00|other")
		cfg := healConfig(log, t.TempDir())
		cfg.Compare = tc.compare
		_, err := s.Heal(t.Context(), cfg)
		var d *DisagreeError
		if found := errors.As(err, &d); found != tc.found {
			t.Errorf("compare %d, leaf %d: %v", tc.compare, tc.index, err)
		}
	}
}

// Chains decides which unlogged messages are kept; what it refuses stays in the
// file, is listed, and is noted before it could be forgotten.
func TestLOG13_RebuildAsksChains(t *testing.T) {
	all := bigLeaves
	dir := filledBig(t)
	must(t, os.Remove(blocks(t, dir)[0]))
	s := open(t, testConfig(dir))
	cfg := healConfig(all[:290], t.TempDir())
	var asked []string
	cfg.Chains = func(leaf []byte) error {
		asked = append(asked, string(leaf[:2]))
		if leaf[1] == '5' || leaf[1] == '6' { // 293, 294
			return errors.New("does not follow")
		}
		return nil
	}
	var noted *Report
	cfg.Note = func(r *Report) error {
		c := *r
		noted = &c
		if _, err := os.Stat(filepath.Join(cfg.AsideDir, journalFile)); err != nil {
			t.Errorf("the journal is gone when the loss is noted: %v", err)
		}
		return nil
	}
	r := mustHeal(t, s, cfg)
	want := &Report{
		Action: Rebuilt, Before: r.Before, LogSize: 290, Republished: 290, Reappended: 8,
		Unchained: Sequences{Count: 2, First: []uint64{294, 295}}, AsideFile: r.AsideFile,
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, noted); d != "" {
		t.Errorf("noted (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"22", "23", "24", "25", "26", "27", "28", "29", "2a", "2b"}, asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	mustHold(t, s, append(append(leaves(nil), all[:293]...), all[295:]...))
	mustSetAside(t, r.AsideFile, all, span(290, 300))
}

// Trouble of the one who judges is no refusal.
func TestLOG13_NotJudgedEndsHeal(t *testing.T) {
	all := bigLeaves
	dir := filledBig(t)
	must(t, os.Remove(blocks(t, dir)[0]))
	s := open(t, testConfig(dir))
	cfg := healConfig(all[:290], t.TempDir())
	cfg.Chains = func([]byte) error { return fmt.Errorf("disk: %w", ErrNotJudged) }
	if _, err := s.Heal(t.Context(), cfg); !errors.Is(err, ErrNotJudged) {
		t.Fatalf("heal: %v", err)
	}
	cfg.Chains = nil
	if r := mustHeal(t, s, cfg); r.Reappended != 10 {
		t.Errorf("report %+v", r)
	}
	mustHold(t, s, all)
}

// A leaf of the largest size leaves no room for a header; it is republished all
// the same. One byte more cannot be stored, so it cannot be a leaf.
func TestDUR_LargestLeafIsRepublished(t *testing.T) {
	log := makeLeaves(5, 20)
	log[1], log[2] = leaf(1, MaxBody), leaf(2, MaxPublish)
	log[4] = leaf(4, MaxBody)
	s := open(t, testConfig(t.TempDir()))
	mustHeal(t, s, healConfig(log, t.TempDir()))
	mustHold(t, s, log)

	log = append(log, leaf(5, MaxBody+1))
	if _, err := s.Heal(t.Context(), healConfig(log, t.TempDir())); !errors.Is(err, ErrTooLarge) {
		t.Errorf("leaf of %d bytes: %v", MaxBody+1, err)
	}
}

// Another publisher during a heal is noticed.
func TestDUR_HealNoticesAnotherPublisher(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	n := 0
	s.hook = func(step string) error {
		if n++; step == "republish" && n == 50 {
			_, err := s.nc.Request(subject("x", "y", 0), []byte("foreign"), s.cfg.AckTimeout)
			return err
		}
		return nil
	}
	if _, err := s.Heal(t.Context(), healConfig(makeLeaves(100, 20), t.TempDir())); err == nil {
		t.Error("heal did not notice")
	}
	// No leaf was stored at a place that is not its own.
	st, err := s.State(t.Context())
	must(t, err)
	must(t, s.scan(t.Context(), 1, st.Last, func(seq uint64, m *Message) error {
		if string(m.Body) != "foreign" && string(m.Body) != string(leaf(int(seq-1), 20)) {
			return fmt.Errorf("message %d is %q", seq, m.Body)
		}
		return nil
	}))
}

// Heal refuses publishes while it runs.
func TestDUR_NothingIsPublishedDuringHeal(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	s.hook = func(string) error {
		_, err := s.Publish(t.Context(), Msg{subject("a", "b", 1), []byte("x")}, filter(1), 0)
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("publish during heal: %v", err)
		}
		return nil
	}
	mustHeal(t, s, healConfig(makeLeaves(3, 20), t.TempDir()))
	mustPublish(t, s, 1, "01|x", 2)
}
