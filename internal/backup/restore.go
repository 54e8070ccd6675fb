package backup

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"counterfoil/internal/durable"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/ledger/vault"
)

// Options of a restoration.
type Options struct {
	// Passphrase opens the keys, if they are in the backup; "" leaves them out.
	Passphrase string
	// VerifyOnly makes everything beside the directory, checks it, and removes it.
	VerifyOnly bool
	Logger     *slog.Logger
}

// Restored says what was restored.
type Restored struct {
	Manifest *Manifest // of the last backup
	// Checkpoint is the newest one in the copy; "" if it has none.
	Checkpoint string
	// Missing are key files that the copy does not have, and that a start needs.
	Missing []string
}

// Restore makes the data directory dir from a whole backup and those that continue
// it, in order. dir must be missing or empty. Everything is made and checked in
// DIR.restoring, and renamed at the end: a restoration that fails leaves dir as it
// was. What is checked: every digest, that the backups continue each other, every
// leaf against its tile, the root, and the log's signature on the checkpoint.
func Restore(ctx context.Context, dir string, files []string, opts Options) (_ *Restored, err error) {
	if len(files) == 0 {
		return nil, errors.New("no backup was named")
	}
	dir = filepath.Clean(dir)
	if names, err := os.ReadDir(dir); err == nil && len(names) > 0 && !opts.VerifyOnly {
		return nil, fmt.Errorf("%s is not empty (hint: restore beside it, and move one of the two)", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	tmp := dir + ".restoring"
	if err := os.RemoveAll(tmp); err != nil { // of one that a crash ended
		return nil, err
	}
	if err := durable.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil || opts.VerifyOnly {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	r := &restoration{dir: tmp, partial: map[tiles.Path]tiles.Path{}}
	for i, name := range files {
		if err := r.read(name, i); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	out := &Restored{Manifest: r.last}
	if out.Checkpoint, err = r.checkLog(ctx); err != nil {
		return nil, err
	}
	if err := r.secrets(opts.Passphrase); err != nil {
		return nil, err
	}
	if err := r.vault(opts.Logger); err != nil {
		return nil, err
	}
	if out.Missing, err = missingKeys(filepath.Join(tmp, "keys")); err != nil {
		return nil, err
	}
	if opts.VerifyOnly {
		return out, nil
	}
	if err := syncTree(tmp); err != nil {
		return nil, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// The commit point: the directory is there whole, or not at all.
	return out, durable.Rename(tmp, dir)
}

// missingKeys names the key files that a start needs and that are not there. An
// external signer needs no seed file; who has one knows.
func missingKeys(dir string) (out []string, err error) {
	for _, name := range []string{keyring.LogKeyFile, keyring.TenantKeyFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			out = append(out, "keys/"+name)
		}
	}
	seed, err := keyring.MissingSeed(dir)
	if seed != "" {
		out = append(out, "keys/"+seed)
	}
	return out, err
}

// restoration is one in progress.
type restoration struct {
	dir     string
	last    *Manifest
	partial map[tiles.Path]tiles.Path // tile, as if full → the partial one written for it
	parts   [][]string                // files with rows of the vault, by backup
	sealed  []byte                    // of the last backup that has keys
}

// read puts the files of one backup in their places.
func (r *restoration) read(name string, i int) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r.parts = append(r.parts, nil)
	m, err := Read(f, func(name string, data []byte) error { return r.put(i, name, data) })
	if err != nil {
		return err
	}
	switch {
	case r.last == nil && m.From != (Point{}):
		return fmt.Errorf("it continues a backup that ends at size %d (hint: name the whole backup first, then those that continue it)", m.From.Size)
	case r.last != nil && (m.Origin != r.last.Origin || m.From != r.last.To):
		return fmt.Errorf("it continues a backup of %s that ends at size %d, the one before it is of %s and ends at size %d", m.Origin, m.From.Size, r.last.Origin, r.last.To.Size)
	}
	r.last = m
	return nil
}

func (r *restoration) put(i int, name string, data []byte) error {
	switch {
	case name == secretsName:
		r.sealed = data
		return nil
	case strings.HasPrefix(name, vaultDir):
		part := filepath.Join(r.dir, "vault.parts", fmt.Sprint(i), filepath.Base(name))
		r.parts[i] = append(r.parts[i], part)
		return write(part, data)
	}
	if p, err := tiles.ParsePath(strings.TrimPrefix(name, logDir)); err == nil && p.Kind != tiles.Checkpoint {
		if err := r.supersede(p); err != nil {
			return err
		}
	}
	return write(filepath.Join(r.dir, filepath.FromSlash(name)), data)
}

// supersede removes the narrower version of a tile from an earlier backup.
func (r *restoration) supersede(p tiles.Path) error {
	full := p
	full.Width = tiles.Width
	if old, ok := r.partial[full]; ok && old != p {
		path := filepath.Join(r.dir, "log", filepath.FromSlash(old.String()))
		if err := os.Remove(path); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(path)) // if it is empty
		delete(r.partial, full)
	}
	if !p.Full() {
		r.partial[full] = p
	}
	return nil
}

// write writes a file of which nothing depends yet; syncTree comes later.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// checkLog checks the restored tree and its checkpoint.
func (r *restoration) checkLog(ctx context.Context) (checkpoint string, err error) {
	m := r.last
	log := tiles.NewReader(tiles.Dir(filepath.Join(r.dir, "log")), tiles.Options{})
	root, err := hex.DecodeString(m.Root)
	if err != nil || len(root) != tiles.HashSize {
		return "", fmt.Errorf("the manifest's root %.80q is no hash", m.Root)
	}
	if err := checkTree(ctx, log, 0, m.To.Size, tiles.Hash(root)); err != nil {
		return "", fmt.Errorf("the log of the backup: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(r.dir, "log", "checkpoint"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := checkCheckpoint(ctx, raw, m, log); err != nil {
		return "", fmt.Errorf("the checkpoint of the backup: %w", err)
	}
	return string(raw), nil
}

func checkCheckpoint(ctx context.Context, raw []byte, m *Manifest, log *tiles.Reader) error {
	key, err := trust.ParseVerifierKey(m.VKey)
	if err != nil {
		return err
	}
	n, err := trust.ParseNote(raw)
	if err != nil {
		return err
	}
	cp, err := trust.ParseCheckpoint(n.Text)
	if err != nil {
		return err
	}
	switch v, err := n.VerifyBy(key); {
	case err != nil:
		return err
	case v.Lines == 0 || cp.Origin != m.Origin:
		return fmt.Errorf("it is of log %q, not signed by %s", cp.Origin, m.VKey)
	case cp.Size > m.To.Size:
		return fmt.Errorf("it has size %d, the copy %d", cp.Size, m.To.Size)
	}
	root, err := log.Root(ctx, cp.Size)
	if err != nil {
		return err
	}
	if root != tiles.Hash(cp.Root) {
		return fmt.Errorf("it has root %x at size %d, the copy %x", cp.Root, cp.Size, root)
	}
	return nil
}

func (r *restoration) secrets(passphrase string) error {
	if passphrase == "" {
		return nil
	}
	if r.sealed == nil {
		return errors.New("a passphrase was given, and the backup has no keys")
	}
	files, err := unseal(r.sealed, passphrase)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := write(filepath.Join(r.dir, filepath.FromSlash(f.Name)), f.Data); err != nil {
			return err
		}
	}
	return nil
}

// vault makes the vault from the rows of all backups.
func (r *restoration) vault(log *slog.Logger) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, "vault.parts"))) }()
	var backups []io.Reader
	for _, parts := range r.parts {
		slices.Sort(parts)
		backups = append(backups, &joined{names: parts})
	}
	return vault.Restore(filepath.Join(r.dir, "vault"), log, backups...)
}

// joined reads files one after the other, one open at a time.
type joined struct {
	names []string
	part  bytes.Reader
}

func (j *joined) Read(b []byte) (int, error) {
	for j.part.Len() == 0 {
		if len(j.names) == 0 {
			return 0, io.EOF
		}
		data, err := os.ReadFile(j.names[0]) // vaultPart at most
		if err != nil {
			return 0, err
		}
		j.part.Reset(data)
		j.names = j.names[1:]
	}
	return j.part.Read(b)
}

// syncTree makes everything under dir durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
