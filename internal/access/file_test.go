package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var now = time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)

func add(t *testing.T, path, name string, roles Roles) string {
	t.Helper()
	token, err := Add(path, name, roles, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func open(t *testing.T, path string) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := Open(path, strings.Repeat("f", 64), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s, &log
}

// The file holds digests alone, and what an operator does counts at once.
func TestEVI05_TokensAreAddedAndRevokedWhileALedgerRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	s, log := open(t, path)
	if c, ok := s.Identify(strings.Repeat("f", 64)); !ok || c.Name != FirstToken || c.Roles != Admin {
		t.Fatalf("the first token: %v %v", c, ok)
	}
	w := add(t, path, "billing", Writer)
	both := add(t, path, "reviews", Writer|Auditor)
	for token, want := range map[string]string{w: "billing writer", both: "reviews writer,auditor"} {
		c, ok := s.Identify(token)
		if !ok || c.Name+" "+c.Roles.String() != want {
			t.Errorf("%s: %v %v", want, c, ok)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{w, w[4:], both, both[4:]} {
		if strings.Contains(string(raw), secret) || strings.Contains(log.String(), secret) {
			t.Errorf("the file or the log shows a token: %s\n%s", raw, log)
		}
	}
	if !strings.HasPrefix(w, "cft_") || len(w) != 4+64 {
		t.Errorf("a token is %q", w)
	}

	c, _ := s.Identify(w)
	other, _ := s.Identify(both)
	if err := Revoke(path, "billing"); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Identify(w); ok {
		t.Error("a revoked token passes")
	}
	if c.Revoked.Err() == nil {
		t.Error("what is open with a revoked token goes on")
	}
	if other.Revoked.Err() != nil {
		t.Error("the other token ended too")
	}
	for _, want := range []string{"a token counts from now on", "a token counts no more", "token=billing", "roles=writer,auditor"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	if err := Revoke(path, "billing"); !errors.Is(err, ErrNoToken) {
		t.Errorf("revoked twice: %v", err)
	}
	// The same name again is another token; it opens nothing of the old one's.
	again := add(t, path, "billing", Writer)
	if again == w {
		t.Error("the same token again")
	}
	if _, ok := s.Identify(again); !ok {
		t.Error("a new token of the same name does not pass")
	}
	if _, err := Add(path, "billing", Auditor, now, rand.Reader); err == nil {
		t.Error("a name twice")
	}
}

func TestEVI05_WhatIsOpenEndsWithItsToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	w := add(t, path, "tail", Auditor)
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t, path)
		c, ok := s.Identify(w)
		if !ok {
			t.Fatal("no token")
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go s.Run(ctx)
		if err := os.Remove(path); err != nil { // as bad as it gets: all of them are gone
			t.Fatal(err)
		}
		<-c.Revoked.Done() // though nobody asks
	})
}

func TestAFileThatIsWrongChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	w := add(t, path, "billing", Writer)
	s, log := open(t, path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	row := string(good[bytes.IndexByte(good, '[')+1 : bytes.LastIndexByte(good, ']')])
	for name, bad := range map[string]string{
		"no JSON":             "x",
		"other schema":        strings.Replace(string(good), "tokens.v1", "tokens.v2", 1),
		"unknown member":      strings.Replace(string(good), `"roles"`, `"expires": "never", "roles"`, 1),
		"unknown role":        strings.Replace(string(good), `"writer"`, `"root"`, 1),
		"no role":             strings.Replace(string(good), `"writer"`, ``, 1),
		"a role twice":        strings.Replace(string(good), `"writer"`, `"writer","writer"`, 1),
		"a name twice":        strings.Replace(string(good), row, row+","+row, 1),
		"a name that hides":   strings.Replace(string(good), `"billing"`, `"Billing\n"`, 1),
		"no digest":           strings.Replace(string(good), `"sha256": "`, `"sha256": "0`, 1),
		"no time":             strings.Replace(string(good), `2026-07-28T00:00:00.000Z`, `yesterday`, 1),
		"cut off":             string(good[:len(good)/2]),
		"a duplicate member":  strings.Replace(string(good), `"name": "billing"`, `"name": "billing", "name": "x"`, 1),
		"longer than allowed": string(good) + strings.Repeat(" ", maxFileBytes),
	} {
		if bad == string(good) {
			t.Fatalf("%s: nothing changed", name)
		}
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := s.Identify(w); !ok {
			t.Errorf("%s: a token that was there is closed out", name)
		}
		if _, err := Open(path, strings.Repeat("f", 64), s.log); err == nil {
			t.Errorf("%s: a start takes it", name)
		}
	}
	if !strings.Contains(log.String(), "the tokens stay as they are") {
		t.Errorf("the log: %s", log)
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := List(path); err == nil {
		t.Error("a file that others can read")
	}
}

func TestEditsAtOnceAreAllKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	errs := make(chan error)
	const n = 8
	for i := range n {
		go func() {
			_, err := Add(path, fmt.Sprintf("t%d", i), Writer, now, rand.Reader)
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if tokens, err := List(path); err != nil || len(tokens) != n {
		t.Errorf("%d tokens: %v", len(tokens), err)
	}
}

func FuzzParse(f *testing.F) {
	path := filepath.Join(f.TempDir(), File)
	for i, r := range []Roles{Writer, Auditor, Admin, Writer | Auditor} {
		if _, err := Add(path, fmt.Sprintf("t%d", i), r, now, rand.Reader); err != nil {
			f.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"schemaVersion":"counterfoil.tokens.v1","tokens":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tokens, err := Parse(raw)
		if err != nil {
			return
		}
		for _, tok := range tokens {
			if tok.roles == 0 || tok.roles&^anyRole != 0 || tok.Name == "" {
				t.Errorf("taken: %+v", tok)
			}
		}
	})
}
