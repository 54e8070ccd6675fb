package access

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"counterfoil/internal/durable"
	"counterfoil/ledger/event"
)

const (
	// File is the name of the file in a data directory.
	File = "tokens.json"
	// fileSchema is the schemaVersion of a file of tokens.
	fileSchema = "counterfoil.tokens.v1"
	// MaxTokens bounds a file of tokens: every authentication compares with all of
	// them.
	MaxTokens = 256
	// maxFileBytes bounds the file: 256 tokens of less than 300 bytes each.
	maxFileBytes = 128 << 10
	// tokenPrefix begins every token that is made here, so that scanners for
	// secrets find one that was left lying about.
	tokenPrefix = "cft_"
)

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Token is what the file keeps of a token. The token itself is nowhere.
type Token struct {
	// Name tells tokens apart: 1 to 64 of a-z 0-9 . _ -, each once.
	Name  string   `json:"name"`
	Roles []string `json:"roles"`
	// SHA256 is the digest of the token's text, in hex. A token has 256 random
	// bits, so that nothing slower is needed.
	SHA256 string `json:"sha256"`
	// Created is the time of the operator's clock, UTC with milliseconds.
	Created string `json:"created"`

	roles  Roles
	digest [sha256.Size]byte
}

type file struct {
	SchemaVersion string  `json:"schemaVersion"`
	Tokens        []Token `json:"tokens"`
}

// Parse reads a file of tokens. All it holds must be understood: a row that was
// ignored could be the one that was meant to be narrow.
func Parse(raw []byte) ([]Token, error) {
	if len(raw) > maxFileBytes {
		return nil, fmt.Errorf("a file of tokens has at most %d bytes", maxFileBytes)
	}
	var f file
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("a file of tokens: %w", err)
	}
	if f.SchemaVersion != fileSchema {
		return nil, fmt.Errorf("a file of tokens has schemaVersion %q, want %s", f.SchemaVersion, fileSchema)
	}
	if len(f.Tokens) > MaxTokens {
		return nil, fmt.Errorf("%d tokens, at most %d", len(f.Tokens), MaxTokens)
	}
	seen := map[string]bool{}
	for i := range f.Tokens {
		t := &f.Tokens[i]
		if !tokenName.MatchString(t.Name) || seen[t.Name] {
			return nil, fmt.Errorf("token %d: name %q is not 1 to 64 of a-z 0-9 . _ -, or there twice", i, t.Name)
		}
		seen[t.Name] = true
		var err error
		if t.roles, err = ParseRoles(t.Roles); err != nil {
			return nil, fmt.Errorf("token %s: %w", t.Name, err)
		}
		digest, err := hex.DecodeString(t.SHA256)
		if err != nil || len(digest) != sha256.Size || hex.EncodeToString(digest) != t.SHA256 {
			return nil, fmt.Errorf("token %s: sha256 is not 64 lower-case hex digits", t.Name)
		}
		t.digest = [sha256.Size]byte(digest)
		if _, ok := event.ParseTime(t.Created); !ok {
			return nil, fmt.Errorf("token %s: created is not a time in UTC with milliseconds", t.Name)
		}
	}
	return f.Tokens, nil
}

// List reads the tokens of a file; none if there is no file.
func List(path string) ([]Token, error) {
	tokens, _, err := read(path)
	return tokens, err
}

// read also returns what the file was when it was read, nil for none.
func read(path string) ([]Token, fs.FileInfo, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the tokens: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("read the tokens: %w", err)
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return nil, nil, fmt.Errorf("%s is open to group or others, or no regular file (hint: chmod 600)", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the tokens: %w", err)
	}
	tokens, err := Parse(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return tokens, st, nil
}

// Add makes a token and returns its text, which is kept nowhere. It is durable
// when Add returns; a ledger that runs on the directory takes it at once. A name
// that is there is refused.
func Add(path, name string, roles Roles, now time.Time, random io.Reader) (string, error) {
	if !tokenName.MatchString(name) {
		return "", fmt.Errorf("token name %q is not 1 to 64 of a-z 0-9 . _ -", name)
	}
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	text := tokenPrefix + hex.EncodeToString(b[:])
	digest := sha256.Sum256([]byte(text))
	err := edit(path, func(tokens []Token) ([]Token, error) {
		if slices.ContainsFunc(tokens, func(t Token) bool { return t.Name == name }) {
			return nil, fmt.Errorf("there is a token named %s (hint: revoke it first, or choose another name)", name)
		}
		if len(tokens) >= MaxTokens {
			return nil, fmt.Errorf("there are %d tokens, the most that a ledger takes (hint: revoke some)", len(tokens))
		}
		return append(tokens, Token{Name: name, Roles: roles.Names(), SHA256: hex.EncodeToString(digest[:]), Created: event.FormatTime(now)}), nil
	})
	if err != nil {
		return "", err
	}
	return text, nil
}

// ErrNoToken: there is no token of that name.
var ErrNoToken = errors.New("no such token")

// Revoke removes a token. When it returns, no new request passes with it.
func Revoke(path, name string) error {
	return edit(path, func(tokens []Token) ([]Token, error) {
		i := slices.IndexFunc(tokens, func(t Token) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: %s (hint: counterfoil tokens list)", ErrNoToken, name)
		}
		return slices.Delete(tokens, i, i+1), nil
	})
}

// edit changes the file under a lock of its own, since a ledger that runs holds
// that of the directory.
func edit(path string, change func([]Token) ([]Token, error)) error {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock the tokens: %w", err)
	}
	defer lock.Unlock() // it ends with the process in any case
	tokens, err := List(path)
	if err != nil {
		return err
	}
	if tokens, err = change(tokens); err != nil {
		return err
	}
	b, err := json.Marshal(file{fileSchema, tokens}, jsontext.WithIndent("  "), json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	if err := durable.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the tokens: %w", err)
	}
	return nil
}
