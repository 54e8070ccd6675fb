package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"counterfoil/internal/durable"
)

// SignerFile holds the id of the event key that signs, in one line.
const SignerFile = "signer"

const seedPrefix = "event-"

// GenerateEvent writes the seed of a new event key into the directory of keys,
// durably and beside those that are there, and returns its signer. The key signs
// nothing that counts before it is registered ([Registry.Register]), and is not
// opened by [Open] before [Choose].
func GenerateEvent(dir string, random io.Reader) (Signer, error) {
	var seed [secretSize]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("read randomness for an event key: %w", err)
	}
	s, err := newLocalSigner(NewSecret(seed))
	if err != nil {
		return nil, fmt.Errorf("new event key: %w", err)
	}
	if err := durable.Create(filepath.Join(dir, seedFile(s.KeyID())), []byte(secretLine(seed)), 0o600); err != nil {
		return nil, fmt.Errorf("write the seed of event key %s: %w", s.KeyID(), err)
	}
	return s, nil
}

// Choose makes a key of the directory the one that signs from the next [Open]
// on, durably. Its seed must be there.
func Choose(dir, keyID string) error {
	if !isLocalID(keyID) {
		return fmt.Errorf("choose event key %q: %w: expected ed25519: and 64 hex digits", keyID, ErrMalformed)
	}
	path, err := findSeed(dir, keyID)
	if err != nil {
		return err
	}
	if _, err := openSeed(path, keyID, false); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, SignerFile), []byte(keyID+"\n"), 0o600); err != nil {
		return fmt.Errorf("choose event key %s: %w", keyID, err)
	}
	return nil
}

// chosen tells which seed file signs, and the id that its key must have; "" if
// nothing was ever chosen.
func chosen(dir string) (path, id string, err error) {
	first := filepath.Join(dir, EventKeyFile)
	name := filepath.Join(dir, SignerFile)
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return first, "", nil
	}
	line, err := readGuarded(name, maxKeyFile, 0o022)
	if err != nil {
		return "", "", err
	}
	line, ok := bytes.CutSuffix(line, []byte("\n"))
	id = string(line)
	if !ok || !isLocalID(id) {
		return "", "", fmt.Errorf("%s: %w: expected one line with a key id", name, ErrMalformed)
	}
	path, err = findSeed(dir, id)
	return path, id, err
}

// findSeed names the seed file of a key. Which key is in event.key only its
// content tells.
func findSeed(dir, keyID string) (string, error) {
	own := filepath.Join(dir, seedFile(keyID))
	if _, err := os.Lstat(own); err == nil {
		return own, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("seed of event key %s: %w", keyID, err)
	}
	return filepath.Join(dir, EventKeyFile), nil
}

// MissingSeed names the seed file that the key which signs should be in, and is
// not; "" if it is there.
func MissingSeed(dir string) (string, error) {
	path, id, err := chosen(dir)
	if err != nil {
		return "", err
	}
	if _, err := openSeed(path, id, false); err == nil {
		return "", nil
	}
	if id == "" {
		return EventKeyFile, nil
	}
	return seedFile(id), nil
}

// isLocalID reports whether id can be that of a seed in the directory.
func isLocalID(id string) bool {
	hash, ok := strings.CutPrefix(id, "ed25519:")
	return ok && len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == ""
}

// seedFile is the name of a later key's seed file.
func seedFile(keyID string) string {
	_, hash, _ := strings.Cut(keyID, ":")
	return seedPrefix + hash[:min(16, len(hash))] + ".key"
}
