package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// FirstToken is the name of the token in DIR/token.
const FirstToken = "first"

// Every is how often a [Store] looks at its file when nobody asks: so long can an
// open stream outlive its token.
const Every = time.Second

// Store knows the tokens of a ledger: the first one, which is an admin's, and those
// in a file, which is read again whenever it changes. A file that cannot be read
// changes nothing, and is told to the log: a slip of the operator's neither opens a
// ledger nor closes it. It is safe for concurrent use.
type Store struct {
	path  string
	first known
	log   *slog.Logger

	mu     sync.Mutex
	opened bool
	known  []known
	seen   fs.FileInfo // of the file that known comes from, nil for none
	failed string      // the last error, told once
}

// known is a token that counts.
type known struct {
	caller Caller
	digest [sha256.Size]byte
	revoke context.CancelFunc
}

// Open reads the tokens. first is the text of the first token, path the file of the
// others, which need not be there; a file that is wrong is an error.
func Open(path, first string, log *slog.Logger) (*Store, error) {
	if len(first) < 32 {
		return nil, fmt.Errorf("the first token has fewer than 32 characters")
	}
	s := &Store{path: path, first: known{caller: Caller{Name: FirstToken, Roles: Admin}, digest: sha256.Sum256([]byte(first))}, log: log}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.readLocked()
}

// Identify returns whose token a text is. It compares digests with all tokens, in
// constant time, so that neither content nor length nor the place of a token shows
// in the time taken.
func (s *Store) Identify(text string) (*Caller, bool) {
	digest := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshLocked()
	found := -1
	for i := range s.known {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], s.known[i].digest[:]), i, found)
	}
	if subtle.ConstantTimeCompare(digest[:], s.first.digest[:]) == 1 {
		c := s.first.caller
		return &c, true
	}
	if found < 0 {
		return nil, false
	}
	c := s.known[found].caller
	return &c, true
}

// Run looks at the file every [Every] until ctx ends, so that a token that was
// revoked also ends what is open.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			s.refreshLocked()
			s.mu.Unlock()
		}
	}
}

func (s *Store) refreshLocked() {
	st, err := os.Stat(s.path)
	if err != nil {
		st = nil
	}
	if st == nil && s.seen == nil && os.IsNotExist(err) {
		return
	}
	if st != nil && s.seen != nil && os.SameFile(st, s.seen) && st.ModTime().Equal(s.seen.ModTime()) && st.Size() == s.seen.Size() && st.Mode() == s.seen.Mode() {
		return
	}
	if err := s.readLocked(); err != nil {
		if s.failed != err.Error() {
			s.failed = err.Error()
			s.log.Error("the tokens stay as they are", "error", err)
		}
		return
	}
	s.failed = ""
}

// readLocked takes what the file holds now. Tokens that stay keep what is open.
func (s *Store) readLocked() error {
	tokens, st, err := read(s.path)
	if err != nil {
		return err
	}
	old := map[Caller]known{}
	for _, k := range s.known {
		key := k.caller
		key.Revoked = nil
		old[key] = k
	}
	next := make([]known, 0, len(tokens))
	for _, t := range tokens {
		c := Caller{Name: t.Name, Roles: t.roles}
		if k, ok := old[c]; ok && k.digest == t.digest {
			delete(old, c)
			next = append(next, k)
			continue
		}
		k := known{caller: c, digest: t.digest}
		k.caller.Revoked, k.revoke = context.WithCancel(context.Background())
		next = append(next, k)
		if s.opened {
			s.log.Info("a token counts from now on", "token", t.Name, "roles", strings.Join(t.Roles, ","))
		}
	}
	s.known, s.seen, s.opened = next, st, true
	for c, k := range old {
		k.revoke()
		s.log.Info("a token counts no more", "token", c.Name, "roles", c.Roles.String())
	}
	return nil
}
