package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"counterfoil/internal/backup"
	"counterfoil/internal/durable"
	"counterfoil/ledger/client"
)

// backupDocument is the document of backup --json and restore --json.
type backupDocument struct {
	SchemaVersion string       `json:"schemaVersion"` // counterfoil.backup-report.v1
	File          string       `json:"file,omitempty"`
	Bytes         int64        `json:"bytes,omitzero"`
	Origin        string       `json:"origin"`
	CreatedAt     string       `json:"createdAt"`
	From          backup.Point `json:"from"`
	To            backup.Point `json:"to"`
	Root          string       `json:"root"`
	Keys          bool         `json:"keys"`
	Files         int          `json:"files"`
	Missing       []string     `json:"missing,omitempty"` // key files that a start needs
	Witnesses     []seenBy     `json:"witnesses,omitempty"`
}

// seenBy says what a witness knows of the log in a copy.
type seenBy struct {
	Witness string `json:"witness"`
	Size    uint64 `json:"size"`
	Ahead   bool   `json:"ahead"` // it has cosigned more than the copy has
	Error   string `json:"error,omitempty"`
}

func documentOf(m *backup.Manifest) backupDocument {
	return backupDocument{SchemaVersion: "counterfoil.backup-report.v1", Origin: m.Origin, CreatedAt: m.CreatedAt, From: m.From, To: m.To, Root: m.Root, Keys: m.Secrets, Files: len(m.Files)}
}

func (c *cli) backupCommand() *cobra.Command {
	var out, since, passphraseFile string
	cmd := &cobra.Command{
		Use:   "backup --out FILE",
		Short: "Copy a running ledger into one file",
		Long: `backup writes a consistent copy of a running ledger: the log, the vault, the registry of
keys, what witnesses signed. It reads the file back before it says that it is there. The
stream, the views and the index are not in it: they are made anew from the log.

With --since it holds only what came after an earlier backup; a restoration then needs
both. Keys are in it only with --passphrase-file, encrypted.`,
		Example: `  counterfoil backup --out monday.backup
  counterfoil backup --out tuesday.backup --since monday.backup
  counterfoil backup --out whole.backup --passphrase-file passphrase`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usagef("--out FILE", "no file for the backup")
			}
			passphrase, err := readPassphrase(passphraseFile)
			if err != nil {
				return err
			}
			from := client.BackupPoint{}
			if since != "" {
				m, err := readBackup(since)
				if err != nil {
					return err
				}
				from = client.BackupPoint(m.To)
			}
			cl, err := c.connect(false)
			if err != nil {
				return err
			}
			defer cl.Close()
			doc, err := fetchBackup(cmd.Context(), cl, from, passphrase, out)
			if err != nil {
				return err
			}
			return c.showBackup(doc)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	cmd.Flags().StringVar(&since, "since", "", "the backup that this one continues")
	cmd.Flags().StringVar(&passphraseFile, "passphrase-file", "", "file with a passphrase: take the keys along, encrypted")
	c.addClientFlags(cmd)
	return cmd
}

// fetchBackup writes the backup to a file beside out, reads it back, and puts it in
// place.
func fetchBackup(ctx context.Context, cl *client.Client, from client.BackupPoint, passphrase, out string) (doc backupDocument, err error) {
	f, err := os.CreateTemp(filepath.Dir(out), ".backup-*")
	if err != nil {
		return doc, fmt.Errorf("write the backup: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := cl.Backup(ctx, from, passphrase, f); err != nil {
		return doc, err
	}
	if err := f.Sync(); err != nil {
		return doc, fmt.Errorf("write the backup: %w", err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return doc, err
	}
	m, err := backup.Read(f, func(string, []byte) error { return nil })
	if err != nil {
		return doc, fmt.Errorf("the backup does not read back: %w", err)
	}
	if err := durable.Rename(f.Name(), out); err != nil {
		return doc, fmt.Errorf("put the backup in place: %w", err)
	}
	doc = documentOf(m)
	doc.File, doc.Bytes = out, size
	return doc, nil
}

func readBackup(name string) (*backup.Manifest, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := backup.Read(f, func(string, []byte) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// readPassphrase reads the first line of a file that only its owner can read.
func readPassphrase(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	fi, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if fi.Mode().IsRegular() && fi.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is open to group or others (hint: chmod 600)", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if len(line) < 8 {
		return "", usagef("a passphrase of at least 8 bytes", "%s holds %d", name, len(line))
	}
	return string(line), nil
}

func (c *cli) showBackup(d backupDocument) error {
	if c.json {
		return c.printJSON(d)
	}
	from := ""
	if d.From.Size > 0 {
		from = fmt.Sprintf("size %d of an earlier backup", d.From.Size)
	}
	keys := ""
	if d.File != "" {
		keys = "not in it"
	}
	if d.Keys {
		keys = "in it, under the passphrase"
	}
	size := ""
	if d.Bytes > 0 {
		size = fmt.Sprintf("%d bytes, %d files", d.Bytes, d.Files)
	}
	err := pairs(c.env.Stdout, "origin", d.Origin, "made at", d.CreatedAt, "continues", from, "log", fmt.Sprintf("%d leaves, root %s", d.To.Size, d.Root),
		"keys", keys, "file", d.File, "", size)
	for _, m := range d.Missing {
		if err == nil {
			_, err = fmt.Fprintf(c.env.Stdout, "missing  %s: put it there before the ledger starts\n", m)
		}
	}
	for _, w := range d.Witnesses {
		line := fmt.Sprintf("witness  %s has size %d", plain(w.Witness), w.Size)
		switch {
		case w.Error != "":
			line = fmt.Sprintf("witness  %s: %s", plain(w.Witness), plain(w.Error))
		case w.Ahead:
			line += ": MORE than the copy. A ledger from this copy must not sign; it would fork the log"
		}
		if err == nil {
			_, err = fmt.Fprintln(c.env.Stdout, line)
		}
	}
	return err
}
