package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
)

// vaultPart is how many bytes of the vault are in one file of the archive, whose
// length has to be known before it is written.
const vaultPart = 4 << 20

// Named is a small file.
type Named struct {
	Name string
	Data []byte
}

// ErrDamaged: the log is not what its tree says. It is not backed up, since nobody
// could restore it; nothing was written.
var ErrDamaged = errors.New("the log is damaged")

// Source is a ledger to back up. Its tree was taken before Vault is called.
type Source struct {
	Origin, Tenant, VKey string
	Identity             []byte // ledger.json
	Tree                 tlog.Snapshot
	Tiles                tiles.Source
	Vault                func(w io.Writer, since uint64) (next uint64, err error)
	// Files go in as they are: registry, cosignatures, notes.
	Files []Named
	// Secrets go in under the passphrase, if there is one.
	Secrets    []Named
	Passphrase string
	Now        time.Time
}

// Write writes a backup of what came after from, which is a whole one if that is
// the zero Point. A backup that fails has no manifest, and is refused by [Read].
func Write(ctx context.Context, w io.Writer, src *Source, from Point) (*Manifest, error) {
	if from.Size > src.Tree.Size {
		return nil, fmt.Errorf("the backup to continue has %d leaves, this ledger %d: it is of another ledger, or this one was set back", from.Size, src.Tree.Size)
	}
	if err := checkTree(ctx, tiles.NewReader(src.Tiles, tiles.Options{}), from.Size, src.Tree.Size, src.Tree.Root); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	a := &archive{tar: tar.NewWriter(w), m: &Manifest{
		SchemaVersion: Schema, Origin: src.Origin, Tenant: src.Tenant, VKey: src.VKey, CreatedAt: event.FormatTime(src.Now),
		From: from, To: Point{Size: src.Tree.Size}, Root: hex.EncodeToString(src.Tree.Root[:]), Files: []File{},
	}, now: src.Now}
	if err := a.add(identityName, src.Identity); err != nil {
		return nil, err
	}
	if err := a.log(ctx, src, from.Size); err != nil {
		return nil, err
	}
	for _, f := range src.Files {
		if err := a.add(f.Name, f.Data); err != nil {
			return nil, err
		}
	}
	if err := a.vault(src, from.Vault); err != nil {
		return nil, err
	}
	if src.Passphrase != "" {
		sealed, err := seal(src.Secrets, src.Passphrase)
		if err != nil {
			return nil, err
		}
		a.m.Secrets = true
		if err := a.add(secretsName, sealed); err != nil {
			return nil, err
		}
	}
	b, err := a.m.encode()
	if err != nil {
		return nil, err
	}
	if err := a.put(manifestName, b); err != nil {
		return nil, err
	}
	return a.m, a.tar.Close()
}

type archive struct {
	tar *tar.Writer
	m   *Manifest
	now time.Time
}

// log adds the tree: tiles first, and then what says that they are whole.
func (a *archive) log(ctx context.Context, src *Source, from uint64) (err error) {
	tiles.Paths(from, src.Tree.Size, func(p tiles.Path) bool {
		var data []byte
		var got tiles.Path
		if data, got, err = src.Tiles.Read(ctx, p); err == nil {
			data, err = tiles.Cut(got, data, p.Width)
		}
		if err == nil {
			err = a.add(logDir+p.String(), data)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if cp := src.Tree.Checkpoint; cp.Note != nil {
		if err := a.add(logDir+"checkpoint", cp.Note); err != nil {
			return err
		}
	}
	return errors.Join(a.add(logDir+tlog.SnapshotState, src.Tree.State), a.add(guardName, src.Tree.Guard))
}

// vault adds the rows of the vault in parts.
func (a *archive) vault(src *Source, since uint64) error {
	parts := &partWriter{a: a}
	next, err := src.Vault(parts, since)
	if err == nil {
		err = parts.flush()
	}
	a.m.To.Vault = next
	return err
}

// partWriter gathers vaultPart bytes a file.
type partWriter struct {
	a    *archive
	part []byte
	n    int
}

func (p *partWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		take := min(len(b), vaultPart-len(p.part))
		p.part, b = append(p.part, b[:take]...), b[take:]
		if len(p.part) == vaultPart {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (p *partWriter) flush() error {
	if len(p.part) == 0 {
		return nil
	}
	err := p.a.add(fmt.Sprintf("%s%09d", vaultDir, p.n), p.part)
	p.n++
	p.part = p.part[:0]
	return err
}

// add puts a file into the archive and the manifest.
func (a *archive) add(name string, data []byte) error {
	most, ok := allowed(name)
	if !ok || int64(len(data)) > most {
		return fmt.Errorf("%s with %d bytes cannot be in a backup", name, len(data))
	}
	if len(a.m.Files) >= maxFiles {
		return fmt.Errorf("over %d files", maxFiles)
	}
	if err := a.put(name, data); err != nil {
		return err
	}
	a.m.Files = append(a.m.Files, File{Name: name, Size: int64(len(data)), SHA256: digest(sha256.Sum256(data))})
	return nil
}

func (a *archive) put(name string, data []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o600, ModTime: a.now, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := a.tar.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// checkTree compares the leaves from an index on with their tiles, and the tiles
// with the root.
func checkTree(ctx context.Context, log *tiles.Reader, from, size uint64, root tiles.Hash) error {
	leaves := from
	for _, err := range log.Leaves(ctx, from, size, size) {
		if err != nil {
			return err
		}
		leaves++
	}
	got, err := log.Root(ctx, size)
	if err != nil {
		return err
	}
	if got != root || leaves != size {
		return fmt.Errorf("%d leaves with root %x, expected %d and %x", leaves, got, size, root)
	}
	return nil
}
