package state

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

const a, b = "a.example", "b.example"

func TestLOG09_StateSurvivesRestart(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a, b)
	mustSet(t, s, latest(t, a, 5, "x", 10))
	mustSet(t, s, latest(t, a, 9, "x", 11))
	mustSet(t, s, latest(t, a, 9, "x", 12))
	if _, ok := s.Latest(b); ok {
		t.Error("a checkpoint of a log that has none")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := set(s, latest(t, a, 10, "x", 13)); !errors.Is(err, ErrStopped) {
		t.Errorf("update after close: %v", err)
	}
	s = mustOpen(t, cfg)
	wantLatest(t, s, latest(t, a, 9, "x", 12))
	if _, ok := s.Latest(b); ok {
		t.Error("a checkpoint of a log that has none")
	}
	if l, ok := s.Log(b); !ok || l.QPD != 100 {
		t.Errorf("log %+v, %v", l, ok)
	}
}

func TestLOG09_NoLogGoesBackAndNoSizeHasTwoRoots(t *testing.T) {
	s := mustOpen(t, config(t))
	addLogs(t, s, a)
	mustSet(t, s, latest(t, a, 9, "x", 10))
	wrongNote := latest(t, a, 12, "x", 11)
	wrongNote.Note = latest(t, a, 11, "x", 11).Note
	for name, l := range map[string]Latest{
		"smaller":                latest(t, a, 8, "x", 11),
		"same size, other root":  latest(t, a, 9, "y", 11),
		"earlier time":           latest(t, a, 10, "x", 9),
		"note of another size":   wrongNote,
		"note that is not one":   {Checkpoint: latest(t, a, 12, "x", 11).Checkpoint, Note: "x", Timestamp: 11},
		"checkpoint of no other": {Checkpoint: trust.Checkpoint{Origin: a}, Timestamp: 11},
	} {
		if err := set(s, l); !errors.Is(err, ErrRegress) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantLatest(t, s, latest(t, a, 9, "x", 10))
	if err := set(s, latest(t, b, 1, "x", 1)); !errors.Is(err, ErrUnknownLog) {
		t.Errorf("unknown log: %v", err)
	}
	other := errors.New("no")
	if err := s.Update(context.Background(), a, func(Latest) (Latest, error) { return Latest{}, other }); !errors.Is(err, other) {
		t.Errorf("error of next: %v", err)
	}
	mustSet(t, s, latest(t, a, 10, "x", 12))
}

// TestLOG09_ParallelUpdates: many writers with two histories; each reads and
// writes as the rule would. One root a size, and no update is lost.
func TestLOG09_ParallelUpdates(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a, b)
	var mu sync.Mutex
	roots := map[string]map[uint64][32]byte{a: {}, b: {}}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				origin := []string{a, b}[(w+i)%2]
				var mine Latest
				err := s.Update(context.Background(), origin, func(now Latest) (Latest, error) {
					mine = latest(t, origin, now.Checkpoint.Size+1, fmt.Sprint(w%2), now.Timestamp+1)
					return mine, nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				c := mine.Checkpoint
				if had, ok := roots[origin][c.Size]; ok {
					t.Errorf("size %d twice: %x and %x", c.Size, had, c.Root)
				}
				roots[origin][c.Size] = c.Root
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, o := range []string{a, b} {
		if l, _ := s.Latest(o); l.Checkpoint.Size != 100 || len(roots[o]) != 100 {
			t.Errorf("%s: size %d, %d roots", o, l.Checkpoint.Size, len(roots[o]))
		}
	}
	want, _ := s.Latest(a)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantLatest(t, mustOpen(t, cfg), want)
}

func TestLOG09_WaitingForTheSameLogEndsWithItsContext(t *testing.T) {
	s := mustOpen(t, config(t))
	addLogs(t, s, a)
	ctx, cancel := context.WithCancel(context.Background())
	err := s.Update(context.Background(), a, func(Latest) (Latest, error) {
		cancel()
		if err := s.Update(ctx, a, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return latest(t, a, 1, "x", 1), nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLOG10_ImportAddsAndChangesNothing(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	addLogs(t, s, a)
	_, other := logKey(t, "other.example")
	_, kb := logKey(t, b)
	got, err := s.Import([]Log{{Key: other, Origin: a, QPD: 1, Contact: "z"}, {Key: kb, Origin: b, QPD: 7, Contact: "z"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Imported{Added: 1, Ignored: []string{a}}, got); diff != "" {
		t.Error(diff)
	}
	if got, err = s.Import([]Log{{Key: kb, Origin: b, QPD: 7, Contact: "z"}}); err != nil || got.Known != 1 || got.Added != 0 {
		t.Errorf("the same again: %+v, %v", got, err)
	}
	if _, err := s.Import([]Log{{Key: kb, Origin: "c"}, {Key: kb, Origin: "c"}}); !errors.Is(err, ErrList) {
		t.Errorf("one origin twice: %v", err)
	}
	_ = s.Close()
	s = mustOpen(t, cfg)
	_, ka := logKey(t, a)
	if l, ok := s.Log(a); !ok || l.Key.String() != ka.String() || l.QPD != 100 {
		t.Errorf("the log was changed: %+v", l)
	}
	if len(s.Origins()) != 2 {
		t.Errorf("logs %v", s.Origins())
	}
}

func TestLOG10_ManyLogs(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	_, k := logKey(t, a)
	var list []Log
	for i := range 3*maxOp + 7 {
		list = append(list, Log{Key: k, Origin: fmt.Sprint("log ", i), QPD: 1, Contact: "c"})
	}
	if got, err := s.Import(list); err != nil || got.Added != len(list) {
		t.Fatalf("%+v, %v", got, err)
	}
	_ = s.Close()
	if n := len(mustOpen(t, cfg).Origins()); n != len(list) {
		t.Errorf("%d logs, want %d", n, len(list))
	}
}

func TestLOG10_LogList(t *testing.T) {
	_, ka := logKey(t, a)
	_, kb := logKey(t, b)
	good := "#\n# a list\n#\nlogs/v0\n\n# the first\nvkey " + ka.String() + "\nqpd 86400\ncontact someone (at) example.com | https://x\n\n" +
		"vkey " + kb.String() + "\norigin an origin with blanks\nqpd 24\ncontact x\n"
	got, err := ParseLogList([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []Log{{ka, a, 86400, "someone (at) example.com | https://x"}, {kb, "an origin with blanks", 24, "x"}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(x, y trust.VerifierKey) bool { return x.String() == y.String() })); diff != "" {
		t.Error(diff)
	}
	if got, err := ParseLogList([]byte("logs/v0\n")); err != nil || len(got) != 0 {
		t.Errorf("no logs: %v, %v", got, err)
	}
	for name, test := range map[string]struct{ list, want string }{
		"empty":             {"", "no line"},
		"no header":         {strings.Replace(good, "logs/v0\n", "", 1), "line 6"},
		"other version":     {strings.Replace(good, "logs/v0", "logs/v1", 1), "line 4"},
		"order":             {strings.Replace(good, "qpd 86400\ncontact", "contact x\nqpd 1\ncontact", 1), "line 8: expected origin or qpd"},
		"no qpd":            {strings.Replace(good, "qpd 86400\n", "", 1), "line 8"},
		"qpd 0":             {strings.Replace(good, "qpd 24", "qpd 0", 1), "line 13"},
		"qpd 024":           {strings.Replace(good, "qpd 24", "qpd 024", 1), "line 13"},
		"no contact":        {strings.TrimSuffix(good, "contact x\n"), "no contact"},
		"empty contact":     {strings.Replace(good, "contact x", "contact ", 1), "line 14"},
		"bastion":           {strings.Replace(good, "qpd 24", "bastion none\nqpd 24", 1), "line 13: expected qpd"},
		"CR LF":             {strings.ReplaceAll(good, "\n", "\r\n"), "line 4"},
		"no last newline":   {strings.TrimSuffix(good, "\n"), "line 14"},
		"origin twice":      {strings.Replace(good, "an origin with blanks", a, 1), "of line 7"},
		"origin none":       {strings.Replace(good, "an origin with blanks", "none", 1), "leave the line out"},
		"cosignature key":   {strings.Replace(good, kb.String(), witnessKey(t, b).String(), 1), "line 11"},
		"key id":            {strings.Replace(good, "vkey b.example+", "vkey b.example+0", 1), "line 11"},
		"blank before":      {strings.Replace(good, "qpd 24", " qpd 24", 1), "line 13"},
		"two blanks":        {strings.Replace(good, "qpd 24", "qpd  24", 1), "line 13"},
		"comment behind":    {strings.Replace(good, "qpd 24", "qpd 24 # x", 1), "line 13"},
		"unknown":           {strings.Replace(good, "qpd 24", "qps 24", 1), "line 13"},
		"invalid UTF-8":     {strings.Replace(good, "an origin", "\xff", 1), "UTF-8"},
		"contact too long":  {strings.Replace(good, "contact x", "contact "+strings.Repeat("x", 1025), 1), "line 14"},
		"key without a log": {"logs/v0\nvkey " + ka.String() + "\n", "incomplete"},
	} {
		if test.list == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := ParseLogList([]byte(test.list)); !errors.Is(err, ErrList) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestLOG08_EvidenceIsBounded(t *testing.T) {
	cfg := config(t)
	s := mustOpen(t, cfg)
	doc := func(kind rule.Kind, n int) *rule.Evidence {
		return &rule.Evidence{Cosigned: latest(t, a, 1, "x", 1).Note, Offered: latest(t, a, uint64(n), "y", 1).Note, Kind: kind, Origin: a,
			ObservedAt: time.Unix(0, 0).UTC().Format(rule.TimeLayout), Schema: rule.EvidenceSchema, Witness: cfg.Witness.String()}
	}
	count := func(kind rule.Kind) (n int) {
		for i := range 30 {
			kept, err := s.Keep(doc(kind, i))
			if err != nil {
				t.Fatal(err)
			}
			if kept {
				n++
			}
		}
		return n
	}
	if n := count(rule.KindUnproven); n != MaxInconclusive {
		t.Errorf("kept %d that convict nobody", n)
	}
	if n := count(rule.KindSameSize); n != MaxConclusive {
		t.Errorf("kept %d that convict", n)
	}
	_ = s.Close()
	s = mustOpen(t, cfg)
	if kept, err := s.Keep(doc(rule.KindRewritten, 3)); kept || err != nil {
		t.Errorf("one more after a restart: %v, %v", kept, err)
	}
	docs, err := ReadEvidence(cfg.Dir)
	if err != nil || len(docs) != MaxConclusive+MaxInconclusive || s.EvidenceCount() != len(docs) {
		t.Errorf("%d documents, %d counted, %v", len(docs), s.EvidenceCount(), err)
	}
	h := sha256.Sum256([]byte(a))
	if files, _ := filepath.Glob(filepath.Join(cfg.Dir, "evidence", fmt.Sprintf("%x", h), "*.json")); len(files) != len(docs) {
		t.Errorf("%d files", len(files))
	}
	if _, err := ReadEvidence(filepath.Join(cfg.Dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
