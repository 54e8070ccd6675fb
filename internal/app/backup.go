package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"counterfoil/internal/api"
	"counterfoil/internal/backup"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/tiles"
)

// Backup writes a copy of the ledger to w while it runs: see package backup.
func (l *Ledger) Backup(ctx context.Context, w io.Writer, from backup.Point, passphrase string) error {
	// The tree comes first: what is in it has its keys in the vault by now.
	tree, err := l.tlog.Snapshot()
	if err != nil {
		return err
	}
	src := &backup.Source{Origin: l.id.Origin, Tenant: l.id.Tenant, VKey: l.keys.LogVerifierKey(), Tree: tree,
		Tiles: tiles.Dir(l.paths.log()), Vault: l.vault.Backup, Passphrase: passphrase, Now: l.cfg.Now()}
	if src.Identity, err = os.ReadFile(l.paths.ledger()); err != nil {
		return fmt.Errorf("back up the ledger: %w", err)
	}
	keys, err := backupFiles(l.paths.dir, "keys")
	if err != nil {
		return fmt.Errorf("back up the ledger: %w", err)
	}
	for _, f := range keys {
		switch name := filepath.Base(f.Name); {
		case name == keyring.RegistryFile, name == keyring.SignerFile:
			src.Files = append(src.Files, f)
		case name == keyring.TenantKeyFile, keyring.IsSeedFile(name):
			src.Secrets = append(src.Secrets, f)
		}
	}
	for _, dir := range []string{"witness", "witness/incidents"} {
		files, err := backupFiles(l.paths.dir, dir)
		if err != nil {
			return fmt.Errorf("back up the ledger: %w", err)
		}
		src.Files = append(src.Files, files...)
	}
	if gap, err := os.ReadFile(l.gapFile()); err == nil {
		src.Files = append(src.Files, backup.Named{Name: "aside/" + filepath.Base(l.gapFile()), Data: gap})
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up the ledger: %w", err)
	}
	m, err := backup.Write(ctx, w, src, from)
	if errors.Is(err, backup.ErrDamaged) {
		return errors.Join(&api.Unavailable{Reason: "log_damaged", Message: err.Error()}, err)
	}
	if err != nil {
		return fmt.Errorf("back up the ledger: %w", err)
	}
	l.log.Info("the ledger was backed up", "from", m.From.Size, "to", m.To.Size, "files", len(m.Files), "keys", m.Secrets)
	return nil
}

// backupFiles reads the plain files of a directory, none if it is not there.
func backupFiles(data, dir string) (out []backup.Named, err error) {
	names, err := os.ReadDir(filepath.Join(data, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if !n.Type().IsRegular() || n.Name()[0] == '.' {
			continue
		}
		b, err := os.ReadFile(filepath.Join(data, dir, n.Name()))
		if errors.Is(err, fs.ErrNotExist) { // replaced meanwhile: a temporary one
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, backup.Named{Name: dir + "/" + n.Name(), Data: b})
	}
	return out, nil
}
