package keyring

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/mod/sumdb/note"
)

const (
	secretSize = 32
	// maxKeyFile bounds key files: an origin of 1 KiB leaves room.
	maxKeyFile = 4 << 10
)

// readGuarded reads the file at path without following a link at its end. The
// checks are made on the opened file, so that nothing can be put in its place
// between check and use. forbidden are the permission bits that it must not
// have; who owns it does not matter. No error quotes the content.
func readGuarded(path string, most int64, forbidden fs.FileMode) ([]byte, error) {
	// O_NONBLOCK: opening a named pipe must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("open %s: %w: it is a symbolic link; hint: give the path of the file itself", path, ErrInsecure)
	} else if err != nil {
		return nil, fmt.Errorf("open key file: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat key file: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w: expected a regular file, found %s", path, ErrInsecure, fi.Mode().Type())
	}
	if bad := fi.Mode().Perm() & forbidden; bad != 0 {
		return nil, fmt.Errorf("open %s: %w: mode %04o gives group or others access; hint: chmod 600 %s",
			path, ErrInsecure, fi.Mode().Perm(), path)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("read %s: %w: larger than %d bytes", path, ErrMalformed, most)
	}
	return data, nil
}

// checkDir refuses a directory in which others could exchange the files.
func checkDir(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("directory of keys: %w", err)
	}
	if !fi.IsDir() {
		return fmt.Errorf("directory of keys %s: %w: it is no directory", path, ErrInsecure)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("directory of keys %s: %w: mode %04o lets group or others exchange the files; hint: chmod 700 %s",
			path, ErrInsecure, fi.Mode().Perm(), path)
	}
	return nil
}

// ReadSeed reads a seed file as [GenerateSeed] wrote it, under the same rules as
// [Open]: for programs that sign in place of the ledger.
func ReadSeed(path string) (Secret, error) { return readSecret(path) }

// readSecret reads 32 bytes written as one line of standard base64.
func readSecret(path string) (Secret, error) {
	data, err := readGuarded(path, maxKeyFile, 0o077)
	if err != nil {
		return Secret{}, err
	}
	bad := fmt.Errorf("key file %s: %w: expected exactly one line of padded standard base64 for %d bytes (%d bytes in the file), got %d bytes",
		path, ErrMalformed, secretSize, len(secretLine([secretSize]byte{})), len(data))
	var b [secretSize]byte
	if len(data) != len(secretLine(b)) {
		return Secret{}, bad
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(data[:len(data)-1]))
	if err != nil || len(raw) != secretSize {
		return Secret{}, bad
	}
	copy(b[:], raw)
	if secretLine(b) != string(data) {
		return Secret{}, bad
	}
	return NewSecret(b), nil
}

func secretLine(b [secretSize]byte) string {
	return base64.StdEncoding.EncodeToString(b[:]) + "\n"
}

// readLogKey reads a note signer key and gives the signer and its verifier key.
func readLogKey(path, origin string) (note.Signer, string, error) {
	data, err := readGuarded(path, maxKeyFile, 0o077)
	if err != nil {
		return nil, "", err
	}
	skey, oneLine := strings.CutSuffix(string(data), "\n")
	signer, err := note.NewSigner(skey)
	if !oneLine || err != nil {
		return nil, "", fmt.Errorf("key file %s: %w: expected one line PRIVATE+KEY+<origin>+<hash>+<base64> of an Ed25519 note key", path, ErrMalformed)
	}
	if signer.Name() != origin {
		return nil, "", fmt.Errorf("key file %s: %w: expected the log key of %q, got that of %q", path, ErrMismatch, origin, signer.Name())
	}
	// note.NewSigner accepts several spellings of one key; this does not.
	// PRIVATE, KEY, origin, hash, base64: the last part may hold more pluses.
	parts := strings.SplitN(skey, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, "", fmt.Errorf("key file %s: %w: the seed cannot be read", path, ErrMalformed)
	}
	canonical, vkey, err := noteKeys(origin, [secretSize]byte(seed[1:]))
	if err != nil || canonical != skey {
		return nil, "", fmt.Errorf("key file %s: %w: the key is not written in the one accepted way", path, ErrMalformed)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, "", fmt.Errorf("key file %s: %w", path, err)
	}
	sig, err := signer.Sign([]byte(selfTest))
	if err != nil || !verifier.Verify([]byte(selfTest), sig) {
		return nil, "", fmt.Errorf("key file %s: self-test: %w", path, ErrBadSignature)
	}
	return signer, vkey, nil
}

// noteKeys writes the two halves of a note key.
func noteKeys(origin string, seed [secretSize]byte) (skey, vkey string, err error) {
	pub := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	vkey, err = note.NewEd25519VerifierKey(origin, pub)
	if err != nil {
		return "", "", err
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return "", "", fmt.Errorf("log origin %q cannot name a note key: %w; hint: no spaces and no plus sign", origin, err)
	}
	const algEd25519 = 1
	skey = fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", origin, v.KeyHash(),
		base64.StdEncoding.EncodeToString(append([]byte{algEd25519}, seed[:]...)))
	return skey, vkey, nil
}
