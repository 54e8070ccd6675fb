package consumer_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// Whichever byte of a cursor is changed, the cursor is refused, at the latest
// when the log is there to compare with.
func TestLOG12_DamagedCursors(t *testing.T) {
	id := newIdentity(t)
	l := newLog(t, id).add(records("a", 40)...)
	events := collect(t, consumer.Config{Log: l.source(), Trust: id.trust(t)})
	for _, e := range []consumer.Event{events[22], events[39]} {
		text := e.Cursor().Append(nil)
		for i := range text {
			for _, bit := range []byte{1, 4, 32} {
				bad := append([]byte(nil), text...)
				bad[i] ^= bit
				wantCursorError(t, l, id, bad)
			}
		}
		for _, bad := range [][]byte{nil, []byte("\n"), []byte("{}"), []byte("null"), text[:len(text)-1], append(text[:len(text):len(text)], "\n\n"...), append([]byte(" "), text...),
			bytes.Replace(text, []byte(`,"next"`), []byte(`, "next"`), 1), bytes.Repeat([]byte("x"), consumer.MaxCursorBytes+2),
			bytes.Replace(text, []byte(`"range":[`), []byte(`"range":["AA==",`), 1), bytes.Replace(text, []byte("cursor.v1"), []byte("cursor.v2"), 1)} {
			wantCursorError(t, l, id, bad)
		}
	}
}

func wantCursorError(t *testing.T, l *testLog, id identity, text []byte) {
	t.Helper()
	c, err := consumer.ParseCursor(text)
	if err == nil {
		var f *consumer.Follower
		if f, err = consumer.New(consumer.Config{Log: l.source(), Trust: id.trust(t), Cursor: c, Stop: true}); err == nil {
			_, err = f.Next(t.Context())
		}
	}
	var e *consumer.CursorError
	if !errors.As(err, &e) {
		t.Errorf("%.300q: %v", text, err)
	}
}

// A cursor that says another place of the right log, or that is made up, does not
// get past the log's root.
func TestLOG12_ForgedCursors(t *testing.T) {
	id := newIdentity(t)
	l := newLog(t, id).add(records("a", 40)...)
	events := collect(t, consumer.Config{Log: l.source(), Trust: id.trust(t)})
	for name, forge := range map[string]func(*consumer.Cursor){
		"other place, same bits": func(c *consumer.Cursor) { c.Next = 21 },
		"made-up range":          func(c *consumer.Cursor) { c.Range = make([]tiles.Hash, 3) },
		"beyond its checkpoint":  func(c *consumer.Cursor) { c.Next = 56 },
		"another note": func(c *consumer.Cursor) {
			c.Note = newIdentity(t).signed(t, trust.Checkpoint{Origin: c.Origin, Size: 40})
		},
		"of another log": func(c *consumer.Cursor) { c.Origin = "ledger.example/other" },
	} {
		c := events[21].Cursor() // next 22 = 0b10110
		if len(c.Range) != 3 {
			t.Fatal("the test wants three hashes")
		}
		forge(c)
		before := l.asked("tile/entries")
		wantCursorError(t, l, id, c.Append(nil))
		if l.asked("tile/entries") != before {
			t.Errorf("%s: leaves were read", name)
		}
	}
	// At the end of its tree a cursor is refused without asking the log.
	end := events[39].Cursor()
	end.Range[0][3] ^= 1
	var e *consumer.CursorError
	if _, err := consumer.New(consumer.Config{Log: l.source(), Trust: id.trust(t), Cursor: end}); !errors.As(err, &e) {
		t.Errorf("at the end: %v", err)
	}
	// The log of another key, that has the same name and leaves.
	other := newIdentity(t)
	c := events[21].Cursor()
	if _, err := consumer.New(consumer.Config{Log: l.source(), Trust: other.trust(t), Cursor: c}); err == nil || !strings.Contains(err.Error(), "does not verify") {
		t.Errorf("another key: %v", err)
	}
}

// A cursor says what the specification's example says, byte for byte.
func TestLOG12_CursorHasOneSpelling(t *testing.T) {
	c := consumer.Cursor{Origin: "ledger.example/log", Next: 3, Note: []byte("ledger.example/log\n3\nAAAA\n\n— ledger.example/log AAAA\n"), Range: make([]tiles.Hash, 2)}
	zero := `"` + strings.Repeat("A", 43) + `="`
	want := `{"checkpoint":"ledger.example/log\n3\nAAAA\n\n— ledger.example/log AAAA\n","next":3,"origin":"ledger.example/log","range":[` + zero + "," + zero + `],"schemaVersion":"counterfoil.cursor.v1"}`
	if got := string(c.Append(nil)); got != want {
		t.Errorf("got %s", got)
	}
	if got := must(consumer.ParseCursor([]byte(want + "\n")))(t); got.Next != 3 || string(got.Append(nil)) != want {
		t.Errorf("read as %+v", got)
	}
}

func TestLOG12_CursorFile(t *testing.T) {
	dir := t.TempDir()
	store := consumer.File(filepath.Join(dir, "cursor"))
	if c, err := consumer.Load(store); c != nil || err != nil {
		t.Errorf("no file: %v, %v", c, err)
	}
	if err := consumer.File(filepath.Join(dir, "none", "cursor")).Save(nil); err == nil {
		t.Error("saved in a directory that is not there")
	}
	for _, text := range []string{"one", "two"} {
		if err := store.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if b := must(store.Load())(t); string(b) != text+"\n" {
			t.Errorf("loaded %q", b)
		}
	}
	var e *consumer.CursorError
	if _, err := consumer.Load(store); !errors.As(err, &e) {
		t.Errorf("a damaged file: %v", err)
	}
	fi := must(os.Stat(string(store)))(t)
	if left := must(os.ReadDir(dir))(t); fi.Mode().Perm() != 0o600 || len(left) != 1 {
		t.Errorf("mode %v, %d files", fi.Mode(), len(left))
	}
	if err := os.WriteFile(string(store), make([]byte, consumer.MaxCursorBytes+9), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Load(store); !errors.As(err, &e) {
		t.Errorf("a huge file: %v", err)
	}
}

// What the log does not say of a cursor the tiles must, and tiles that lie are
// not taken for a damaged cursor.
func TestLOG12_LyingTilesAreNotTheCursorsFault(t *testing.T) {
	id := newIdentity(t)
	l := newLog(t, id).add(records("a", 40)...)
	events := collect(t, consumer.Config{Log: l.source(), Trust: id.trust(t)})
	l.lie("tile/0/000.p/40", flip(5))
	_, err := collectErr(t, consumer.Config{Log: l.source(), Trust: id.trust(t), Cursor: events[21].Cursor()})
	var e *consumer.TreeError
	if !errors.As(err, &e) || e.Size != 40 || e.Expected == e.Got {
		t.Errorf("got %v", err)
	}
}
